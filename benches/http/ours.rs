//! The server with a made-up model and a log on disk, as the program sets it up.

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

/// Key/value memory of a token, in bytes: that of SmolLM2 in half precision. So the prefix cache has as
/// many entries as it would have.
const KV_BYTES_PER_TOKEN: usize = 23_040;

/// What is kept.
pub(crate) struct Limits {
    /// Bytes of the session log in memory.
    log_bytes: u64,
    /// Bytes of prompts in memory.
    prefix_bytes: usize,
    /// On disk.
    bounds: RetentionLimits,
}

impl Limits {
    /// As in the program.
    pub(crate) fn usual() -> Self {
        Self {
            log_bytes: SledOptions::default().cache_bytes,
            prefix_bytes: EngineOptions::default().cache_bytes_max,
            bounds: RetentionLimits::default(),
        }
    }

    /// Caches that are soon full, so that what grows on is something else; of responses so many, and
    /// what was not stored for a second, or everything.
    pub(crate) fn small(kept: Option<u64>) -> Self {
        let bounds = kept.map(|kept| RetentionLimits::from_flags(Some(kept), None, None, 1));
        Self {
            log_bytes: 8 << 20,
            prefix_bytes: 64 << 20,
            bounds: bounds.unwrap_or_default(),
        }
    }
}

/// A running server.
pub(crate) struct Ours {
    pub(crate) address: SocketAddr,
    storage: Arc<SledStorage>,
    log: SessionLog,
}

impl Ours {
    pub(crate) async fn start(folder: &Path, limits: &Limits) -> Result<Self> {
        let sled = SledOptions {
            cache_bytes: limits.log_bytes,
        };
        let storage = Arc::new(SledStorage::open(folder, &sled)?);
        let log = SessionLog::start(
            storage.clone(),
            LogOptions {
                retention: limits.bounds,
                ..LogOptions::default()
            },
        )?;
        // To make tokens of an answer is no work of a model.
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

    /// Commits to the log so far.
    pub(crate) fn commits(&self) -> u64 {
        self.storage.write_stats().commits
    }

    pub(crate) async fn stop(self) -> Result<()> {
        self.log.close().await.context("closing the session log")
    }
}
