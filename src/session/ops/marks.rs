//! GC marks: the sessions that GC must visit.

use super::super::{
    error::LogError,
    format::record::{GcMark, SessionHeader, SessionState, load},
    keys::{Key, SessionId},
    txn::Txn,
};

/// Marks a session whose last dependant may have gone.
///
/// # Errors
/// The storage's.
pub(super) fn mark(txn: &mut Txn<'_>, id: SessionId) -> Result<(), LogError> {
    let header = load::<SessionHeader>(txn, &Key::header(id))?;
    if header
        .is_some_and(|header| matches!(header.state, SessionState::Hidden | SessionState::Trunk))
    {
        txn.put(Key::gc_mark(id), &GcMark {});
    }
    Ok(())
}
