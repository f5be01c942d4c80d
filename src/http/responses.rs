//! `/v1/responses`.

use std::{sync::Arc, time::Instant};

use axum::{
    Extension, Json,
    body::Bytes,
    extract::State,
    http::HeaderValue,
    response::{IntoResponse, Response},
};

use super::{
    AppState,
    body::JsonBody,
    error::ApiError,
    openapi::{Guarded, Named, Served},
    rate_limit_headers, skipped_tools, sse,
};
use crate::{
    auth::{Caller, Permit},
    conversation::Status,
    responses::{ContinuationState, CreateError, Prepared, RunningTurn},
    translate::{inbound, outbound, parse},
    wire::{self, CreateRequest, InputTokens},
};

/// `POST /v1/responses`. Every check comes before the first byte of a stream.
#[utoipa::path(
    post,
    path = "/v1/responses",
    tag = "responses",
    operation_id = "createResponse",
    summary = "Answer",
    description = "Generates an answer, which comes whole, or with `stream` as server-sent events.",
    request_body = CreateRequest,
    responses(
        (
            status = 200,
            description = "The response, or its events",
            content((wire::Response = "application/json"), (wire::Event = "text/event-stream")),
            headers(
                ("x-stemma-warm" = u64, description = "Tokens of the prompt that need not be read"),
                ("x-stemma-continuation" = String, description = "Of a continuation: `warm`, `thawed`, `cold` or `rebuilt`"),
            ),
        ),
        Guarded, Named, Served,
    ),
)]
pub(super) async fn create(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    JsonBody(body): JsonBody,
) -> Response {
    metered(&caller, answer(&state, &caller, body)).await
}

/// Adds to an answer what the key may still ask for.
pub(super) async fn metered(
    caller: &Caller,
    answer: impl Future<Output = Result<Response, ApiError>>,
) -> Response {
    let mut answer = answer.await.into_response();
    if let Some(allowance) = &caller.allowance {
        rate_limit_headers::add(answer.headers_mut(), &allowance.status(Instant::now()));
    }
    answer
}

/// Takes one request from the key's rate limits.
pub(super) fn permit(caller: &Caller) -> Result<Option<Arc<Permit>>, ApiError> {
    let allowance = caller.allowance.as_ref();
    let permit = allowance.map(|left| left.admit(Instant::now()));
    Ok(permit.transpose()?.map(Arc::new))
}

/// Adds the headers for the cached tokens and the continuation state.
pub(super) fn add_cache_headers(
    response: &mut Response,
    warm: u64,
    temperature: Option<ContinuationState>,
) {
    let headers = response.headers_mut();
    headers.insert("x-stemma-warm", HeaderValue::from(warm));
    if let Some(temperature) = temperature {
        let temperature = HeaderValue::from_static(temperature.as_str());
        headers.insert("x-stemma-continuation", temperature);
    }
}

async fn answer(state: &AppState, caller: &Caller, body: Bytes) -> Result<Response, ApiError> {
    let permit = permit(caller)?;
    let refuse = |error| ApiError::of_create(error, state.options.retry_after);
    let worker = caller.clone();
    let ready = prepared(state, move |state| prepare(state, &worker, &body));
    let Ready { prepared, stream } = ready.await.map_err(refuse)?;
    let turn = state
        .service
        .start(prepared, permit)
        .await
        .map_err(refuse)?;
    let warm = turn.cached_tokens();
    let temperature = turn.continuation_state();
    let skipped = skipped_tools::header(&turn.record().turn.skipped_tools);
    let mut response = match stream {
        true => sse::respond(turn, &state.options),
        false => whole(turn).await?,
    };
    add_cache_headers(&mut response, warm, temperature);
    skipped_tools::add(&mut response, skipped);
    Ok(response)
}

/// `POST /v1/responses/input_tokens`: the number of tokens of the request's prompt.
#[utoipa::path(
    post,
    path = "/v1/responses/input_tokens",
    tag = "responses",
    operation_id = "countInputTokens",
    summary = "Count the tokens of a prompt",
    description = "Tells how long the prompt of this request is, without generating.",
    request_body = CreateRequest,
    responses(
        (status = 200, description = "The number of tokens", body = InputTokens),
        Guarded, Named, Served,
    ),
)]
pub(super) async fn input_tokens(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    JsonBody(body): JsonBody,
) -> Result<Json<InputTokens>, ApiError> {
    let counted = prepared(&state, move |state| {
        let ready = prepare(state, &caller, &body)?;
        Ok(ready.prepared.input_tokens())
    });
    let refuse = |error| ApiError::of_create(error, state.options.retry_after);
    Ok(Json(InputTokens {
        object: "response.input_tokens",
        input_tokens: counted.await.map_err(refuse)?,
    }))
}

/// Waits for the end of the turn and answers with the response.
async fn whole(turn: RunningTurn) -> Result<Response, ApiError> {
    let record = turn.finish().await;
    match record.status {
        Status::Failed(failure) => Err(ApiError::of_failure(failure)),
        _ => Ok(Json(outbound::response(&record)).into_response()),
    }
}

/// A request that is ready to run.
struct Ready {
    prepared: Prepared,
    stream: bool,
}

/// Parses, validates, renders and tokenises a request on a blocking thread. At most as many
/// requests are prepared at once as there are processors.
pub(super) async fn prepared<T: Send + 'static>(
    state: &AppState,
    prepare: impl FnOnce(&AppState) -> Result<T, CreateError> + Send + 'static,
) -> Result<T, CreateError> {
    let permit = Arc::clone(&state.preparing).acquire_owned().await;
    let worker = state.clone();
    let span = tracing::Span::current();
    let work = move || {
        // Held until the work is done, even if the client has disconnected.
        let _permit = permit;
        span.in_scope(|| prepare(&worker))
    };
    let done = blocking(work).await;
    done.unwrap_or(Err(CreateError::ShuttingDown))
}

/// Runs CPU or disk work on a blocking thread. A panic is resumed here; `None` if the runtime
/// stops.
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
    let turn = inbound::turn(request, state.options.unsupported_tools)?;
    let prepared = state.service.prepare(caller, turn)?;
    Ok(Ready { prepared, stream })
}
