//! Format 1: the structs that the first version of the store writes.
//!
//! Frozen: once released, no field or variant here is changed, moved or removed. Plain structs only,
//! without serde attributes; JSON is held as text. See README.md in this folder for the rules.

use serde::{Deserialize, Serialize};

use crate::{id::TokenId, session::keys::SessionId};

/// A place in another session: everything before its event number `events`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkPoint {
    /// The session forked from.
    pub parent: SessionId,
    /// How many of the parent's events are shared, counted from its first.
    pub events: u64,
}

/// How a session began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The events of another session that precede this one's, if it is a fork.
    pub fork: Option<ForkPoint>,
    /// The response that this turn continues, whether by a fork or by a fresh rendering.
    pub continues: Option<SessionId>,
    /// Stable id of the key that created the session; `None` without a key policy.
    pub owner: Option<String>,
    /// Id of the model.
    pub model: String,
    /// Wall time in milliseconds since 1970; it decides no order.
    pub created_at_ms: i64,
}

/// What the client sent in one turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputAppended {
    /// The request's own input items in order, each as JSON text with its id.
    pub items: Vec<String>,
    /// What leads the prompt (instructions, tools, template arguments) as JSON text.
    pub head: String,
}

/// Tokens appended to the prompt, or generated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Which tokens, in order.
    pub tokens: Vec<TokenId>,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnClosed {
    /// What became of the turn.
    pub status: TurnStatus,
    /// Why generation stopped.
    pub finish: TurnFinish,
    /// Tokens counted.
    pub usage: Usage,
    /// The seed that, with positions, decided every random number.
    pub seed: u64,
    /// Wall time in milliseconds since 1970; it decides no order.
    pub closed_at_ms: i64,
}

/// What became of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TurnStatus {
    /// Answered in full.
    Completed,
    /// Cut by a limit.
    Incomplete,
    /// The engine or the server failed.
    Failed,
    /// The client cancelled or went away.
    Cancelled,
    /// The process ended before the turn did; written when the store is next opened.
    Interrupted,
}

/// Why generation stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TurnFinish {
    /// The model ended its answer with this token.
    EndToken(TokenId),
    /// A stop string of the request was found.
    StopString,
    /// The limit on new tokens was reached.
    MaxTokens,
    /// The context was full.
    ContextFull,
    /// The limit on tool calls was reached.
    CallLimit,
    /// It was told to stop.
    Cancelled,
    /// It failed, or never began.
    Failed,
}

/// Tokens of one turn, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the whole prompt.
    pub input_tokens: u64,
    /// Those of the prompt that came from the prefix cache.
    pub cached_tokens: u64,
    /// Tokens generated.
    pub output_tokens: u64,
    /// Those generated that were reasoning.
    pub reasoning_tokens: u64,
}

/// Only the events that forks share were kept of a session that nothing else needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rerooted {
    /// How many events were kept.
    pub kept_events: u64,
}

/// The response was deleted, or dropped by a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purged {
    /// The place in the log at which that happened.
    pub ordinal: u64,
}

/// What a session consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Stable id of the key that created the session.
    pub owner: Option<String>,
    /// Id of the model.
    pub model: String,
    /// Wall time in milliseconds since 1970.
    pub created_at_ms: i64,
    /// What precedes the session's own events.
    pub fork: Option<ForkPoint>,
    /// The response that this turn continues, while it needs it.
    pub continues: Option<SessionId>,
    /// Number of forks between this session and its root.
    pub depth: u32,
    /// Whether flattened tokens of its nearest ancestors are stored.
    pub flat: bool,
    /// Number of its own events.
    pub events: u64,
    /// Number of its own tokens.
    pub tokens: u64,
    /// Bytes of its own events and body, before envelopes.
    pub bytes: u64,
    /// SHA-256 chain over its events.
    pub chain: [u8; 32],
    /// Its place in the log, once its turn is closed.
    pub ordinal: Option<u64>,
    /// What it is kept for.
    pub state: State,
    /// Its response, if one is kept.
    pub response: Option<Kept>,
}

/// What a session is kept for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Its turn is in flight.
    Open,
    /// Its turn ended and stored nothing; kept until the retention of such sessions ends.
    Unstored,
    /// Its response can be read.
    Stored,
    /// No longer for itself: for what continues it, or until it is erased.
    Hidden,
    /// For those that share its first events.
    Trunk,
}

/// What is known of a stored response beside what its session's head says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// A fork of it shares this many events of its session.
    pub end_events: u64,
    /// Digest of what led the prompt; a fork needs the same.
    pub head_digest: [u8; 32],
    /// Whether the tokens are exactly what the items say, so that a fork may continue them.
    pub forkable: bool,
    /// Length of the JSON body.
    pub body_len_bytes: u64,
    /// SHA-256 of the JSON body.
    pub body_digest: [u8; 32],
    /// The JSON body, if it fits in here; otherwise it has values of its own.
    pub body: Option<String>,
}

/// How a child depends on its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    /// How many of the parent's events it shares, if it is a fork of it.
    pub shares_events: Option<u64>,
}

/// The tokens of the nearest ancestors, copied together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flat {
    /// The oldest ancestor whose own tokens are included.
    pub base: SessionId,
    /// The tokens from that ancestor's first event up to this session's.
    pub tokens: Vec<TokenId>,
}

/// Who stands at a place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The session.
    pub session: SessionId,
    /// When it was put there, in milliseconds since 1970.
    pub at_ms: i64,
}

/// A key that says all by being there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {}

/// Which format the store has, and which store it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Format {
    /// Number of the format.
    pub version: u32,
    /// Random; says that the files outside and the tree belong together.
    pub store: [u8; 16],
}

/// Where an upgrade of the format has got to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upgrade {
    /// The format being made.
    pub to: u32,
    /// The last key that was rewritten.
    pub done: Vec<u8>,
}

/// What the store holds in all, as of one commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Number of the commit; counts from 1.
    pub commit: u64,
    /// Stored values, these totals included.
    pub records: u64,
    /// Sessions.
    pub sessions: u64,
    /// Visible responses.
    pub responses: u64,
    /// What those count for in the bound on stored bytes.
    pub response_bytes: u64,
    /// The next free place in the log.
    pub next_ordinal: u64,
}

/// What the files outside the engine state about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Number of the format, checked before the engine opens anything.
    pub version: u32,
    /// Which store it is.
    pub store: [u8; 16],
    /// Counts the writes of the manifest; the higher of its two slots holds.
    pub generation: u64,
    /// A state of the store that was durable when this was written.
    pub totals: Totals,
    /// Length of the engine's file at that state.
    pub db_len_bytes: u64,
    /// Where the engine's log ends, if the store was closed in order.
    pub log_end: u64,
    /// Whether the store was closed in order, so that the length is exact.
    pub closed: bool,
}
