//! State shared by all handlers.

use std::{sync::Arc, time::Duration};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};
use tokio::sync::Semaphore;

use super::unknown_fields::UnknownFields;
use crate::{
    auth::Authenticator,
    clock::Entropy,
    limits,
    responses::Service,
    translate::{chat::ReasoningAlias, inbound::UnsupportedTools},
};

/// Options of the HTTP server.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Largest request body, after decompression.
    pub max_body_bytes: usize,
    /// Host names of the server besides those of its own machine; `None` for any.
    pub hosts: Option<Vec<String>>,
    /// Origins whose pages may call the server; `*` for all.
    pub cors_origins: Vec<String>,
    /// Handling of tools that this server does not have.
    pub unsupported_tools: UnsupportedTools,
    /// Second name of reasoning in chat completions.
    pub reasoning_alias: ReasoningAlias,
    /// A stream that is idle for this long sends a comment, so that proxies keep the connection
    /// open.
    pub keep_alive: Duration,
    /// A stream without an event for this long repeats `response.in_progress`, for clients that do
    /// not count comments.
    pub in_progress_repeat: Duration,
    /// `Retry-After` for rejected clients.
    pub retry_after: Duration,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            max_body_bytes: limits::BODY_BYTES_MAX,
            hosts: Some(Vec::new()),
            cors_origins: Vec::new(),
            unsupported_tools: UnsupportedTools::Refuse,
            reasoning_alias: ReasoningAlias::Reasoning,
            keep_alive: Duration::from_secs(10),
            in_progress_repeat: Duration::from_secs(30),
            retry_after: Duration::from_secs(1),
        }
    }
}

/// HTTP requests by method, route and status.
pub(super) type RequestCounts = Family<RequestLabels, Counter>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RequestLabels {
    pub(super) method: String,
    pub(super) route: String,
    pub(super) status: u16,
}

/// State shared by all handlers; clones share it too.
#[derive(Clone)]
pub struct AppState {
    pub(super) service: Arc<Service>,
    pub(super) gate: Arc<Authenticator>,
    pub(super) options: Arc<HttpOptions>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) unknown_fields: Arc<UnknownFields>,
    pub(super) requests: RequestCounts,
    /// Permits for CPU-bound work: validation, rendering and tokenisation.
    pub(super) preparing: Arc<Semaphore>,
}

impl AppState {
    /// Builds the state. `gate` authenticates callers, `entropy` makes request ids.
    pub fn new(
        service: Arc<Service>,
        gate: Arc<Authenticator>,
        options: HttpOptions,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            service,
            gate,
            options: Arc::new(options),
            entropy,
            unknown_fields: Arc::default(),
            requests: RequestCounts::default(),
            preparing: Arc::new(Semaphore::new(processors)),
        }
    }
}
