//! The parent of a continuation, read from the log.

use std::sync::Arc;

use jiff::Timestamp;

use super::super::{CreateError, Service};
use crate::{
    auth::Caller,
    conversation::Item,
    id::{ResponseId, TokenId},
    session::{
        Access, ForkPoint, LogError, SessionId, SessionLog,
        log::{ForkSource, StoredTurn, TurnDelta},
    },
    translate::{RequestError, log_codec},
};

/// Returns the responses that a caller may read and delete.
pub(crate) fn readable(caller: &Caller) -> Access {
    access(caller, caller.reads_all)
}

/// Returns the responses that a caller may continue.
pub(crate) fn continuable(caller: &Caller) -> Access {
    access(caller, caller.continues_all)
}

fn access(caller: &Caller, all: bool) -> Access {
    match all {
        true => Access::All,
        false => Access::Owned(caller.owner.as_deref().map(str::to_owned)),
    }
}

/// Returns the session of a response.
pub(crate) fn session_of(id: ResponseId) -> SessionId {
    SessionId::from_bits(id.bits())
}

/// The parent of a continuation: a stored response with its whole chain.
#[derive(Debug)]
pub(crate) struct ParentState {
    /// Metadata, fork point, preamble and tokens.
    pub(crate) source: ForkSource,
    /// All items of the chain before the response's output.
    pub(crate) before: Vec<Item>,
    /// The response's output items.
    pub(crate) output: Vec<Item>,
    /// Bytes of the chain's items, as the log stores them.
    pub(super) item_bytes: usize,
}

impl ParentState {
    /// Loads the parent. Reads one session if the parent's own parent is cached, and only its
    /// metadata if the parent is.
    pub(crate) fn load(
        service: &Service,
        caller: &Caller,
        id: ResponseId,
    ) -> Result<Arc<Self>, CreateError> {
        let Service {
            log, parent_cache, ..
        } = service;
        let (id, access) = (session_of(id), continuable(caller));
        if let Some(state) = parent_cache.get(id) {
            // The cache knows no owners, and no deletions by other routes.
            log.response_record(&access, id).map_err(refusal_of)?;
            return Ok(state);
        }
        let own = log.turn_delta(&access, id).map_err(refusal_of)?;
        let before = own.record.previous.map(|id| parent_cache.get(id));
        let state = match before {
            None => Self::extend(None, own)?,
            Some(Some(before)) => Self::extend(Some(&before), own)?,
            Some(None) => None,
        };
        let state = match state {
            Some(state) => state,
            None => Self::read(log, &access, id)?,
        };
        let state = Arc::new(state);
        parent_cache.insert(Arc::clone(&state));
        Ok(state)
    }

    /// Returns the session of the response.
    pub(crate) fn id(&self) -> SessionId {
        self.source.fork.parent
    }

    /// Returns the bytes that the state takes in memory, about.
    pub(crate) fn bytes(&self) -> usize {
        let tokens = self.source.tokens.len() * size_of::<TokenId>();
        tokens + self.source.head.len() + self.item_bytes
    }

    /// Returns the whole conversation, with new items.
    pub(crate) fn with(&self, new: &[Item]) -> Vec<Item> {
        [&self.before, &self.output, new].concat()
    }

    /// Returns the time of the parent's request: templates may show the time.
    pub(crate) fn created_at(&self) -> Option<Timestamp> {
        Timestamp::from_millisecond(self.source.record.created_at_ms).ok()
    }

    /// Reads a parent's whole chain from the log.
    fn read(log: &SessionLog, access: &Access, id: SessionId) -> Result<Self, CreateError> {
        let source = log.continuation(access, id).map_err(refusal_of)?;
        let history = log.history(id).or_else(|error| {
            // A deletion may have come between.
            log.response_record(access, id).map_err(refusal_of)?;
            Err(CreateError::from(error))
        })?;
        let (mut before, mut output) = (Vec::new(), Vec::new());
        for turn in &history {
            let (input, answer) = items(turn)?;
            before.append(&mut output);
            before.extend(input);
            output = answer;
        }
        Ok(Self {
            source,
            before,
            output,
            item_bytes: history.iter().map(item_bytes).sum(),
        })
    }

    /// Extends a cached ancestor by the parent's own turn; `None` if its tokens continue from another
    /// session.
    fn extend(before: Option<&Self>, own: TurnDelta) -> Result<Option<Self>, CreateError> {
        let mut tokens = match (own.fork, before) {
            (None, _) => Vec::new(),
            (Some(fork), Some(before)) if fork == before.source.fork => {
                before.source.tokens.clone()
            }
            (Some(_), _) => return Ok(None),
        };
        tokens.extend_from_slice(&own.tokens);
        let (input, output) = items(&own.turn)?;
        let own_bytes = item_bytes(&own.turn);
        Ok(Some(Self {
            source: ForkSource {
                fork: ForkPoint {
                    parent: own.turn.id,
                    events: own.record.end_events,
                },
                head: own.turn.head,
                tokens,
                record: own.record,
            },
            before: match before {
                Some(before) => before.with(&input),
                None => input,
            },
            output,
            item_bytes: own_bytes + before.map_or(0, |before| before.item_bytes),
        }))
    }
}

fn item_bytes(turn: &StoredTurn) -> usize {
    turn.body.len() + turn.input_items.iter().map(String::len).sum::<usize>()
}

fn items(turn: &StoredTurn) -> Result<(Vec<Item>, Vec<Item>), CreateError> {
    log_codec::items(&turn.input_items, &turn.body)
        .map_err(|error| LogError::Corrupt(format!("session {}: {error}", turn.id)).into())
}

/// Converts the log's error: a response that cannot be continued looks like a missing one.
pub(crate) fn refusal_of(error: LogError) -> CreateError {
    match error {
        LogError::NotFound | LogError::ParentGone => RequestError::previous_not_found().into(),
        LogError::PersistenceDisabled => {
            let param = Some("previous_response_id".to_owned());
            RequestError {
                param,
                ..RequestError::nothing_kept()
            }
            .into()
        }
        other => other.into(),
    }
}
