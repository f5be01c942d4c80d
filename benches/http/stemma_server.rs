//! stemma with a scripted model and a session log on disk, set up as the program does.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use stemma::{
    auth::Authenticator,
    clock::{SystemClock, SystemEntropy},
    engine::{EngineOptions, scripted::ScriptedExecutor},
    http::{self, AppState, HttpOptions},
    id::TokenId,
    responses::{Models, Service},
    session::{LogOptions, RetentionLimits, SessionLog, SledOptions, SledStorage},
};
use tokio::net::TcpListener;

use super::model::{Script, tokenizer};

/// KV cache of a token, in bytes: that of SmolLM2 135M as f16, so that the prefix cache holds as many
/// entries as with that model.
const KV_BYTES_PER_TOKEN: usize = 23_040;

/// Limits of the caches and of the store.
pub(crate) struct Limits {
    /// Cache of the session log, in bytes.
    log_bytes: u64,
    /// Prefix cache, in bytes.
    prefix_bytes: usize,
    /// Retention on disk.
    retention: RetentionLimits,
}

impl Limits {
    /// The program's defaults.
    pub(crate) fn defaults() -> Self {
        Self {
            log_bytes: SledOptions::default().cache_bytes,
            prefix_bytes: EngineOptions::default().cache_bytes_max,
            retention: RetentionLimits::default(),
        }
    }

    /// Small caches, which are soon full. The store keeps `stored_max` responses, and unstored ones for a
    /// second; `None` keeps everything.
    pub(crate) fn small(stored_max: Option<u64>) -> Self {
        let retention = stored_max.map(|max| RetentionLimits::from_flags(Some(max), None, None, 1));
        Self {
            log_bytes: 8 << 20,
            prefix_bytes: 64 << 20,
            retention: retention.unwrap_or_default(),
        }
    }
}

/// A running stemma server.
pub(crate) struct StemmaServer {
    pub(crate) address: SocketAddr,
    storage: Arc<SledStorage>,
    log: SessionLog,
}

impl StemmaServer {
    pub(crate) async fn start(folder: &Path, limits: &Limits) -> Result<Self> {
        let sled = SledOptions {
            cache_bytes: limits.log_bytes,
        };
        let storage = Arc::new(SledStorage::open(folder, &sled)?);
        let log = SessionLog::start(
            storage.clone(),
            LogOptions {
                retention: limits.retention,
                ..LogOptions::default()
            },
        )?;
        // The output is tokenized in advance, because a model does not tokenize.
        let tokenizer = tokenizer();
        let end = tokenizer.token_id("<|im_end|>").context("no end token")?;
        let answer = tokenizer.encode_text(&"one two three ".repeat(100), false);
        let say = move |_: &[TokenId]| answer.clone();
        let executor = ScriptedExecutor::new(tokenizer.vocab_size(), end, say)
            .kv_bytes_per_token(KV_BYTES_PER_TOKEN);
        let mut model = Script::new("scripted", |_| String::new()).executor(|_| executor);
        model.engine = EngineOptions {
            running_max: 64,
            cache_bytes_max: limits.prefix_bytes,
            ..EngineOptions::default()
        };
        let models = Models::new(vec![model.serve()]).map_err(anyhow::Error::msg)?;
        let clock = Arc::new(SystemClock);
        let service = Service::new(models, log.clone(), clock, Arc::new(SystemEntropy));
        let state = AppState::new(
            Arc::new(service),
            Arc::new(Authenticator::open(false)),
            HttpOptions::default(),
            Arc::new(SystemEntropy),
        );
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let never = std::future::pending();
        tokio::spawn(http::serve(listener, None, state, never, Duration::ZERO));
        Ok(Self {
            address,
            storage,
            log,
        })
    }

    /// Commits to the session log so far.
    pub(crate) fn commits(&self) -> u64 {
        self.storage.write_stats().commits
    }

    pub(crate) async fn stop(self) -> Result<()> {
        self.log.close().await.context("closing the session log")
    }
}
