//! Reads of the log: only what is durable, and only what the reader may see.

use sha2::{Digest, Sha256};

use super::SessionLog;
use crate::{
    id::TokenId,
    session::{
        error::LogError,
        format::{
            codec::Kind,
            event::ForkPoint,
            payload::load_parts,
            record::{IndexEntry, ResponseMeta, SessionHeader, SessionState, damaged, load},
            session_events::load_events,
        },
        keys::{Key, SessionId, Space},
        ops::{
            lineage,
            replay::{Replayed, replay},
        },
        store::ReadStore,
    },
};

/// Who reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Only what was created by this key, or without a key policy (`None`).
    Owned(Option<String>),
    /// Everything: the operator, or a server told to share.
    All,
}

impl Access {
    /// Whether this reader sees what `owner` created.
    pub fn sees(&self, owner: Option<&str>) -> bool {
        match self {
            Self::Owned(reader) => reader.as_deref() == owner,
            Self::All => true,
        }
    }
}

/// A response as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResponse {
    /// What is known beside the body.
    pub record: ResponseMeta,
    /// The JSON object that was answered, as text.
    pub body: String,
}

/// What a continuation needs to decide and to fork.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentState {
    /// The response to continue.
    pub record: ResponseMeta,
    /// Where a fork would begin.
    pub fork: ForkPoint,
    /// What led that turn's prompt, as JSON text.
    pub head: String,
    /// All tokens up to there, from the first of the prompt on.
    pub tokens: Vec<TokenId>,
}

/// One turn of the past, for a rebuilt conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTurn {
    /// Its response.
    pub id: SessionId,
    /// Id of the model.
    pub model: String,
    /// Its request's own input items, as JSON texts.
    pub input_items: Vec<String>,
    /// What led its prompt, as JSON text.
    pub head: String,
    /// The JSON object that was answered, as text.
    pub body: String,
}

/// A response with what its own session adds to what it continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnDelta {
    /// What is known of the response beside its body.
    pub record: ResponseMeta,
    /// Where the session's tokens go on from another's, if they do.
    pub fork: Option<ForkPoint>,
    /// The session's own tokens up to the end of the answer.
    pub tokens: Vec<TokenId>,
    /// The turn.
    pub turn: StoredTurn,
}

impl SessionLog {
    /// A response, if this reader may see it.
    ///
    /// # Errors
    /// [`LogError::NotFound`], [`LogError::PersistenceDisabled`]; [`LogError::Corrupt`] if the
    /// session says that there must be one.
    pub fn response(&self, access: &Access, id: SessionId) -> Result<StoredResponse, LogError> {
        let (header, record) = self.visible(access, id)?;
        let body = self.or_not_found(access, id, stored_body(&*self.shared.view, id, header))?;
        Ok(StoredResponse { record, body })
    }

    /// What is known of a response beside its body.
    ///
    /// # Errors
    /// As [`SessionLog::response`].
    pub fn response_record(
        &self,
        access: &Access,
        id: SessionId,
    ) -> Result<ResponseMeta, LogError> {
        Ok(self.visible(access, id)?.1)
    }

    /// The input items of a response's own request, as JSON texts.
    ///
    /// # Errors
    /// As [`SessionLog::response`].
    pub fn input_items(&self, access: &Access, id: SessionId) -> Result<Vec<String>, LogError> {
        let (header, _) = self.visible(access, id)?;
        Ok(self
            .or_not_found(access, id, self.replayed(id, header.events))?
            .input_items)
    }

    /// What a continuation of a response needs to decide whether to fork, and to fork.
    ///
    /// # Errors
    /// As [`SessionLog::response`].
    pub fn continuation(&self, access: &Access, id: SessionId) -> Result<ParentState, LogError> {
        let (_, record) = self.visible(access, id)?;
        let fork = ForkPoint {
            parent: id,
            events: record.end_events,
        };
        let loaded = self.replayed(id, fork.events).and_then(|replayed| {
            let tokens = lineage::lineage(&*self.shared.view, fork, 0)?.tokens();
            Ok((replayed.preamble, tokens))
        });
        let (head, tokens) = self.or_not_found(access, id, loaded)?;
        Ok(ParentState {
            record,
            fork,
            head,
            tokens,
        })
    }

    /// A response with what its own session adds, whatever the number of turns before it.
    ///
    /// # Errors
    /// As [`SessionLog::response`].
    pub fn turn_delta(&self, access: &Access, id: SessionId) -> Result<TurnDelta, LogError> {
        let (header, record) = self.visible(access, id)?;
        let fork = header.fork;
        let loaded = self
            .replayed(id, record.end_events)
            .and_then(|replayed| Ok((stored_body(&*self.shared.view, id, header)?, replayed)));
        let (body, replayed) = self.or_not_found(access, id, loaded)?;
        Ok(TurnDelta {
            fork,
            tokens: replayed.tokens,
            turn: StoredTurn {
                id,
                model: record.model.clone(),
                input_items: replayed.input_items,
                head: replayed.preamble,
                body,
            },
            record,
        })
    }

