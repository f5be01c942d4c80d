//! The events of a session: a closed, append-only list of kinds.

pub use super::v1::{
    ForkPoint, InputAppended, Opened, Purged, Rerooted, Tokens, TurnClosed, TurnFinish, TurnStatus,
    Usage,
};
use super::{
    codec::{self, DecodeError, Kind},
    payload::Payload,
};

/// One event of a session. New variants go at the end.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The session began, as a root or as a fork.
    Opened(Opened),
    /// The client's input for this turn.
    InputAppended(InputAppended),
    /// Tokens were appended to the prompt.
    PromptAppended(Tokens),
    /// The model generated tokens.
    Generated(Tokens),
    /// The turn ended.
    TurnClosed(TurnClosed),
    /// GC removed all events but the first ones, which forks share.
    Rerooted(Rerooted),
    /// The response was deleted, or dropped by a retention limit. The session stays only as long as
    /// a stored response continues it.
    Purged(Purged),
}

impl Event {
    /// Encodes the event in the newest format.
    pub fn encode(&self) -> Payload {
        let (kind, bytes) = match self {
            Self::Opened(opened) => (Kind::Opened, codec::encode(opened)),
            Self::InputAppended(input) => (Kind::InputAppended, codec::encode(input)),
            Self::PromptAppended(tokens) => (Kind::PromptAppended, codec::encode(tokens)),
            Self::Generated(tokens) => (Kind::Generated, codec::encode(tokens)),
            Self::TurnClosed(closed) => (Kind::TurnClosed, codec::encode(closed)),
            Self::Rerooted(rerooted) => (Kind::Rerooted, codec::encode(rerooted)),
            Self::Purged(purged) => (Kind::Purged, codec::encode(purged)),
        };
        Payload {
            kind,
            schema: 1,
            bytes,
        }
    }

    /// Decodes an event.
    ///
    /// # Errors
    /// A [`DecodeError`] if the payload is not an event, has a newer schema, or is damaged.
    pub fn decode(payload: &Payload) -> Result<Self, DecodeError> {
        let Payload {
            kind,
            schema,
            bytes,
        } = payload;
        if *schema != 1 {
            return Err(DecodeError::Unknown(format!("schema {schema} of {kind:?}")));
        }
        Ok(match kind {
            Kind::Opened => Self::Opened(codec::decode("opening", bytes)?),
            Kind::InputAppended => Self::InputAppended(codec::decode("input", bytes)?),
            Kind::PromptAppended => Self::PromptAppended(codec::decode("prompt", bytes)?),
            Kind::Generated => Self::Generated(codec::decode("generated tokens", bytes)?),
            Kind::TurnClosed => Self::TurnClosed(codec::decode("turn's end", bytes)?),
            Kind::Rerooted => Self::Rerooted(codec::decode("rerooting", bytes)?),
            Kind::Purged => Self::Purged(codec::decode("purge", bytes)?),
            other => return Err(DecodeError::Payload(format!("event, but a {other:?}"))),
        })
    }

    /// Returns the number of tokens that the event appends.
    pub fn token_count(&self) -> u64 {
        match self {
            Self::PromptAppended(Tokens { tokens }) | Self::Generated(Tokens { tokens }) => {
                tokens.len() as u64
            }
            _ => 0,
        }
    }
}
