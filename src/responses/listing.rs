//! Listing of all owners' responses, for operators.

use super::prepare::parent;
use crate::{
    id::ResponseId,
    session::{Access, LogError, SessionLog},
};

/// A response in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Its id.
    pub id: ResponseId,
    /// The key that created it, under a policy.
    pub owner: Option<String>,
    /// The model that answered.
    pub model: String,
    /// Wall time in milliseconds since 1970.
    pub created_at_ms: i64,
    /// Bytes in the log, without what it shares.
    pub bytes: u64,
}

pub(super) fn list(
    log: &SessionLog,
    owner: Option<&str>,
    after: Option<ResponseId>,
    limit: usize,
) -> Result<Vec<Summary>, LogError> {
    let place = |id| log.ordinal(owner, parent::session_of(id));
    let before = after.map(place).transpose()?;
    let mut summaries = Vec::new();
    for listed in log.list(owner, before, limit)? {
        match log.response_record(&Access::All, listed.id) {
            Ok(record) => summaries.push(Summary {
                id: ResponseId::from_bits(u128::from_be_bytes(listed.id.0)),
                owner: record.owner,
                model: record.model,
                created_at_ms: record.created_at_ms,
                bytes: record.bytes,
            }),
            // Deleted since the list was read.
            Err(LogError::NotFound) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(summaries)
}
