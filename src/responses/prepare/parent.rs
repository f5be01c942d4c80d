//! The parent of a continuation, read from the log.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    super::{CreateError, Service},
    parent_cache::Known,
};
use crate::{
    auth::Caller,
    conversation::Item,
    id::ResponseId,
    session::{
        Access, ForkPoint, LogError, SessionId, SessionLog,
        log::{ParentState, StoredTurn, TurnDelta},
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

/// The name that the log has for a response.
pub(crate) fn session_of(id: ResponseId) -> SessionId {
    SessionId::from_bits(id.bits())
}

/// The conversation up to a response, and that with it.
pub(crate) struct Past {
    pub(crate) id: SessionId,
    pub(crate) parent: ParentState,
    /// Everything up to the response's own input, that included.
    pub(crate) before: Vec<Item>,
    /// The parent's output items.
    pub(crate) answer: Vec<Item>,
    /// Its prompt as the template wrote it, if that is known.
    pub(crate) prompt: Option<Arc<str>>,
}

impl Past {
    /// Reads what leads to a response: of a line whose last turn but one is known, its last turn only.
    pub(crate) fn load(
        service: &Service,
        caller: &Caller,
        id: ResponseId,
    ) -> Result<Self, CreateError> {
        let Service {
            log,
            parent_cache: pasts,
            ..
        } = service;
        let (id, access) = (session_of(id), continuable(caller));
        let own = log.turn_delta(&access, id).map_err(refusal_of)?;
        let before = own.record.previous.map(|id| pasts.get(id));
        let known = match before {
            None => Known::after(None, &own)?,
            Some(Some(before)) => Known::after(Some(&before), &own)?,
            Some(None) => None,
        };
        let known = match known {
            Some(known) => known,
            None => Known::read(log, &access, id)?,
        };
        let past = Self {
            id,
            parent: ParentState {
                fork: known.end,
                head: own.turn.head,
                tokens: known.tokens.clone(),
                record: own.record,
            },
            before: known.before.clone(),
            answer: known.answer.clone(),
            prompt: pasts.prompt(id),
        };
        pasts.keep(known);
        Ok(past)
    }

    /// The whole conversation with what is new.
    pub(crate) fn with(&self, new: &[Item]) -> Vec<Item> {
        let all = [&self.before, &self.answer, new];
        all.concat()
    }

    /// Returns the time of the parent's request: templates may show the time.
    pub(crate) fn created_at(&self) -> Option<Timestamp> {
        Timestamp::from_millisecond(self.parent.record.created_at_ms).ok()
    }
}

impl Known {
    /// Reads a parent's whole chain from the log.
    fn read(log: &SessionLog, access: &Access, id: SessionId) -> Result<Self, CreateError> {
        let parent = log.continuation(access, id).map_err(refusal_of)?;
        let history = log.history(id).or_else(|error| {
            // A deletion may have come between.
            log.response_record(access, id).map_err(refusal_of)?;
            Err(CreateError::from(error))
        })?;
        let (mut before, mut answer) = (Vec::new(), Vec::new());
        for turn in &history {
            let (input, output) = items(turn)?;
            before.append(&mut answer);
            before.extend(input);
            answer = output;
        }
        Ok(Self {
            end: parent.fork,
            tokens: parent.tokens,
            before,
            answer,
        })
    }

    /// Extends a cached ancestor by the parent's own turn; `None` if its tokens continue from
    /// another session.
    fn after(before: Option<&Self>, own: &TurnDelta) -> Result<Option<Self>, CreateError> {
        let mut tokens = match (own.fork, before) {
            (None, _) => Vec::new(),
            (Some(fork), Some(before)) if fork == before.end => before.tokens.clone(),
            (Some(_), _) => return Ok(None),
        };
        tokens.extend_from_slice(&own.tokens);
        let (input, answer) = items(&own.turn)?;
        Ok(Some(Self {
            end: ForkPoint {
                parent: own.turn.id,
                events: own.record.end_events,
            },
            tokens,
            before: match before {
                Some(before) => [&before.before, &before.answer, &input]
                    .map(Vec::as_slice)
                    .concat(),
                None => input,
            },
            answer,
        }))
    }
}

fn items(turn: &StoredTurn) -> Result<(Vec<Item>, Vec<Item>), CreateError> {
    log_codec::items(&turn.input_items, &turn.body)
        .map_err(|error| LogError::Corrupt(format!("session {}: {error}", turn.id)).into())
}

/// A response that cannot be continued is one that is not there.
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
