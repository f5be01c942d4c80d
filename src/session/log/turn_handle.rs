//! The handle of a turn in flight: append events, then end the turn.

use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use super::{SessionLog, closed as log_closed, command::Command};
use crate::{
    id::TokenId,
    session::{
        error::LogError,
        format::{
            codec::Kind,
            event::{Event, Tokens, TurnClosed, TurnFinish, TurnStatus, Usage},
            event_batch::EventBatch,
            payload::{Payload, part_len_bytes},
        },
        keys::{Key, SessionId, Space},
        ops::{
            lifecycle::{ClosedResponse, NewSession, SessionClose, StageTarget, StagedPayload},
            lineage,
        },
    },
};

/// Larger payloads are staged in slices of about this size (256 KiB), in commits of their own.
const SLICE_LEN_BYTES: usize = 256 << 10;

/// A turn whose session is open. Dropping the handle closes the session as cancelled.
pub struct TurnHandle {
    log: SessionLog,
    id: SessionId,
    created_at_ms: i64,
    registered: Option<oneshot::Receiver<Result<(), LogError>>>,
    ended: bool,
}

/// The end of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnEnd {
    /// The tokens generated since the last [`TurnHandle::append`].
    pub generated: Vec<TokenId>,
    /// The closing event.
    pub closed: TurnClosed,
    /// The response to store; `None` stores only the events.
    pub response: Option<NewResponse>,
}

/// A response to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewResponse {
    /// The JSON object sent to the client, as text.
    pub body: String,
    /// SHA-256 of the preamble. A fork needs the same preamble.
    pub preamble_digest: [u8; 32],
    /// True if a fork may continue the tokens. Requires that the turn ended by itself and that its
    /// items represent every generated token.
    pub forkable: bool,
}

impl TurnHandle {
    pub(super) async fn begin(log: SessionLog, session: NewSession) -> Result<Self, LogError> {
        let flat = match session.fork {
            Some(point) => lineage::flattened_prefix_for_fork(&*log.shared.view, point)?,
            None => None,
        };
        let (reply, registered) = oneshot::channel();
        let (id, created_at_ms) = (session.id, session.created_at_ms);
        log.send(Command::Begin { session, reply }).await?;
        let turn = Self {
            log,
            id,
            created_at_ms,
            registered: Some(registered),
            ended: false,
        };
        if let Some(flat) = flat {
            let len_bytes = flat.bytes.len() as u64;
            let (rest, staged_parts) = turn.stage(StageTarget::FlattenedPrefix, flat).await?;
            let prefix = StagedPayload {
                rest,
                staged_parts,
                len_bytes,
                digest: [0; 32],
            };
            turn.log
                .send(Command::FlattenedPrefix { id, prefix })
                .await?;
        }
        Ok(turn)
    }

    /// Returns the id of the session, and of the response if the turn stores one.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Waits until the edges to the session's parents are registered. From then on, GC keeps the
    /// parents while the turn is in flight.
    ///
    /// # Errors
    /// [`LogError::ParentGone`] if a parent was gone. The turn is then over.
    pub async fn registered(&mut self) -> Result<(), LogError> {
        let Some(registered) = self.registered.take() else {
            return Ok(());
        };
        let result = registered.await.unwrap_or_else(|_| Err(log_closed()));
        self.ended |= result.is_err();
        result
    }

    /// Queues events for the next commit. A failed write fails the turn's end.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] if the log is closed.
    pub async fn append(&mut self, events: &[Event]) -> Result<(), LogError> {
        for events in self.event_batches(events).await? {
            let id = self.id;
            self.log.send(Command::Append { id, events }).await?;
        }
        Ok(())
    }

    /// Ends the turn; returns when the end and the response are durable. Stores no response if
    /// retention disables that.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] if any write of the turn failed. Nothing of the turn is then
    /// visible.
    pub async fn end(mut self, end: TurnEnd) -> Result<(), LogError> {
        let registered = self.registered.take();
        self.ended = true;
        let closed_at_ms = end.closed.closed_at_ms;
        let tokens = end.generated;
        let generated = (!tokens.is_empty()).then_some(Event::Generated(Tokens { tokens }));
        let closed = Event::TurnClosed(end.closed);
        let events: Vec<Event> = generated.into_iter().chain([closed]).collect();
        let events = self.event_batches(&events).await?;
        let response = end
            .response
            .filter(|_| !self.log.retention().persistence_disabled());
        let response = match response {
            Some(response) => Some(self.stage_response(response).await?),
            None => None,
        };
        let close = SessionClose {
            events,
            response,
            closed_at_ms,
        };
        let id = self.id;
        let ended = self.log.ask(|reply| Command::End {
            id,
            close,
            reply: Some(reply),
        });
        let ended = ended.await;
        // A turn that was refused at its beginning has no end to store.
        if let Some(registered) = registered {
            registered.await.unwrap_or_else(|_| Err(log_closed()))?;
        }
        ended
    }

