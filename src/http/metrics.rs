//! `/metrics`: counters, gauges and histograms in the OpenMetrics text format.

mod snapshots;

use std::{fmt, sync::atomic::AtomicU64, time::Duration};

use axum::{
    extract::{MatchedPath, Request, State},
    http::header,
    middleware::Next,
    response::{IntoResponse, Response},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet, text},
    metrics::{MetricType, counter::Counter, family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};

use super::{AppState, error::ApiError, openapi::Bodiless, state::RequestLabels};
use crate::{
    engine::{EngineStats as Stats, Histogram, LatencyHistogram, LengthHistogram},
    responses::Service,
};

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelLabels {
    model: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ContinuationLabels {
    state: &'static str,
    reason: String,
}

/// Counts an answer, by the route and not by the path, which may hold anything.
pub(super) async fn count(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("none", MatchedPath::as_str).to_owned();
    let method = request.method().as_str().to_owned();
    let response = next.run(request).await;
    let labels = RequestLabels {
        method,
        route,
        status: response.status().as_u16(),
    };
    state.requests.get_or_create(&labels).inc();
    response
}

/// `GET /metrics`.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operations",
    operation_id = "getMetrics",
    summary = "Counters and gauges",
    description = "For administrators: what the server does and has done, in the OpenMetrics text format.",
    responses(
        (status = 200, description = "The figures", body = String, content_type = CONTENT_TYPE),
        Bodiless,
    ),
)]
pub(super) async fn metrics(State(state): State<AppState>) -> Result<Response, ApiError> {
    let mut registry = Registry::with_prefix("stemma");
    registry.register("http_requests", "HTTP requests", state.requests.clone());
    continuations(&mut registry, &state.service);
    engines(&mut registry, &state.service);
    snapshots::snapshots(&mut registry, &state.service);
    let mut body = String::new();
    text::encode(&mut body, &registry).map_err(|error| {
        tracing::error!(%error, "the metrics could not be written");
        ApiError::internal()
    })?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response())
}

fn continuations(registry: &mut Registry, service: &Service) {
    let family = Family::<ContinuationLabels, Counter>::default();
    for (state, reason, count) in service.continuation_counts().counts() {
        let labels = ContinuationLabels {
            state: state.as_str(),
            reason: reason.map(|reason| reason.to_string()).unwrap_or_default(),
        };
        family.get_or_create(&labels).inc_by(count);
    }
    let help = "Continued turns, by continuation state";
    registry.register("continuations", help, family);
}

/// Histograms of the engines, read at scrape time.
#[derive(Debug)]
struct Histograms(Vec<(ModelLabels, Stats)>);

impl Collector for Histograms {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let seconds = |times: &LatencyHistogram| HistogramSample::of(times, 1e6);
        let tokens = |lengths: &LengthHistogram| HistogramSample::of(lengths, 1.0);
        self.family(
            &mut encoder,
            ("queue_seconds", "Time from a request to its first step"),
            |s| seconds(&s.queue_times),
        )?;
        self.family(
            &mut encoder,
            (
                "time_to_first_token_seconds",
                "Time from a request to its first output token",
            ),
            |s| seconds(&s.first_token_times),
        )?;
        self.family(
            &mut encoder,
            ("step_seconds", "Time of a step of the engine"),
            |s| seconds(&s.step_times),
        )?;
        self.family(&mut encoder, ("prompt_tokens", "Tokens of a prompt"), |s| {
            tokens(&s.prompt_lengths)
        })?;
        self.family(
            &mut encoder,
            ("answer_tokens", "Tokens of an answer"),
            |s| tokens(&s.answer_lengths),
        )
    }
}

impl Histograms {
    fn family(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
        spread: impl Fn(&Stats) -> HistogramSample,
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, stats) in &self.0 {
            let HistogramSample {
                sum,
                count,
                buckets,
            } = spread(stats);
            family
                .encode_family(labels)?
                .encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }
}

/// A histogram's sum, count and buckets.
struct HistogramSample {
    sum: f64,
    count: u64,
    buckets: Vec<(f64, u64)>,
}

