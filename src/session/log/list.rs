//! Lists the responses of an owner.

use super::{SessionLog, read::Access};
use crate::session::{
    error::LogError,
    format::record::{
        IndexEntry, SCAN_PAGE_ENTRIES, SessionHeader, damaged, load, load_totals, open_record,
    },
    keys::{Key, KeyRange, SessionId},
    store::ReadStore,
};

/// An entry of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// The response's id.
    pub id: SessionId,
    /// The time when the response was stored, in milliseconds since 1970.
    pub at_ms: i64,
    /// The response's ordinal in the log. Pagination continues from it.
    pub ordinal: u64,
}

impl SessionLog {
    /// Lists visible responses of one owner, newest first. With `before`, begins after that
    /// ordinal.
    ///
    /// # Errors
    /// [`LogError::PersistenceDisabled`] and errors of the storage.
    pub fn list(
        &self,
        owner: Option<&str>,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Listed>, LogError> {
        self.require_persistence()?;
        let Some(owner) = owner else {
            return self.list_unowned(before, limit);
        };
        let mut range = KeyRange::owner_index(owner);
        if let Some(before) = before {
            range = range.after(&Key::owner_index(owner, before));
        }
        let entries = self.shared.view.scan(&range, limit)?;
        let listed = entries.iter().map(|(key, value)| self.listed(key, value));
        listed.filter_map(Result::transpose).collect()
    }

    /// Scans the index of all responses backwards, for responses without an owner.
    fn list_unowned(&self, before: Option<u64>, limit: usize) -> Result<Vec<Listed>, LogError> {
        let read = &*self.shared.view;
        let next = load_totals(read)?.next_ordinal;
        let mut end = before.unwrap_or(next).min(next);
        let mut found = Vec::new();
        while end > 0 && found.len() < limit {
            let start = end.saturating_sub(SCAN_PAGE_ENTRIES as u64);
            let page = read.scan(&KeyRange::response_index(start, end), SCAN_PAGE_ENTRIES)?;
            for (key, value) in page.iter().rev() {
                let Some(listed) = self.listed(key, value)? else {
                    continue;
                };
                let header = load::<SessionHeader>(read, &Key::header(listed.id))?;
                found.extend(
                    header
                        .filter(|header| header.owner.is_none())
                        .map(|_| listed),
                );
            }
            end = start;
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Returns the listing entry of an index entry; `None` if the response has expired.
    fn listed(&self, key: &Key, value: &[u8]) -> Result<Option<Listed>, LogError> {
        let entry = open_record::<IndexEntry>(key, value)?;
        let ordinal = key
            .ordinal()
            .ok_or_else(|| damaged(key, &"it contains no ordinal"))?;
        Ok((!self.has_expired(&entry)).then_some(Listed {
            id: entry.session,
            at_ms: entry.at_ms,
            ordinal,
        }))
    }

    /// Returns the ordinal of an owner's visible response. Pagination continues from it.
    ///
    /// # Errors
    /// [`LogError::NotFound`] if there is no such response.
    pub fn ordinal(&self, owner: Option<&str>, id: SessionId) -> Result<u64, LogError> {
        let access = Access::Owned(owner.map(str::to_owned));
        let (header, _) = self.visible(&access, id)?;
        header.ordinal.ok_or(LogError::NotFound)
    }
}
