//! A server with scripted models on a loopback port, and requests to it.

mod events;
mod fakes;
mod model;

pub(crate) use events::{Events, Frame, chunks};
pub(crate) use fakes::Entropy;
pub(crate) use model::{Script, tokenizer};

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use reqwest::{Response, header::CONTENT_TYPE};
use serde_json::Value;
use stemma::{
    auth::Authenticator,
    cache::snapshot::Snapshots,
    http::{self, AppState, HttpOptions, Tls},
    responses::{Models, Service},
    session::{LogOptions, SessionLog, store::memory::MemoryStorage},
};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

/// Timeout of everything that a test waits for.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// Returns a session log in memory.
fn in_memory() -> SessionLog {
    SessionLog::start(Arc::new(MemoryStorage::default()), LogOptions::default()).expect("a log")
}

/// Configuration of a test server.
pub(crate) struct Setup {
    pub(crate) models: Vec<Script>,
    pub(crate) options: HttpOptions,
    pub(crate) shutdown_grace: Duration,
    pub(crate) entropy: Arc<Entropy>,
    pub(crate) log: SessionLog,
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) snapshots: Option<Snapshots>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            models: vec![Script::new("scripted", |_| "Hello there.".to_owned())],
            options: HttpOptions::default(),
            shutdown_grace: Duration::from_secs(1),
            entropy: Arc::default(),
            log: in_memory(),
            authenticator: Arc::new(Authenticator::open(false)),
            snapshots: None,
        }
    }
}

impl Setup {
    /// Returns a setup of one model that always generates `text`.
    pub(crate) fn answering(text: &'static str) -> Self {
        Self::of(Script::new("scripted", move |_| text.to_owned()))
    }

    /// Returns a setup of one model.
    pub(crate) fn of(model: Script) -> Self {
        Self {
            models: vec![model],
            ..Self::default()
        }
    }

    /// Starts the server.
    pub(crate) async fn start(self) -> TestApp {
        self.start_with_tls(None).await
    }

    /// Starts the server, over TLS if `tls` is given.
    pub(crate) async fn start_with_tls(self, tls: Option<&'static Tls>) -> TestApp {
        let live_caches = self.models.iter().map(Script::live_caches).collect();
        let models = self.models.into_iter().map(Script::serve).collect();
        let models = Models::new(models).expect("models with different names");
        let clock = Arc::new(fakes::Clock);
        let service = Service::new(models, self.log, clock, self.entropy);
        let service = Arc::new(service.with_snapshots(self.snapshots));
        let state = AppState::new(
            Arc::clone(&service),
            self.authenticator,
            self.options,
            Arc::new(Entropy::default()),
        );
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let signal = async {
            let _ = stopped.await;
        };
        let served = http::serve(listener, tls, state, signal, self.shutdown_grace);
        TestApp {
            service,
            url: format!("http://{address}"),
            client: reqwest::Client::new(),
            live_caches,
            stop: Some(stop),
            server: tokio::spawn(served),
        }
    }
}

/// A running test server.
pub(crate) struct TestApp {
    pub(crate) service: Arc<Service>,
    pub(crate) url: String,
    pub(crate) client: reqwest::Client,
    live_caches: Vec<Arc<AtomicUsize>>,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<std::io::Result<()>>,
}

impl TestApp {
    /// Posts a request of `/v1/responses`.
    pub(crate) async fn create(&self, request: Value) -> Response {
        self.post("/v1/responses", &request).await
    }

    /// Posts a JSON body.
    pub(crate) async fn post(&self, path: &str, request: &Value) -> Response {
        let request = self
            .client
            .post(format!("{}{path}", self.url))
            .json(request);
        request.send().await.expect("an answer")
    }

    /// Posts a request of `/v1/responses` that must succeed, and returns the response.
    pub(crate) async fn created(&self, request: Value) -> Value {
        let answer = self.create(request).await;
        let status = answer.status();
        let body: Value = answer.json().await.expect("JSON");
        assert_eq!(status, 200, "{body}");
        body
    }

    /// Posts a streamed request of `/v1/responses` that must succeed.
    pub(crate) async fn stream(&self, mut request: Value) -> Events {
        request["stream"] = true.into();
        let answer = self.create(request).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()[CONTENT_TYPE], "text/event-stream");
        Events::new(answer)
    }

    /// Sends `GET`.
    pub(crate) async fn get(&self, path: &str) -> Response {
        let request = self.client.get(format!("{}{path}", self.url));
        request.send().await.expect("an answer")
    }

    /// Sends `DELETE`.
    pub(crate) async fn delete(&self, path: &str) -> Response {
        let request = self.client.delete(format!("{}{path}", self.url));
        request.send().await.expect("an answer")
    }

    /// Posts bytes to `/v1/responses` as `application/json`.
    pub(crate) async fn post_bytes(&self, bytes: impl Into<reqwest::Body>) -> Response {
        let request = self.client.post(format!("{}/v1/responses", self.url));
        let request = request.header(CONTENT_TYPE, "application/json").body(bytes);
        request.send().await.expect("an answer")
    }

    /// Returns the number of sequences whose KV cache the engines hold.
    pub(crate) fn sequences(&self) -> usize {
        let count = |live_caches: &Arc<AtomicUsize>| live_caches.load(Ordering::SeqCst);
        self.live_caches.iter().map(count).sum()
    }

    /// Waits until the engines hold this number of sequences.
    pub(crate) async fn wait_for_sequences(&self, count: usize) {
        let reached = async {
            while self.sequences() != count {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let reached = tokio::time::timeout(TIMEOUT, reached).await;
        assert!(
            reached.is_ok(),
            "{} sequences, not {count}",
            self.sequences()
        );
    }

    /// Signals the server to shut down.
    pub(crate) fn stop(&mut self) {
        let stop = self.stop.take().expect("stopped once");
        stop.send(()).expect("a server that listens to it");
    }

    /// Waits until the server has shut down.
    pub(crate) async fn stopped(self) {
        let stopped = tokio::time::timeout(TIMEOUT, self.server).await;
        let served = stopped.expect("a server that stops").expect("no panic");
        served.expect("no error");
    }
}

/// Returns the error object of a response. Checks the response's status.
pub(crate) async fn error(answer: Response, status: u16) -> Value {
    assert!(answer.headers().contains_key("x-request-id"));
    assert_eq!(answer.headers()[CONTENT_TYPE], "application/json");
    let found = answer.status();
    let body: Value = answer.json().await.expect("JSON");
    assert_eq!(found, status, "{body}");
    let error = &body["error"];
    let keys: Vec<&String> = error.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["message", "type", "param", "code"]);
    error.clone()
}
