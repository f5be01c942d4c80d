//! The commands of the committer.

use tokio::sync::oneshot;

use super::read::Access;
use crate::session::{
    error::LogError,
    format::{event_batch::EventBatch, payload::Payload},
    keys::SessionId,
    ops::lifecycle::{NewSession, SessionClose, StageTarget, StagedPayload},
};

pub(super) type Reply = oneshot::Sender<Result<(), LogError>>;

/// What the committer is asked to do.
pub(super) enum Command {
    /// Begin a session; answered as soon as its edges are registered.
    Begin { session: NewSession, reply: Reply },
    /// Append events to a session in flight.
    Append { id: SessionId, events: EventBatch },
    /// Write a slice of a large payload ahead of its last piece.
    Stage {
        id: SessionId,
        target: StageTarget,
        slice: Payload,
        first_part: u32,
    },
    /// Store the flattened tokens of a session's ancestors.
    FlattenedPrefix {
        id: SessionId,
        prefix: StagedPayload,
    },
    /// End a turn; answered once durable. Nobody may wait.
    End {
        id: SessionId,
        close: SessionClose,
        reply: Option<Reply>,
    },
    /// Delete a response; answered once durable.
    Delete {
        access: Access,
        id: SessionId,
        reply: Reply,
    },
    /// Drop what has outlived its time; answered once durable.
    Sweep { now_ms: i64, reply: Reply },
    /// Answered at once, if the store takes writes.
    Probe { reply: Reply },
    /// Answered once nothing is left to erase or drop.
    WaitForGc { reply: Reply },
    /// Close the store; answered once that is done.
    Close { reply: Reply },
}
