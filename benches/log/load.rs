//! Clients that each write one turn after the other, and how long each turn took.

use std::time::{Duration, Instant};

use anyhow::Result;
use stemma::session::SessionId;

use super::turns;

/// What a number of clients did.
pub(crate) struct Load {
    took: Duration,
    /// From handing a turn in until it was durable, shortest first.
    latencies: Vec<Duration>,
}

impl Load {
    pub(crate) fn turns(&self) -> usize {
        self.latencies.len()
    }

    pub(crate) fn turns_per_s(&self) -> f64 {
        self.turns() as f64 / self.took.as_secs_f64()
    }

    /// The latency that this share of the turns does not exceed.
    pub(crate) fn latency_ms(&self, share: f64) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        let at = (last as f64 * share).round() as usize;
        self.latencies
            .get(at)
            .map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
    }
}

/// One of several that write at once.
pub(crate) trait Client: Send + 'static {
    /// Writes a turn; returns once it is durable.
    fn write(&mut self, id: SessionId) -> impl Future<Output = Result<()>> + Send;
}

/// Lets clients write for a time.
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
    let took = start.elapsed();
    latencies.sort_unstable();
    Ok(Load { took, latencies })
}

async fn write_until(mut client: impl Client, end: Instant) -> Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    loop {
        let start = Instant::now();
        if start >= end {
            return Ok(latencies);
        }
        client.write(turns::new_id()).await?;
        latencies.push(start.elapsed());
    }
}
