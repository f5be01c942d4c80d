//! Format 1: the structs of the first store format.
//!
//! This file is frozen since its release: no field or variant is changed, moved or removed. The
//! structs are plain, without serde attributes; JSON is stored as text. README.md in this folder
//! has the rules. `session/format/record.rs` and `event.rs` re-export these types, some under
//! clearer names.

use serde::{Deserialize, Serialize};

use crate::{id::TokenId, session::keys::SessionId};

/// A fork point: the position in another session before its event number `events`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkPoint {
    /// The session that is forked.
    pub parent: SessionId,
    /// The number of the parent's events that are shared, counted from its first.
    pub events: u64,
}

/// The first event of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The fork point, whose events precede this session's events; `None` for a root.
    pub fork: Option<ForkPoint>,
    /// The response that this turn continues, by a fork or by a newly rendered prompt.
    pub continues: Option<SessionId>,
    /// Stable id of the API key that created the session; `None` without a key policy.
    pub owner: Option<String>,
    /// The model id.
    pub model: String,
    /// Wall time in milliseconds since 1970. No order depends on it.
    pub created_at_ms: i64,
}

/// The client's input in one turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputAppended {
    /// The input items of the request in order, each as JSON text with its id.
    pub items: Vec<String>,
    /// The preamble (instructions, tools, template arguments) as JSON text.
    pub head: String,
}

/// Tokens appended to the prompt, or generated tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// The token ids, in order.
    pub tokens: Vec<TokenId>,
}

/// The end of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnClosed {
    /// The status of the turn.
    pub status: TurnStatus,
    /// The finish reason.
    pub finish: TurnFinish,
    /// The token counts.
    pub usage: Usage,
    /// The seed. Together with positions it determines every random number.
    pub seed: u64,
    /// Wall time in milliseconds since 1970. No order depends on it.
    pub closed_at_ms: i64,
}

/// The status of an ended turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TurnStatus {
    /// The turn completed.
    Completed,
    /// A limit ended the turn.
    Incomplete,
    /// The engine or the server failed.
    Failed,
    /// The client cancelled the turn or disconnected.
    Cancelled,
    /// The process ended before the turn. The next start writes this status.
    Interrupted,
}

/// The finish reason of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TurnFinish {
    /// The model generated this EOS token.
    EndToken(TokenId),
    /// A stop string of the request was found.
    StopString,
    /// The limit on new tokens was reached.
    MaxTokens,
    /// The context was full.
    ContextFull,
    /// The limit on tool calls was reached.
    CallLimit,
    /// The turn was cancelled.
    Cancelled,
    /// The turn failed, or generation never began.
    Failed,
}

/// The token counts of one turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The number of prompt tokens.
    pub input_tokens: u64,
    /// The number of prompt tokens taken from the prefix cache.
    pub cached_tokens: u64,
    /// The number of generated tokens.
    pub output_tokens: u64,
    /// The number of generated tokens that were reasoning.
    pub reasoning_tokens: u64,
}

/// GC removed all events but the first ones, which forks share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rerooted {
    /// The number of events kept.
    pub kept_events: u64,
}

/// The response was deleted, or dropped by a retention limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purged {
    /// The ordinal of the deletion in the log.
    pub ordinal: u64,
}

/// The header of a session (`SessionHeader` in the program).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Stable id of the API key that created the session.
    pub owner: Option<String>,
    /// The model id.
    pub model: String,
    /// Wall time in milliseconds since 1970.
    pub created_at_ms: i64,
    /// The fork point, whose events precede the session's own events.
    pub fork: Option<ForkPoint>,
    /// The response that this turn continues, as long as the session depends on it.
    pub continues: Option<SessionId>,
    /// The number of forks between this session and its root.
    pub depth: u32,
    /// True if a flattened prefix of the session is stored.
    pub flat: bool,
    /// The number of the session's own events.
    pub events: u64,
    /// The number of the session's own tokens.
    pub tokens: u64,
    /// Bytes of the session's own events and body, before envelopes.
    pub bytes: u64,
    /// The SHA-256 chain over the session's events.
    pub chain: [u8; 32],
    /// The ordinal in the log, once the turn is closed.
    pub ordinal: Option<u64>,
    /// The state of the session.
    pub state: State,
    /// The response, if one is stored.
    pub response: Option<Kept>,
}

/// The state of a session (`SessionState` in the program).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// The turn is in flight.
    Open,
    /// The turn ended without a stored response. The session stays until its retention ends.
    Unstored,
    /// The response can be read.
    Stored,
    /// The response is deleted. The session stays while a stored response continues it, or until GC
    /// erases it.
    Hidden,
    /// Only the first events are kept, for the sessions that share them.
    Trunk,
}

/// The part of a stored response in its session's header (`ResponseHeader` in the program).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The number of the session's events that a fork of the response shares.
    pub end_events: u64,
    /// SHA-256 of the preamble. A fork needs the same preamble.
    pub head_digest: [u8; 32],
    /// True if the tokens represent the items exactly, so that a fork may continue them.
    pub forkable: bool,
    /// Length of the JSON body, in bytes.
    pub body_len_bytes: u64,
    /// SHA-256 of the JSON body.
    pub body_digest: [u8; 32],
    /// The JSON body, if it fits into the header's value; otherwise it has its own values.
    pub body: Option<String>,
}

/// The dependency of a child on its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    /// The number of the parent's events that the child shares, if it forks the parent.
    pub shares_events: Option<u64>,
}

/// A flattened prefix: the tokens of the nearest ancestors, copied together (`FlattenedPrefix` in
/// the program).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flat {
    /// The oldest ancestor whose own tokens are included.
    pub base: SessionId,
    /// The tokens from that ancestor's first event up to this session's fork point.
    pub tokens: Vec<TokenId>,
}

/// An index entry (`IndexEntry` in the program).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The session.
    pub session: SessionId,
    /// The time when the entry was created, in milliseconds since 1970.
    pub at_ms: i64,
}

/// A GC mark (`GcMark` in the program). The key contains all information.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {}

/// The format version and the identity of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Format {
    /// The format version.
    pub version: u32,
    /// A random id, which must match the manifest's.
    pub store: [u8; 16],
}

/// The progress of a format upgrade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upgrade {
    /// The target format version.
    pub to: u32,
    /// The last key that was rewritten.
    pub done: Vec<u8>,
}

/// The totals of the store as of one commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// The number of the commit; counts from 1.
    pub commit: u64,
    /// The number of stored values, this one included.
    pub records: u64,
    /// The number of sessions.
    pub sessions: u64,
    /// The number of visible responses.
    pub responses: u64,
    /// The bytes of visible responses, as counted by the retention limit.
    pub response_bytes: u64,
    /// The next free ordinal in the log.
    pub next_ordinal: u64,
}

/// The manifest, which is stored outside sled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The format version, checked before sled opens a file.
    pub version: u32,
    /// The store's id.
    pub store: [u8; 16],
    /// The number of manifest writes. The slot with the higher number is valid.
    pub generation: u64,
    /// Totals that were durable when the manifest was written.
    pub totals: Totals,
    /// Length of sled's file at that state, in bytes.
    pub db_len_bytes: u64,
    /// The end of sled's log, if the store was closed cleanly.
    pub log_end: u64,
    /// True if the store was closed cleanly. The length is then exact.
    pub closed: bool,
}
