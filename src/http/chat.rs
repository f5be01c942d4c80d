//! `/v1/chat/completions`.

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
    responses, skipped_tools,
};
use crate::{
    auth::Caller,
    conversation::Turn,
    responses::{CreateError, Prepared},
    translate::{
        chat::{self, Chat, ChatChunkEncoder},
        parse,
    },
    wire::chat::{ChatChunk, ChatCompletion, ChatRequest},
};

/// `POST /v1/chat/completions`. Every check comes before the first byte of a stream.
#[utoipa::path(
    post,
    path = "/v1/chat/completions",
    tag = "chat",
    operation_id = "createChatCompletion",
    summary = "Answer a chat",
    description = "Generates answers to a conversation, which come whole, or with `stream` in chunks.",
    request_body = ChatRequest,
    responses(
        (
            status = 200,
            description = "The completion, or its chunks",
            content((ChatCompletion = "application/json"), (ChatChunk = "text/event-stream")),
            headers(("x-stemma-warm" = u64, description = "Tokens of the prompt that were in the prefix cache")),
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
    let (request, started) = multi_choice::start(state, caller, prepare).await?;
    let Started { turns, warm } = started;
    let alias = state.options.reasoning_alias;
    let first = turns.first().map(|turn| &turn.record().turn);
    let skipped = first.and_then(|turn| skipped_tools::header(&turn.skipped_tools));
    let mut response = if request.stream {
        let (chunks, first) =
            ChatChunkEncoder::start(&multi_choice::records(&turns), request.include_usage, alias);
        multi_choice::respond(turns, chunks, &first, &state.options)
    } else {
        let records = multi_choice::finish(turns).await?;
        let completion = chat::completion(&records, alias).ok_or_else(ApiError::internal)?;
        Json(completion).into_response()
    };
    responses::add_cache_headers(&mut response, warm, None);
    skipped_tools::add(&mut response, skipped);
    Ok(response)
}

/// The layout that the client wants.
struct Wanted {
    stream: bool,
    include_usage: bool,
}

fn prepare(
    state: &AppState,
    caller: &Caller,
    body: &[u8],
) -> Result<(Wanted, Vec<Prepared>), CreateError> {
    let parsed = parse::parse::<ChatRequest>(body)?;
    state.unknown_fields.log(&parsed.unknown);
    let stream = parsed.value.stream.unwrap_or(false);
    let Chat {
        turn,
        answers,
        include_usage,
    } = chat::chat(parsed.value, state.options.unsupported_tools)?;
    let prepare = |turn: Turn| {
        let prepared = state.service.prepare(caller, turn);
        prepared.map_err(|error| multi_choice::about(error, "messages"))
    };
    let turns = multi_choice::answers_to(&turn, answers).map(prepare);
    let wanted = Wanted {
        stream,
        include_usage,
    };
    Ok((wanted, turns.collect::<Result<_, _>>()?))
}
