//! Metrics of KV snapshots.

use std::sync::atomic::AtomicU64;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::{
    cache::snapshot::{SkipReason, SnapshotStats as Stats},
    responses::Service,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DroppedLabels {
    reason: &'static str,
}

/// Adds them, if there are snapshots.
pub(super) fn snapshots(registry: &mut Registry, service: &Service) {
    let Some(stats) = service.snapshot_stats() else {
        return;
    };
    gauges(registry, &stats);
    counters(registry, &stats);
    let family = Family::<DroppedLabels, Counter>::default();
    for reason in SkipReason::ALL {
        let labels = DroppedLabels {
            reason: reason.as_str(),
        };
        let count = stats.skipped[reason as usize];
        family.get_or_create(&labels).inc_by(count);
    }
    let help = "Snapshots that were wanted and not written";
    registry.register("snapshots_dropped", help, family);
}

fn gauges(registry: &mut Registry, stats: &Stats) {
    let mut gauge = |name, help, value: u64| {
        let gauge = Gauge::<u64, AtomicU64>::default();
        gauge.set(value);
        registry.register(name, help, gauge);
    };
    gauge("snapshot_files", "Prefixes on disk", stats.files);
    gauge("snapshot_bytes", "Bytes of prefixes on disk", stats.bytes);
    gauge(
        "snapshot_waiting_bytes",
        "Keys and values that wait to be written",
        stats.waiting_bytes,
    );
}

fn counters(registry: &mut Registry, stats: &Stats) {
    let mut counter = |name, help, value: u64| {
        let counter = Counter::<u64, AtomicU64>::default();
        counter.inc_by(value);
        registry.register(name, help, counter);
    };
    counter("snapshot_writes", "Snapshots written", stats.written);
    counter(
        "snapshot_written_bytes",
        "Bytes of them",
        stats.written_bytes,
    );
    counter("snapshot_reads", "Prefixes restored", stats.reads);
    counter(
        "snapshot_thawed_tokens",
        "Tokens of them, which were not read by the model",
        stats.read_tokens,
    );
    counter("snapshot_read_bytes", "Bytes of them", stats.read_bytes);
    counter(
        "snapshot_evictions",
        "Files dropped because of their age or to make room",
        stats.evicted,
    );
    counter(
        "snapshots_unusable",
        "Files passed over because they are damaged or another format's",
        stats.unusable,
    );
    for (name, help, time) in [
        (
            "snapshot_write_seconds",
            "Time spent on writing snapshots",
            stats.write_time,
        ),
        (
            "snapshot_read_seconds",
            "Time spent on reading snapshots",
            stats.read_time,
        ),
    ] {
        let counter = Counter::<f64, AtomicU64>::default();
        counter.inc_by(time.as_secs_f64());
        registry.register(name, help, counter);
    }
}
