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

/// A command to the committer.
pub(super) enum Command {
    /// Begins a session. The reply comes as soon as its edges are registered.
    Begin { session: NewSession, reply: Reply },
    /// Appends events to a session in flight.
    Append { id: SessionId, events: EventBatch },
    /// Writes a slice of a large payload ahead of its last part.
    Stage {
        id: SessionId,
        target: StageTarget,
        slice: Payload,
        first_part: u32,
    },
    /// Stores a session's flattened prefix.
    FlattenedPrefix {
        id: SessionId,
        prefix: StagedPayload,
    },
    /// Ends a turn. The reply, if any, comes when the end is durable.
    End {
        id: SessionId,
        close: SessionClose,
        reply: Option<Reply>,
    },
    /// Deletes a response. The reply comes when the deletion is durable.
    Delete {
        access: Access,
        id: SessionId,
        reply: Reply,
    },
    /// Deletes what has expired at `now_ms`. The reply comes when that is durable.
    Sweep { now_ms: i64, reply: Reply },
    /// Replies at once if the store is writable.
    Probe { reply: Reply },
    /// Replies when GC and retention have no work left.
    WaitForGc { reply: Reply },
    /// Closes the store and replies.
    Close { reply: Reply },
}