impl HistogramSample {
    fn of<const FIRST: u64>(histogram: &Histogram<FIRST>, per_unit: f64) -> Self {
        let bound =
            |bound: Option<u64>| bound.map_or(f64::INFINITY, |bound| bound as f64 / per_unit);
        let buckets = histogram.buckets();
        Self {
            sum: histogram.sum() as f64 / per_unit,
            count: histogram.count(),
            buckets: buckets.map(|(most, count)| (bound(most), count)).collect(),
        }
    }
}

/// Name, help and value of an engine metric.
type Metric<T> = (&'static str, &'static str, fn(&Stats) -> T);

const GAUGES: [Metric<usize>; 5] = [
    ("running", "Sequences with a KV cache", |s| s.running),
    ("waiting", "Requests in the queue", |s| s.waiting),
    ("kv_bytes", "KV cache bytes of running sequences", |s| {
        s.kv_bytes
    }),
    ("prefix_cache_bytes", "Bytes of the prefix cache", |s| {
        s.cache.bytes
    }),
    ("prefix_cache_entries", "Entries of the prefix cache", |s| {
        s.cache.entries
    }),
];

const COUNTERS: [Metric<u64>; 11] = [
    ("steps", "Steps of the engine", |s| s.steps),
    ("prefilled_tokens", "Prompt tokens prefilled", |s| {
        s.prefilled_tokens
    }),
    ("generated_tokens", "Tokens generated", |s| {
        s.generated_tokens
    }),
    (
        "spec_decode_draft_tokens",
        "Tokens drafted by --speculate and verified",
        |s| s.drafted_tokens,
    ),
    (
        "spec_decode_accepted_tokens",
        "Drafted tokens that were accepted: tokens without a step of their own",
        |s| s.accepted_tokens,
    ),
    (
        "preemptions",
        "Sequences that lost their KV cache to others",
        |s| s.preemptions,
    ),
    (
        "queue_timeouts",
        "Requests that exceeded --queue-timeout",
        |s| s.queue_timeouts,
    ),
    (
        "prefix_cache_hits",
        "Prompts with a prefix in the cache",
        |s| s.cache.hits,
    ),
    (
        "prefix_cache_hit_tokens",
        "Prompt tokens taken from the prefix cache",
        |s| s.cache.hit_tokens,
    ),
    (
        "shared_tokens",
        "Prompt tokens forked from other running sequences",
        |s| s.shared_tokens,
    ),
    (
        "prefix_cache_evictions",
        "Entries evicted from the prefix cache",
        |s| s.cache.evictions,
    ),
];

fn engines(registry: &mut Registry, service: &Service) {
    let models = service.models().iter().map(|model| {
        let labels = ModelLabels {
            model: model.id.clone(),
        };
        (labels, model.engine.stats())
    });
    let models: Vec<(ModelLabels, Stats)> = models.collect();
    times(registry, &models);
    for (name, help, value) in GAUGES {
        let family = Family::<ModelLabels, Gauge<u64, AtomicU64>>::default();
        for (labels, stats) in &models {
            family.get_or_create(labels).set(value(stats) as u64);
        }
        registry.register(name, help, family);
    }
    for (name, help, value) in COUNTERS {
        let family = Family::<ModelLabels, Counter>::default();
        for (labels, stats) in &models {
            family.get_or_create(labels).inc_by(value(stats));
        }
        registry.register(name, help, family);
    }
    registry.register_collector(Box::new(Histograms(models)));
}

fn times(registry: &mut Registry, models: &[(ModelLabels, Stats)]) {
    let mut seconds = |name, help, value: fn(&Stats) -> Duration| {
        let family = Family::<ModelLabels, Counter<f64, AtomicU64>>::default();
        for (labels, stats) in models {
            let counter = family.get_or_create(labels);
            counter.inc_by(value(stats).as_secs_f64());
        }
        registry.register_with_unit(name, help, Unit::Seconds, family);
    };
    let help = "Time in steps that prefill";
    seconds("prefill", help, |s| s.prefill_time);
    let help = "Time in steps that only decode";
    seconds("decode", help, |s| s.decode_time);
}