    /// The turns that lead to a response and include it, oldest first. To be called for a response
    /// that is visible or that a registered turn continues; hidden ones before it are included.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] if one is missing, [`LogError::NotFound`] if the last is gone.
    pub fn history(&self, id: SessionId) -> Result<Vec<StoredTurn>, LogError> {
        let mut turns = Vec::new();
        let mut at = Some(id);
        while let Some(id) = at {
            let header = load::<SessionHeader>(&*self.shared.view, &Key::header(id))?;
            let found =
                header.and_then(|header| ResponseMeta::of(&header).map(|record| (header, record)));
            let Some((header, record)) = found else {
                if turns.is_empty() {
                    return Err(LogError::NotFound);
                }
                return Err(damaged(&Key::header(id), &"a continued response is missing").into());
            };
            let replayed = self.replayed(id, record.end_events)?;
            turns.push(StoredTurn {
                id,
                body: stored_body(&*self.shared.view, id, header)?,
                model: record.model,
                input_items: replayed.input_items,
                head: replayed.preamble,
            });
            at = record.previous;
        }
        turns.reverse();
        Ok(turns)
    }

    /// Where a fork may begin whose prompt has the first `tokens` of a session's own tokens, and
    /// how many of them that includes; `None` if there is no such place.
    ///
    /// # Errors
    /// [`LogError::NotFound`] if the session is gone; the storage's.
    pub fn fork_point_at(
        &self,
        id: SessionId,
        tokens: usize,
    ) -> Result<Option<(ForkPoint, usize)>, LogError> {
        let header = load::<SessionHeader>(&*self.shared.view, &Key::header(id))?
            .ok_or(LogError::NotFound)?;
        Ok(self.replayed(id, header.events)?.fork_point_at(id, tokens))
    }

    /// The tokens up to a point of a session.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] if something of the line is missing.
    pub fn tokens(&self, point: ForkPoint) -> Result<Vec<TokenId>, LogError> {
        Ok(lineage::lineage(&*self.shared.view, point, 0)?.tokens())
    }

    fn replayed(&self, id: SessionId, events: u64) -> Result<Replayed, LogError> {
        Ok(replay(&load_events(&*self.shared.view, id, events)?))
    }

    /// Head and record of a visible response. An unknown id and another owner's cost the same.
    pub(super) fn visible(
        &self,
        access: &Access,
        id: SessionId,
    ) -> Result<(SessionHeader, ResponseMeta), LogError> {
        self.require_persistence()?;
        let (header, expired) = {
            let read = self.shared.view.begin_read();
            let header = load::<SessionHeader>(&read, &Key::header(id))?;
            let expired = self.header_has_expired(&read, header.as_ref())?;
            let begun = read.get(&Key::event(id, 0, 0))?.is_some();
            let missing = header.is_none() && begun && read.get(&Key::open_header(id))?.is_none();
            if missing {
                return Err(
                    damaged(&Key::header(id), &"the header of a session is missing").into(),
                );
            }
            (header, expired)
        };
        let header = header.filter(|header| header.state == SessionState::Stored && !expired);
        let header = header.filter(|header| access.sees(header.owner.as_deref()));
        let header = header.ok_or(LogError::NotFound)?;
        let record = ResponseMeta::of(&header)
            .ok_or_else(|| damaged(&Key::header(id), &"the record of a response is missing"))?;
        Ok((header, record))
    }

    /// Whether a response that is still there has outlived its time.
    fn header_has_expired(
        &self,
        read: &impl ReadStore,
        header: Option<&SessionHeader>,
    ) -> Result<bool, LogError> {
        let ordinal = header.and_then(|header| header.ordinal);
        let Some(ordinal) = ordinal.filter(|_| self.shared.retention.ttl_ms.is_some()) else {
            return Ok(false);
        };
        let entry = load::<IndexEntry>(read, &Key::response_index(ordinal))?;
        Ok(entry.is_some_and(|entry| self.has_expired(&entry)))
    }

    pub(super) fn has_expired(&self, entry: &IndexEntry) -> bool {
        let retention = &self.shared.retention;
        retention.ttl_ms.is_some()
            && retention.is_expired(entry.at_ms, self.shared.clock.now().as_millisecond())
    }

    /// A read of many values may meet a deletion half-way: then the response was not found.
    fn or_not_found<T>(
        &self,
        access: &Access,
        id: SessionId,
        read: Result<T, LogError>,
    ) -> Result<T, LogError> {
        read.map_err(|error| match self.visible(access, id) {
            Err(LogError::NotFound) => LogError::NotFound,
            _ => error,
        })
    }
}

/// The body of the response that a session keeps, checked against its record.
///
/// # Errors
/// [`LogError::Corrupt`] if it is missing, damaged or another one.
pub fn stored_body(
    read: &impl ReadStore,
    id: SessionId,
    header: SessionHeader,
) -> Result<String, LogError> {
    let key = Key::body(id, 0);
    let response = header.response;
    let response = response.ok_or_else(|| damaged(&key, &"no response is response"))?;
    let bytes = match response.body {
        Some(body) => body.into_bytes(),
        None => {
            let payload = load_parts(read, Space::Body, id)?
                .ok_or_else(|| damaged(&key, &"the body of a response is missing"))?;
            if (payload.kind, payload.schema) != (Kind::Body, 1) {
                return Err(damaged(&key, &"it is no body").into());
            }
            payload.bytes
        }
    };
    let digest: [u8; 32] = Sha256::digest(&bytes).into();
    if digest != response.body_digest {
        return Err(damaged(&key, &"the body is not the one that was stored").into());
    }
    String::from_utf8(bytes).map_err(|_| damaged(&key, &"the body is not UTF-8").into())
}
