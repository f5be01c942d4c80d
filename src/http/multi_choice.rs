//! Requests with several choices: their turns start together, end together, and share a stream.

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use axum::{
    body::{Body, Bytes},
    response::{IntoResponse as _, Response},
};
use futures::{
    StreamExt as _,
    stream::{self, BoxStream, SelectAll},
};
use serde::Serialize;
use tokio::time::timeout;

use super::{AppState, HttpOptions, error::ApiError, responses, sse};
use crate::{
    auth::Caller,
    conversation::{ResponseState, Status, Turn},
    responses::{CreateError, Prepared, RunningTurn, TurnEvent},
    translate::{chunk_encoder::ChunkEncoder, outbound},
    wire::ErrorBody,
};

/// Running turns.
pub(super) struct Started {
    pub(super) turns: Vec<RunningTurn>,
    /// Tokens of the first prompt that come from the prefix cache.
    pub(super) warm: u64,
}

/// Prepares turns on a blocking thread and starts them. Passes the rest of the preparation's result
/// on.
pub(super) async fn start<T: Send + 'static>(
    state: &AppState,
    caller: &Caller,
    prepare: impl FnOnce(&AppState) -> Result<(T, Vec<Prepared>), CreateError> + Send + 'static,
) -> Result<(T, Started), ApiError> {
    let permit = responses::permit(caller)?;
    let refuse = |error| ApiError::of_create(error, state.options.retry_after);
    let prepared = responses::prepared(state, prepare).await;
    let (request, prepared) = prepared.map_err(refuse)?;
    let mut turns = Vec::new();
    for prepared in prepared {
        let turn = state.service.start(prepared, permit.clone()).await;
        turns.push(turn.map_err(refuse)?);
    }
    let warm = turns.first().map_or(0, RunningTurn::cached_tokens);
    Ok((request, Started { turns, warm }))
}

/// Returns the turns of several choices. A seed is incremented for each, or all choices would be
/// equal.
pub(super) fn answers_to(turn: &Turn, answers: usize) -> impl Iterator<Item = Turn> {
    (0..answers as u64).map(move |number| {
        let mut turn = turn.clone();
        let seed = turn.sampling.seed;
        turn.sampling.seed = seed.map(|seed| seed.wrapping_add(number));
        turn
    })
}

/// Renames the parameter of a request error to the API's own name.
pub(super) fn about(error: CreateError, param: &str) -> CreateError {
    match error {
        CreateError::Refused(refusal) => refusal.renamed("input", param).into(),
        other => other,
    }
}

/// Returns the initial states of the responses.
pub(super) fn records(turns: &[RunningTurn]) -> Vec<&ResponseState> {
    turns.iter().map(RunningTurn::record).collect()
}

/// Waits until all turns have ended.
pub(super) async fn finish(turns: Vec<RunningTurn>) -> Result<Vec<ResponseState>, ApiError> {
    let records = futures::future::join_all(turns.into_iter().map(RunningTurn::finish)).await;
    let failure = records.iter().find_map(|record| match record.status {
        Status::Failed(failure) => Some(failure),
        _ => None,
    });
    match failure {
        Some(failure) => Err(ApiError::of_failure(failure)),
        None => Ok(records),
    }
}

/// Streams the turns. Dropping the body cancels the generations.
pub(super) fn respond<C: ChunkEncoder + Send + 'static>(
    turns: Vec<RunningTurn>,
    chunks: C,
    first: &[C::Chunk],
    options: &HttpOptions,
) -> Response {
    let frames = Frames::new(turns, chunks, first, options);
    let frames = stream::unfold(frames, async |mut frames| {
        let frame = frames.next().await?;
        Some((Ok::<_, Infallible>(frame), frames))
    });
    (sse::HEADERS, Body::from_stream(frames)).into_response()
}

/// The frames of one stream.
struct Frames<C> {
    events: SelectAll<BoxStream<'static, (usize, TurnEvent)>>,
    chunks: C,
    ready: VecDeque<Bytes>,
    is_over: bool,
    keep_alive: Duration,
}

impl<C: ChunkEncoder> Frames<C> {
    fn new(turns: Vec<RunningTurn>, chunks: C, first: &[C::Chunk], options: &HttpOptions) -> Self {
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

    /// Returns the next frame; `None` after the last.
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
                // One failed choice fails the request: the client gets the error and stops reading.
                Status::Failed(failure) => {
                    let error = outbound::failure(failure);
                    self.ready.push_back(frame(&ErrorBody { error }));
                    self.is_over = true;
                }
                _ => {
                    let chunks = self.chunks.end(index, *record);
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
