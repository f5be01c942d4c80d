//! Load from concurrent writers, and the latencies of their turns.

use std::time::{Duration, Instant};

use anyhow::Result;
use stemma::{
    clock::{Clock as _, SystemClock},
    id::ResponseId,
    session::SessionId,
};

/// Results of concurrent clients.
pub(crate) struct Load {
    elapsed: Duration,
    /// Times from submitting a turn until it was durable, in ascending order.
    latencies: Vec<Duration>,
}

impl Load {
    pub(crate) fn turns(&self) -> usize {
        self.latencies.len()
    }

    pub(crate) fn turns_per_s(&self) -> f64 {
        self.turns() as f64 / self.elapsed.as_secs_f64()
    }

    /// Returns a quantile of the latencies; `share` is 0.5 for the median.
    pub(crate) fn latency_ms(&self, share: f64) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        let at = (last as f64 * share).round() as usize;
        self.latencies
            .get(at)
            .map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
    }
}

/// Returns a new id, made as the server makes them.
pub(crate) fn new_id() -> SessionId {
    let now_ms = SystemClock.now().as_millisecond();
    SessionId::from_bits(ResponseId::new(now_ms, rand::random()).bits())
}

/// A writer of turns.
pub(crate) trait Client: Send + 'static {
    /// Writes a turn. Returns once the turn is durable.
    fn write(&mut self, id: SessionId) -> impl Future<Output = Result<()>> + Send;
}

/// Runs clients for `time`.
pub(crate) async fn run<C: Client>(clients: Vec<C>, time: Duration) -> Result<Load> {
    let start = Instant::now();
    let tasks: Vec<_> = clients
        .into_iter()
        .map(|client| tokio::spawn(write_until(client, start + time)))
        .collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await??);
    }
    let elapsed = start.elapsed();
    latencies.sort_unstable();
    Ok(Load { elapsed, latencies })
}

async fn write_until(mut client: impl Client, end: Instant) -> Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    loop {
        let start = Instant::now();
        if start >= end {
            return Ok(latencies);
        }
        client.write(new_id()).await?;
        latencies.push(start.elapsed());
    }
}
