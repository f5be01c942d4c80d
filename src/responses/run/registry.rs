//! Running turns by the ids of their responses. Until its end a response is known to `cancel` only.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use tokio::sync::{Notify, watch};

use crate::{
    conversation::ResponseState, id::ResponseId, lock::IgnorePoison as _, session::Access,
};

/// All of them.
#[derive(Default)]
pub(crate) struct RunningTurns(Mutex<HashMap<ResponseId, Entry>>);

struct Entry {
    owner: Option<String>,
    cancelled: Arc<Notify>,
    /// The final state of the turn.
    ended: watch::Receiver<Option<Arc<ResponseState>>>,
}

/// A turn's entry, which goes with the turn.
pub(crate) struct RunningGuard {
    running: Arc<RunningTurns>,
    id: ResponseId,
    cancelled: Arc<Notify>,
    ended: watch::Sender<Option<Arc<ResponseState>>>,
}

impl RunningTurns {
    /// Enters a turn.
    pub(crate) fn enter(self: &Arc<Self>, id: ResponseId, owner: Option<String>) -> RunningGuard {
        let (sender, ended) = watch::channel(None);
        let cancelled = Arc::new(Notify::new());
        let entry = Entry {
            owner,
            cancelled: Arc::clone(&cancelled),
            ended,
        };
        self.entries().insert(id, entry);
        RunningGuard {
            running: Arc::clone(self),
            id,
            cancelled,
            ended: sender,
        }
    }

    /// Ends a turn, and waits until that is durable; gives what became of it, if it runs and the
    /// caller may know.
    pub(crate) async fn cancel(
        &self,
        access: &Access,
        id: ResponseId,
    ) -> Option<Arc<ResponseState>> {
        let mut ended = {
            let entries = self.entries();
            let entry = entries.get(&id)?;
            if !access.sees(entry.owner.as_deref()) {
                return None;
            }
            entry.cancelled.notify_one();
            entry.ended.clone()
        };
        let record = ended.wait_for(Option::is_some).await.ok()?;
        record.clone()
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<ResponseId, Entry>> {
        // Nothing that holds this can panic half-way.
        self.0.lock().ignore_poison()
    }
}

impl RunningGuard {
    /// Returns once somebody has cancelled the turn.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.notified().await;
    }

    /// Tells those who cancelled what became of it. From now on the id is one of the log's.
    pub(crate) fn leave(self, record: &ResponseState) {
        self.running.entries().remove(&self.id);
        // Most turns are not cancelled.
        if self.ended.receiver_count() > 0 {
            self.ended.send_replace(Some(Arc::new(record.clone())));
        }
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.running.entries().remove(&self.id);
    }
}
