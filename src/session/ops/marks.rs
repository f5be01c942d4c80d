//! GC marks: records of the sessions that GC must visit.

use super::super::{
    error::LogError,
    format::record::{GcMark, SessionHeader, SessionState, load},
    keys::{Key, SessionId},
    txn::Txn,
};

/// Marks a session for GC if it is hidden or a trunk, because a session that depended on it is
/// gone.
///
/// # Errors
/// Errors of the storage.
pub(super) fn mark(txn: &mut Txn<'_>, id: SessionId) -> Result<(), LogError> {
    let header = load::<SessionHeader>(txn, &Key::header(id))?;
    if header
        .is_some_and(|header| matches!(header.state, SessionState::Hidden | SessionState::Trunk))
    {
        txn.put(Key::gc_mark(id), &GcMark {});
    }
    Ok(())
}
