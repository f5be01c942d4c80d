//! Reads of the log: durable data only, filtered by the reader's access.

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

/// The access rights of a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Access to what this owner created; `None` is the owner without a key policy.
    Owned(Option<String>),
    /// Access to everything: the operator, or a server that shares responses.
    All,
}

impl Access {
    /// True if this reader may see what `owner` created.
    pub fn sees(&self, owner: Option<&str>) -> bool {
        match self {
            Self::Owned(reader) => reader.as_deref() == owner,
            Self::All => true,
        }
    }
}

/// A stored response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResponse {
    /// The response's metadata.
    pub record: ResponseMeta,
    /// The JSON object sent to the client, as text.
    pub body: String,
}

/// The state of a parent response: the input of the decision to fork, and of the fork.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkSource {
    /// The metadata of the response to continue.
    pub record: ResponseMeta,
    /// The fork point after that response.
    pub fork: ForkPoint,
    /// The preamble of that turn, as JSON text.
    pub head: String,
    /// All tokens before the fork point, from the first token of the prompt.
    pub tokens: Vec<TokenId>,
}

/// A stored turn, for a rebuilt conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTurn {
    /// The id of the response.
    pub id: SessionId,
    /// Id of the model.
    pub model: String,
    /// The input items of the turn's request, as JSON texts.
    pub input_items: Vec<String>,
    /// The preamble, as JSON text.
    pub head: String,
    /// The JSON object sent to the client, as text.
    pub body: String,
}

/// A response with the part that its own session adds to its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnDelta {
    /// The response's metadata.
    pub record: ResponseMeta,
    /// The fork point whose tokens precede the session's own; `None` for a root.
    pub fork: Option<ForkPoint>,
    /// The session's own tokens up to the end of its output.
    pub tokens: Vec<TokenId>,
    /// The stored turn.
    pub turn: StoredTurn,
}

impl SessionLog {
    /// Returns a response with its body.
    ///
    /// # Errors
    /// [`LogError::NotFound`], [`LogError::PersistenceDisabled`]; [`LogError::Corrupt`] if data of
    /// an existing response is missing or damaged.
    pub fn response(&self, access: &Access, id: SessionId) -> Result<StoredResponse, LogError> {
        let (header, record) = self.visible(access, id)?;
        let body = self.or_not_found(access, id, stored_body(&*self.shared.view, id, header))?;
        Ok(StoredResponse { record, body })
    }

    /// Returns a response's metadata.
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

    /// Returns the input items of a response's own request, as JSON texts.
    ///
    /// # Errors
    /// As [`SessionLog::response`].
    pub fn input_items(&self, access: &Access, id: SessionId) -> Result<Vec<String>, LogError> {
        let (header, _) = self.visible(access, id)?;
        Ok(self
            .or_not_found(access, id, self.replayed(id, header.events))?
            .input_items)
    }

    /// Returns what a continuation of a response can fork.
    ///
    /// # Errors
    /// As [`SessionLog::response`].
    pub fn continuation(&self, access: &Access, id: SessionId) -> Result<ForkSource, LogError> {
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
        Ok(ForkSource {
            record,
            fork,
            head,
            tokens,
        })
    }

    /// Returns a response with the part that its own session adds. Reads one session, whatever the
    /// number of turns before it.
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

    /// Returns the chain of turns that ends with a response, oldest first. The response must be
    /// visible, or be continued by a registered turn. Hidden ancestors are included.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] if an ancestor is missing, [`LogError::NotFound`] if the response is
    /// gone.
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

    /// Returns the last fork point within the first `tokens` of a session's own tokens, and the
    /// number of own tokens before it. `None` if there is no such point.
    ///
    /// # Errors
    /// [`LogError::NotFound`] if the session is gone; errors of the storage.
    pub fn fork_point_at(
        &self,
        id: SessionId,
        tokens: usize,
    ) -> Result<Option<(ForkPoint, usize)>, LogError> {
        let header = load::<SessionHeader>(&*self.shared.view, &Key::header(id))?
            .ok_or(LogError::NotFound)?;
        Ok(self.replayed(id, header.events)?.fork_point_at(id, tokens))
    }

    /// Returns the tokens before a fork point.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] if an ancestor is missing or damaged.
    pub fn tokens(&self, point: ForkPoint) -> Result<Vec<TokenId>, LogError> {
        Ok(lineage::lineage(&*self.shared.view, point, 0)?.tokens())
    }

    fn replayed(&self, id: SessionId, events: u64) -> Result<Replayed, LogError> {
        Ok(replay(&load_events(&*self.shared.view, id, events)?))
    }

    /// Loads header and metadata of a visible response. The reads are the same for an
    /// unknown id and for another owner's id.
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

    /// True if the response of this header has expired but still exists.
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

    /// Maps errors of multi-value reads: if the response was deleted meanwhile, returns
    /// [`LogError::NotFound`].
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

/// Loads the body of a session's response and checks it against its digest.
///
/// # Errors
/// [`LogError::Corrupt`] if the body is missing, damaged or a different one.
pub fn stored_body(
    read: &impl ReadStore,
    id: SessionId,
    header: SessionHeader,
) -> Result<String, LogError> {
    let key = Key::body(id, 0);
    let response = header.response;
    let response = response.ok_or_else(|| damaged(&key, &"no response is stored"))?;
    let bytes = match response.body {
        Some(body) => body.into_bytes(),
        None => {
            let payload = load_parts(read, Space::Body, id)?
                .ok_or_else(|| damaged(&key, &"the body of a response is missing"))?;
            if (payload.kind, payload.schema) != (Kind::Body, 1) {
                return Err(damaged(&key, &"not a response body").into());
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
