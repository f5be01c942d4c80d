//! `/v1/chat/completions`.

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use axum::{
    Extension, Json,
    body::{Body, Bytes},
    extract::State,
    response::{IntoResponse, Response},
};
use futures::{
    StreamExt as _,
    stream::{self, BoxStream, SelectAll},
};
use serde::Serialize;
use tokio::time::timeout;

use super::{AppState, HttpOptions, body::JsonBody, error::ApiError, responses, sse};
use crate::{
    auth::Caller,
    conversation::{Record, Status, Turn},
    responses::{CreateError, Prepared, RunningTurn, TurnEvent},
    translate::{
        chat::{self, Chat, Chunks},
        outbound, parse,
    },
    wire::{ErrorBody, chat::ChatRequest},
};

/// `POST /v1/chat/completions`. Every check comes before the first byte of a stream.
pub(super) async fn create(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    JsonBody(body): JsonBody,
) -> Response {
    responses::metered(&caller, answer(&state, &caller, body)).await
}

async fn answer(state: &AppState, caller: &Caller, body: Bytes) -> Result<Response, ApiError> {
    let permit = responses::permit(caller)?;
    let refuse = |error| ApiError::of_create(error, state.options.retry_after);
    let worker = caller.clone();
    let ready = responses::prepared(state, move |state| prepare(state, &worker, &body));
    let ready = ready.await.map_err(refuse)?;
    let mut turns = Vec::new();
    for prepared in ready.turns {
        let turn = state.service.start(prepared, permit.clone()).await;
        turns.push(turn.map_err(refuse)?);
    }
    let warm = turns.first().map_or(0, RunningTurn::cached_tokens);
    let mut response = match ready.stream {
        true => respond(turns, ready.include_usage, &state.options),
        false => whole(turns).await?,
    };
    responses::add_warmth(&mut response, warm, None);
    Ok(response)
}

/// A request that can be answered.
struct Ready {
    turns: Vec<Prepared>,
    stream: bool,
    include_usage: bool,
}

fn prepare(state: &AppState, caller: &Caller, body: &[u8]) -> Result<Ready, CreateError> {
    let parsed = parse::parse::<ChatRequest>(body)?;
    state.unknown_fields.log(&parsed.unknown);
    let stream = parsed.value.stream.unwrap_or(false);
    let Chat {
        turn,
        answers,
        include_usage,
    } = chat::chat(parsed.value)?;
    let prepare = |number| {
        let prepared = state.service.prepare(caller, answer_number(&turn, number));
        prepared.map_err(|error| match error {
            CreateError::Refused(refusal) => refusal.renamed("input", "messages").into(),
            other => other,
        })
    };
    let turns = (0..answers as u64).map(prepare).collect::<Result<_, _>>()?;
    Ok(Ready {
        turns,
        stream,
        include_usage,
    })
}

/// The turn of one of several answers. With one seed for all they would be equal.
fn answer_number(turn: &Turn, number: u64) -> Turn {
    let mut turn = turn.clone();
    let seed = turn.sampling.seed;
    turn.sampling.seed = seed.map(|seed| seed.wrapping_add(number));
    turn
}

/// Answers when all turns have ended.
async fn whole(turns: Vec<RunningTurn>) -> Result<Response, ApiError> {
    let records = futures::future::join_all(turns.into_iter().map(RunningTurn::finish)).await;
    let failure = records.iter().find_map(|record| match record.status {
        Status::Failed(failure) => Some(failure),
        _ => None,
    });
    match (failure, chat::completion(&records)) {
        (Some(failure), _) => Err(ApiError::of_failure(failure)),
        (None, Some(completion)) => Ok(Json(completion).into_response()),
        (None, None) => Err(ApiError::internal()),
    }
}

/// Streams the turns. Dropping the body cancels the generations.
fn respond(turns: Vec<RunningTurn>, include_usage: bool, options: &HttpOptions) -> Response {
    let frames = Frames::new(turns, include_usage, options);
    let frames = stream::unfold(frames, async |mut frames| {
        let frame = frames.next().await?;
        Some((Ok::<_, Infallible>(frame), frames))
    });
    (sse::HEADERS, Body::from_stream(frames)).into_response()
}

/// The frames of one stream.
struct Frames {
    events: SelectAll<BoxStream<'static, (usize, TurnEvent)>>,
    chunks: Chunks,
    ready: VecDeque<Bytes>,
    is_over: bool,
    keep_alive: Duration,
}

impl Frames {
    fn new(turns: Vec<RunningTurn>, include_usage: bool, options: &HttpOptions) -> Self {
        let records: Vec<&Record> = turns.iter().map(RunningTurn::record).collect();
        let (chunks, first) = Chunks::start(&records, include_usage);
        let events = turns.into_iter().enumerate().map(|(index, turn)| {
            let events = stream::unfold(turn, async |mut turn| Some((turn.next().await?, turn)));
            events.map(move |event| (index, event)).boxed()
        });
        Self {
            events: stream::select_all(events),
            chunks,
            ready: first.iter().map(frame).collect(),
            is_over: false,
            keep_alive: options.keep_alive,
        }
    }

    /// The next frame; `None` after the last.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            if self.is_over {
                return None;
            }
            match timeout(self.keep_alive, self.events.next()).await {
                Ok(Some((index, event))) => self.take(index, event),
                Ok(None) => self.is_over = true,
                Err(_) => self.ready.push_back(Bytes::from_static(sse::COMMENT)),
            }
        }
    }

    fn take(&mut self, index: usize, event: TurnEvent) {
        match event {
            TurnEvent::Answer(event) => {
                let chunk = self.chunks.answer(index, event);
                self.ready.extend(chunk.iter().map(frame));
            }
            TurnEvent::Ended(record) => match record.status {
                // Whatever the others do, the client is told and will not listen on.
                Status::Failed(failure) => {
                    let error = outbound::failure(failure);
                    self.ready.push_back(frame(&ErrorBody { error }));
                    self.is_over = true;
                }
                _ => {
                    let chunks = self.chunks.end(index, record);
                    self.ready.extend(chunks.iter().map(frame));
                    if self.chunks.is_over() {
                        self.ready
                            .push_back(Bytes::from_static(b"data: [DONE]\n\n"));
                        self.is_over = true;
                    }
                }
            },
        }
    }
}

fn frame(chunk: &impl Serialize) -> Bytes {
    sse::frame(None, chunk)
}
