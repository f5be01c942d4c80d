//! `/v1/completions`.

use axum::{
    Extension, Json,
    body::Bytes,
    extract::State,
    response::{IntoResponse as _, Response},
};

use super::{
    AppState,
    body::JsonBody,
    error::ApiError,
    multi_choice::{self, Started},
    openapi::{Guarded, Named, Served},
    responses,
};
use crate::{
    auth::Caller,
    responses::{CreateError, Prepared},
    translate::{
        completions::{self, CompletionChunkEncoder, Completions},
        parse,
    },
    wire::completion::{Completion, CompletionRequest},
};

/// `POST /v1/completions`. Every check comes before the first byte of a stream.
#[utoipa::path(
    post,
    path = "/v1/completions",
    tag = "completions",
    operation_id = "createCompletion",
    summary = "Continue texts",
    description = "Continues texts as they stand, without a chat template.",
    request_body = CompletionRequest,
    responses(
        (
            status = 200,
            description = "The completion, or its chunks",
            content((Completion = "application/json"), (Completion = "text/event-stream")),
            headers(("x-stemma-warm" = u64, description = "Tokens of the first prompt that were in the prefix cache")),
        ),
        Guarded, Named, Served,
    ),
)]
pub(super) async fn create(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    JsonBody(body): JsonBody,
) -> Response {
    responses::metered(&caller, answer(&state, &caller, body)).await
}

async fn answer(state: &AppState, caller: &Caller, body: Bytes) -> Result<Response, ApiError> {
    let worker = caller.clone();
    let prepare = move |state: &AppState| prepare(state, &worker, &body);
    let (wanted, started) = multi_choice::start(state, caller, prepare).await?;
    let Wanted {
        stream,
        answers,
        echo,
        include_usage,
    } = wanted;
    let Started { turns, warm } = started;
    let mut response = if stream {
        let records = multi_choice::records(&turns);
        let begun = CompletionChunkEncoder::start(&records, answers, echo, include_usage);
        let (chunks, first) = begun.ok_or_else(ApiError::internal)?;
        multi_choice::respond(turns, chunks, &first, &state.options)
    } else {
        let records = multi_choice::finish(turns).await?;
        let completion = completions::completion(&records, answers, echo);
        Json(completion.ok_or_else(ApiError::internal)?).into_response()
    };
    responses::add_cache_headers(&mut response, warm, None);
    Ok(response)
}

/// The layout that the client wants.
struct Wanted {
    stream: bool,
    /// Choices for each prompt.
    answers: usize,
    echo: bool,
    include_usage: bool,
}

fn prepare(
    state: &AppState,
    caller: &Caller,
    body: &[u8],
) -> Result<(Wanted, Vec<Prepared>), CreateError> {
    let parsed = parse::parse::<CompletionRequest>(body)?;
    state.unknown_fields.log(&parsed.unknown);
    let stream = parsed.value.stream.unwrap_or(false);
    let Completions {
        turns,
        answers,
        echo,
        include_usage,
    } = completions::completions(parsed.value)?;
    let turns = turns
        .iter()
        .flat_map(|turn| multi_choice::answers_to(turn, answers));
    let prepared = turns.map(|turn| {
        let prepared = state.service.prepare(caller, turn);
        prepared.map_err(|error| multi_choice::about(error, "prompt"))
    });
    let wanted = Wanted {
        stream,
        answers,
        echo,
        include_usage,
    };
    Ok((wanted, prepared.collect::<Result<_, _>>()?))
}
