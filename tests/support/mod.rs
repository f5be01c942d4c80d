//! A server of scripted models on a loopback port, and what tests ask of it.

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

/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A log that ends with its process.
fn in_memory() -> SessionLog {
    SessionLog::start(Arc::new(MemoryStorage::default()), LogOptions::default()).expect("a log")
}

/// What a server is made of.
pub(crate) struct Setup {
    pub(crate) models: Vec<Script>,
    pub(crate) options: HttpOptions,
    pub(crate) shutdown_grace: Duration,
    pub(crate) entropy: Arc<Entropy>,
    pub(crate) log: SessionLog,
    pub(crate) gate: Arc<Authenticator>,
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
            gate: Arc::new(Authenticator::open(false)),
            snapshots: None,
        }
    }
}

impl Setup {
    /// One model that answers everything with this text.
    pub(crate) fn answering(text: &'static str) -> Self {
        Self::of(Script::new("scripted", move |_| text.to_owned()))
    }

    /// One model.
    pub(crate) fn of(model: Script) -> Self {
        Self {
            models: vec![model],
            ..Self::default()
        }
    }

    /// Starts the server.
    pub(crate) async fn start(self) -> TestApp {
        self.start_over(None).await
    }

    /// Starts the server, over TLS if so told.
    pub(crate) async fn start_over(self, tls: Option<&'static Tls>) -> TestApp {
        let memories = self.models.iter().map(Script::memories).collect();
        let models = self.models.into_iter().map(Script::serve).collect();
        let models = Models::new(models).expect("models with different names");
        let clock = Arc::new(fakes::Clock);
        let service = Service::new(models, self.log, clock, self.entropy);
        let service = Arc::new(service.with_snapshots(self.snapshots));
        let state = AppState::new(
            Arc::clone(&service),
            self.gate,
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
            memories,
            stop: Some(stop),
            server: tokio::spawn(served),
        }
    }
}

/// A running server.
pub(crate) struct TestApp {
    pub(crate) service: Arc<Service>,
    pub(crate) url: String,
    pub(crate) client: reqwest::Client,
    memories: Vec<Arc<AtomicUsize>>,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<std::io::Result<()>>,
}

impl TestApp {
    /// Asks for a response.
    pub(crate) async fn create(&self, request: Value) -> Response {
        self.post("/v1/responses", &request).await
    }

    /// Posts a request.
    pub(crate) async fn post(&self, path: &str, request: &Value) -> Response {
        let request = self
            .client
            .post(format!("{}{path}", self.url))
            .json(request);
        request.send().await.expect("an answer")
    }

    /// Asks for a response that must come.
    pub(crate) async fn created(&self, request: Value) -> Value {
        let answer = self.create(request).await;
        let status = answer.status();
        let body: Value = answer.json().await.expect("JSON");
        assert_eq!(status, 200, "{body}");
        body
    }

    /// Asks for a stream.
    pub(crate) async fn stream(&self, mut request: Value) -> Events {
        request["stream"] = true.into();
        let answer = self.create(request).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()[CONTENT_TYPE], "text/event-stream");
        Events::new(answer)
    }

    /// Gets a path.
    pub(crate) async fn get(&self, path: &str) -> Response {
        let request = self.client.get(format!("{}{path}", self.url));
        request.send().await.expect("an answer")
    }

    /// Deletes a path.
    pub(crate) async fn delete(&self, path: &str) -> Response {
        let request = self.client.delete(format!("{}{path}", self.url));
        request.send().await.expect("an answer")
    }

    /// Posts these bytes as JSON, whatever they are.
    pub(crate) async fn post_bytes(&self, bytes: impl Into<reqwest::Body>) -> Response {
        let request = self.client.post(format!("{}/v1/responses", self.url));
        let request = request.header(CONTENT_TYPE, "application/json").body(bytes);
        request.send().await.expect("an answer")
    }

    /// Sequences that the engines hold memory for.
    pub(crate) fn sequences(&self) -> usize {
        let count = |memories: &Arc<AtomicUsize>| memories.load(Ordering::SeqCst);
        self.memories.iter().map(count).sum()
    }

    /// Waits until the engines hold this many sequences.
    pub(crate) async fn wait_for_sequences(&self, count: usize) {
        let reached = async {
            while self.sequences() != count {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let reached = tokio::time::timeout(PATIENCE, reached).await;
        assert!(
            reached.is_ok(),
            "{} sequences, not {count}",
            self.sequences()
        );
    }

    /// Tells the server to stop.
    pub(crate) fn stop(&mut self) {
        let stop = self.stop.take().expect("stopped once");
        stop.send(()).expect("a server that listens to it");
    }

    /// Waits until the server has stopped.
    pub(crate) async fn stopped(self) {
        let stopped = tokio::time::timeout(PATIENCE, self.server).await;
        let served = stopped.expect("a server that stops").expect("no panic");
        served.expect("no error");
    }
}

/// The error object of an answer that must have this status.
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
