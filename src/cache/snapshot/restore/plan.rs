//! Plans the restore of a prefix from snapshots, and estimates its time.

use std::{
    fmt,
    sync::mpsc::{Receiver, sync_channel},
    time::Duration,
};

use super::{
    super::{Handle, file::hash::Namespace, index::Entry},
    job::{ChainLink, KvChunk, RestoreJob},
};
use crate::{id::TokenId, limits, model::exec::KvLayout};

/// A prefix of a prompt in a chain of snapshots.
pub struct RestorePlan {
    handle: Handle,
    realm: Namespace,
    layout: KvLayout,
    parts: Vec<ChainLink>,
}

/// Estimated time to find and open one file.
const FILE_TIME: Duration = Duration::from_micros(200);

impl RestorePlan {
    pub(in crate::cache::snapshot) fn new(
        handle: &Handle,
        realm: Namespace,
        layout: KvLayout,
        chain: &[&Entry],
    ) -> Self {
        let part = |entry: &&Entry| ChainLink {
            id: entry.header.id,
            is_trunk: entry.is_trunk,
            end: entry.header.tokens.end,
        };
        Self {
            handle: handle.clone(),
            realm,
            layout,
            parts: chain.iter().map(part).collect(),
        }
    }

    /// Returns the number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.last().map_or(0, |part| part.end)
    }

    /// True if there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if restoring the tokens beyond the first `known` takes less time than prefilling them.
    /// `compute` is the prefill time of one token. True if nothing was measured yet.
    #[must_use]
    pub fn pays(&self, known: usize, compute: Option<Duration>) -> bool {
        let gain = self.len().saturating_sub(known);
        if gain < limits::SNAPSHOT_TOKENS_MIN {
            return false;
        }
        let files = self.parts.iter().filter(|part| part.end > known).count();
        let bytes = gain as u64 * self.layout.bytes_per_token() as u64;
        let read = self.handle.shared.counters.read_time(bytes);
        let read = read + FILE_TIME * u32::try_from(files).unwrap_or(u32::MAX);
        let computed =
            compute.map(|each| each.saturating_mul(u32::try_from(gain).unwrap_or(u32::MAX)));
        let always = self.handle.shared.options.reads_always;
        let pays = always || computed.is_none_or(|computed| read < computed);
        if !pays {
            tracing::info!(
                tokens = gain,
                ?read,
                ?computed,
                "snapshot restore skipped: prefill is faster"
            );
        }
        pays
    }

    /// Starts restoring the tokens of `prompt` beyond the first `known`, on another thread. The
    /// thread calls `wake` after each chunk and at the end, when it closes the channel. A damaged
    /// file ends the chunks early. `None` if too many bytes are already in flight.
    #[must_use]
    pub fn start(
        self,
        prompt: &[TokenId],
        known: usize,
        wake: impl Fn() + Send + 'static,
    ) -> Option<Receiver<KvChunk>> {
        let len = self.len();
        let (pieces, receiver) = sync_channel(1);
        let read = RestoreJob {
            realm: self.realm,
            layout: self.layout,
            parts: self.parts,
            tokens: prompt.get(..len)?.to_vec(),
            from: known,
            pieces,
            wake: Box::new(wake),
        };
        let sent = self.handle.reads.try_send(read);
        sent.is_ok().then_some(receiver)
    }
}

impl fmt::Debug for RestorePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens in {} snapshots", self.len(), self.parts.len())
    }
}
