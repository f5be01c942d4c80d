//! `/metrics`: what the server does and has done, in the OpenMetrics text format.

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

use super::{AppState, error::ApiError, openapi::Bodiless};
use crate::{
    engine::{EngineStats as Stats, Histogram, LatencyHistogram, LengthHistogram},
    responses::Service,
};

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers so far.
pub(super) type Answers = Family<AnswerLabels, Counter>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct AnswerLabels {
    method: String,
    route: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelLabels {
    model: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ContinuationLabels {
    temperature: &'static str,
    reason: String,
}

/// Counts an answer, by the route and not by the path, which may hold anything.
pub(super) async fn count(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("none", MatchedPath::as_str).to_owned();
    let method = request.method().as_str().to_owned();
    let response = next.run(request).await;
    let labels = AnswerLabels {
        method,
        route,
        status: response.status().as_u16(),
    };
    state.answers.get_or_create(&labels).inc();
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
    registry.register("http_answers", "Answers over HTTP", state.answers.clone());
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
    for (temperature, reason, count) in service.continuation_counts().counts() {
        let labels = ContinuationLabels {
            temperature: temperature.as_str(),
            reason: reason.map(|reason| reason.to_string()).unwrap_or_default(),
        };
        family.get_or_create(&labels).inc_by(count);
    }
    let help = "Continuations by where their prompts came from";
    registry.register("continuations", help, family);
}

/// Histograms of the engines, read at scrape time.
#[derive(Debug)]
struct Spreads(Vec<(ModelLabels, Stats)>);

impl Collector for Spreads {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let seconds = |times: &LatencyHistogram| Spread::of(times, 1e6);
        let tokens = |lengths: &LengthHistogram| Spread::of(lengths, 1.0);
        self.family(
            &mut encoder,
            ("queue_seconds", "Time from a request to its first step"),
            |s| seconds(&s.queue_times),
        )?;
        self.family(
            &mut encoder,
            (
                "first_token_seconds",
                "Time from a request to the first token of its answer",
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

impl Spreads {
    fn family(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
        spread: impl Fn(&Stats) -> Spread,
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, stats) in &self.0 {
            let Spread {
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

/// A histogram as it is written.
struct Spread {
    sum: f64,
    count: u64,
    buckets: Vec<(f64, u64)>,
}

impl Spread {
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

/// Name, help and value of what an engine counts.
type Figure<T> = (&'static str, &'static str, fn(&Stats) -> T);

const GAUGES: [Figure<usize>; 5] = [
    ("running", "Sequences that hold key/value memory", |s| {
        s.running
    }),
    ("waiting", "Generations that wait for a place", |s| {
        s.waiting
    }),
    ("kv_bytes", "Key/value memory of running sequences", |s| {
        s.kv_bytes
    }),
    ("cache_bytes", "Key/value memory of the prefix cache", |s| {
        s.cache.bytes
    }),
    ("cache_memories", "Prefixes in the cache", |s| {
        s.cache.memories
    }),
];

const COUNTERS: [Figure<u64>; 11] = [
    ("steps", "Steps of the engine", |s| s.steps),
    ("prefilled_tokens", "Tokens read as prompts", |s| {
        s.prefilled_tokens
    }),
    ("generated_tokens", "Tokens generated", |s| {
        s.generated_tokens
    }),
    (
        "guessed_tokens",
        "Tokens guessed and tried by --speculate",
        |s| s.drafted_tokens,
    ),
    (
        "guessed_right_tokens",
        "Those of them that were chosen: so many tokens without a step of their own",
        |s| s.accepted_tokens,
    ),
    (
        "evictions",
        "Sequences that lost their memory to others",
        |s| s.evictions,
    ),
    (
        "queue_timeouts",
        "Requests that ended because they had waited for --queue-timeout",
        |s| s.overdue,
    ),
    (
        "cache_hits",
        "Prompts that began like one in the cache",
        |s| s.cache.hits,
    ),
    (
        "cache_hit_tokens",
        "Tokens of prompts taken from the cache",
        |s| s.cache.hit_tokens,
    ),
    (
        "shared_tokens",
        "Tokens of prompts taken from other sequences that were running",
        |s| s.shared_tokens,
    ),
    ("cache_evictions", "Prefixes dropped from the cache", |s| {
        s.cache.evictions
    }),
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
    registry.register_collector(Box::new(Spreads(models)));
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
    let help = "Time of the model in steps that read prompts";
    seconds("prefill", help, |s| s.prefill_time);
    let help = "Time of the model in steps that only decode";
    seconds("decode", help, |s| s.decode_time);
}
