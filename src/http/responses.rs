//! `/v1/responses`.

use std::{sync::Arc, time::Instant};

use axum::{
    Extension, Json,
    body::Bytes,
    extract::State,
    http::HeaderValue,
    response::{IntoResponse, Response},
};

use super::{AppState, body::JsonBody, error::ApiError, rates, sse};
use crate::{
    auth::Caller,
    conversation::Status,
    responses::{CreateError, Prepared, RunningTurn},
    translate::{inbound, outbound, parse},
    wire::CreateRequest,
};

/// `POST /v1/responses`. Every check comes before the first byte of a stream.
pub(super) async fn create(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    JsonBody(body): JsonBody,
) -> Response {
    let allowance = caller.allowance.clone();
    let mut answer = answer(&state, caller, body).await.into_response();
    if let Some(allowance) = allowance {
        rates::add(answer.headers_mut(), &allowance.standing(Instant::now()));
    }
    answer
}

async fn answer(state: &AppState, caller: Caller, body: Bytes) -> Result<Response, ApiError> {
    let permit = caller
        .allowance
        .as_ref()
        .map(|left| left.admit(Instant::now()));
    let permit = permit.transpose()?;
    let refuse = |error| ApiError::of_create(error, state.options.retry_after);
    let Ready { prepared, stream } = ready(state, caller, body).await.map_err(refuse)?;
    let turn = state
        .service
        .start(prepared, permit)
        .await
        .map_err(refuse)?;
    let warm = HeaderValue::from(turn.cached_tokens());
    let temperature = turn.temperature();
    let mut response = match stream {
        true => sse::respond(turn, &state.options),
        false => whole(turn).await?,
    };
    let headers = response.headers_mut();
    headers.insert("x-stemma-warm", warm);
    if let Some(temperature) = temperature {
        let temperature = HeaderValue::from_static(temperature.as_str());
        headers.insert("x-stemma-continuation", temperature);
    }
    Ok(response)
}

/// Answers when the turn has ended.
async fn whole(turn: RunningTurn) -> Result<Response, ApiError> {
    let record = turn.finish().await;
    match record.status {
        Status::Failed(failure) => Err(ApiError::of_failure(failure)),
        _ => Ok(Json(outbound::response(&record)).into_response()),
    }
}

/// A request that can be answered.
struct Ready {
    prepared: Prepared,
    stream: bool,
}

/// Parses, checks, renders and tokenises, on a thread where that holds nobody up, and not for more
/// requests at once than there are processors.
async fn ready(state: &AppState, caller: Caller, body: Bytes) -> Result<Ready, CreateError> {
    let permit = Arc::clone(&state.preparing).acquire_owned().await;
    let worker = state.clone();
    let span = tracing::Span::current();
    let work = move || {
        // Held until the work is done, even if nobody waits for it any more.
        let _permit = permit;
        span.in_scope(|| prepare(&worker, &caller, &body))
    };
    let done = blocking(work).await;
    done.unwrap_or(Err(CreateError::ShuttingDown))
}

/// Does work that takes a processor or a disk, on a thread where that holds nobody up. A panic goes
/// on as if it had happened here; there is nothing if the runtime stops.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_or_else(
        |error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => None,
        },
        Some,
    )
}

fn prepare(state: &AppState, caller: &Caller, body: &[u8]) -> Result<Ready, CreateError> {
    let parsed = parse::parse::<CreateRequest>(body)?;
    state.unknown_fields.log(&parsed.unknown);
    let request = parsed.value;
    let stream = request.stream.unwrap_or(false);
    let turn = inbound::turn(request)?;
    let prepared = state.service.prepare(caller, turn)?;
    Ok(Ready { prepared, stream })
}
