//! Compares the log with the model.

use super::run::{History, RETENTION_SECS};
use crate::session::{
    Access, LogError, admin::verify::verify, format::record::load_totals, store::Direct,
};

impl History {
    pub(super) fn compare(&mut self) {
        if let Err(error) = self.wait(self.log.wait_for_gc()) {
            self.recover_from_fault(&error, None);
            assert_eq!(self.wait(self.log.wait_for_gc()), Ok(()));
        }
        self.model.sweep(RETENTION_SECS as i64 * 1_000);
        self.enforce_retention();
        self.model.wait_for_gc();
        let report = verify(&Direct(&*self.storage)).unwrap();
        assert_eq!(report.findings, [""; 0]);
        self.compare_responses();
        self.compare_listing();
    }

    /// True if retention may delete responses.
    pub(super) fn limits_delete(&self) -> bool {
        let bounds = &self.retention;
        bounds.max_entries.is_some() || bounds.max_bytes.is_some() || bounds.ttl_ms.is_some()
    }

    /// Deletes from the model the oldest responses that retention has deleted from the log, or may
    /// have deleted.
    fn enforce_retention(&mut self) {
        // Retention runs only after the committer got a time in this process.
        let Some(last_time_ms) = self.model.last_time_ms else {
            return;
        };
        let totals = load_totals(&Direct(&*self.storage)).unwrap();
        if let Some(max) = self.retention.max_bytes {
            assert!(totals.response_bytes <= max, "{totals:?}");
            // The model does not know the size of a response, so it takes the log's count.
            let kept = totals.responses as usize;
            let dropped = self.model.order.len() - kept;
            let first = self.model.order.get(dropped).copied();
            self.model.hide_before(first.as_ref());
        }
        while let Some(oldest) = self.model.order.first().copied() {
            let max = self.retention.max_entries.unwrap_or(u64::MAX);
            let ended_at_ms = self.model.sessions[&oldest].ended_at_ms;
            let exceeded = self.model.order.len() as u64 > max;
            if !exceeded && !self.retention.is_expired(ended_at_ms, last_time_ms) {
                return;
            }
            self.model.hide(oldest);
        }
    }

    pub(super) fn compare_responses(&self) {
        for id in &self.model.order {
            if self.has_expired(*id) {
                let found = self.log.response(&Access::All, *id);
                assert_eq!(found, Err(LogError::NotFound));
                continue;
            }
            let session = &self.model.sessions[id];
            let owner = Access::Owned(session.owner.clone());
            let found = self.log.response(&owner, *id).unwrap();
            assert_eq!(found.body, session.body);
            assert_eq!(self.log.input_items(&owner, *id).unwrap(), session.items);
            let continuation = self.log.continuation(&owner, *id).unwrap();
            assert_eq!(continuation.tokens, self.model.tokens(continuation.fork));
            let history = self.log.history(*id).unwrap();
            let mut expected = Vec::new();
            let mut at = Some(*id);
            while let Some(id) = at {
                expected.push(id);
                at = self.model.sessions[&id].continues;
            }
            let ids: Vec<_> = history.iter().rev().map(|turn| turn.id).collect();
            assert_eq!(ids, expected);
            let own = self.log.turn_delta(&owner, *id).unwrap();
            let shared = own.fork.map(|fork| self.model.tokens(fork));
            let tokens = [shared.unwrap_or_default(), own.tokens].concat();
            assert_eq!(tokens, continuation.tokens);
            assert_eq!(Some(&own.turn), history.last());
            let stranger = Access::Owned(Some("nobody".into()));
            assert_eq!(self.log.response(&stranger, *id), Err(LogError::NotFound));
        }
        for id in &self.model.erased {
            assert_eq!(
                self.log.response(&Access::All, *id),
                Err(LogError::NotFound)
            );
        }
        let heads = load_totals(&Direct(&*self.storage)).unwrap();
        assert_eq!(
            heads.sessions,
            self.model.sessions.len() as u64,
            "sessions that exist"
        );
        assert_eq!(heads.responses, self.model.order.len() as u64);
    }

    pub(super) fn compare_listing(&self) {
        for owner in [None, Some("anna"), Some("ben")] {
            let listed = self.log.list(owner, None, 1_000).unwrap();
            let listed: Vec<_> = listed.iter().rev().map(|entry| entry.id).collect();
            let expected: Vec<_> = self
                .model
                .order
                .iter()
                .filter(|id| self.model.sessions[*id].owner.as_deref() == owner)
                .filter(|id| !self.has_expired(**id))
                .copied()
                .collect();
            assert_eq!(listed, expected);
        }
    }

    /// Deletes everything and expires the rest. Only the store's own records must remain.
    pub(super) fn delete_everything(self) {
        for id in self.visible() {
            assert_eq!(self.wait(self.log.delete(Access::All, id)), Ok(()));
        }
        self.wait(self.log.sweep(i64::MAX / 2)).unwrap();
        self.wait(self.log.wait_for_gc()).unwrap();
        let totals = load_totals(&Direct(&*self.storage)).unwrap();
        assert_eq!(
            (totals.sessions, totals.responses, totals.response_bytes),
            (0, 0, 0)
        );
        assert_eq!(totals.records, 2, "the format and the totals");
    }
}