    /// Batches events. The batch of a large event is staged here, except for its last part.
    async fn event_batches(&self, events: &[Event]) -> Result<Vec<EventBatch>, LogError> {
        let batch = EventBatch::of(events);
        if batch.rest.bytes.len() <= SLICE_LEN_BYTES {
            return Ok(vec![batch]);
        }
        let mut batches = Vec::new();
        for event in events {
            let mut batch = EventBatch::of(std::slice::from_ref(event));
            if batch.rest.bytes.len() > SLICE_LEN_BYTES {
                // The slices are stored under the number of the session's next event.
                for events in batches.drain(..) {
                    let id = self.id;
                    self.log.send(Command::Append { id, events }).await?;
                }
                (batch.rest, batch.staged_parts) =
                    self.stage(StageTarget::Event, batch.rest).await?;
            }
            batches.push(batch);
        }
        Ok(batches)
    }

    async fn stage_response(&self, response: NewResponse) -> Result<ClosedResponse, LogError> {
        let bytes = response.body.into_bytes();
        let digest = Sha256::digest(&bytes).into();
        let payload = Payload {
            kind: Kind::Body,
            schema: 1,
            bytes,
        };
        let len_bytes = payload.bytes.len() as u64;
        let (rest, staged_parts) = self.stage(StageTarget::Body, payload).await?;
        let body = StagedPayload {
            rest,
            staged_parts,
            len_bytes,
            digest,
        };
        let NewResponse {
            preamble_digest,
            forkable,
            ..
        } = response;
        Ok(ClosedResponse {
            body,
            preamble_digest,
            forkable,
        })
    }

    /// Queues all slices of a large payload but the last; leaves small payloads whole. Returns the
    /// rest and the number of staged parts.
    async fn stage(
        &self,
        target: StageTarget,
        payload: Payload,
    ) -> Result<(Payload, u32), LogError> {
        let part_len = match target {
            StageTarget::Event => part_len_bytes(|part| Key::event(self.id, 0, part)),
            StageTarget::Body => part_len_bytes(|part| Key::part_of(Space::Body, self.id, part)),
            StageTarget::FlattenedPrefix => {
                part_len_bytes(|part| Key::part_of(Space::FlattenedPrefix, self.id, part))
            }
        };
        let slice_parts = SLICE_LEN_BYTES / part_len;
        let slice_len = slice_parts * part_len;
        let Payload {
            kind,
            schema,
            mut bytes,
        } = payload;
        let mut staged = 0;
        // The last slice, at least one byte, is written in the commit that refers to the payload.
        while bytes.len() - staged * part_len > slice_len {
            let from = staged * part_len;
            let slice = bytes[from..from + slice_len].to_vec();
            let slice = Payload {
                kind,
                schema,
                bytes: slice,
            };
            let first_part = staged as u32;
            self.log
                .send(Command::Stage {
                    id: self.id,
                    target,
                    slice,
                    first_part,
                })
                .await?;
            staged += slice_parts;
        }
        let bytes = bytes.split_off(staged * part_len);
        let rest = Payload {
            kind,
            schema,
            bytes,
        };
        Ok((rest, staged as u32))
    }
}

impl Drop for TurnHandle {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let closed = Event::TurnClosed(TurnClosed {
            status: TurnStatus::Cancelled,
            finish: TurnFinish::Cancelled,
            usage: Usage::default(),
            seed: 0,
            closed_at_ms: self.created_at_ms,
        });
        let close = SessionClose {
            events: vec![EventBatch::of(&[closed])],
            response: None,
            closed_at_ms: self.created_at_ms,
        };
        // With a full queue the session keeps its open header; the next start closes it.
        let _ = self.log.shared.queue.try_send(Command::End {
            id: self.id,
            close,
            reply: None,
        });
    }
}
