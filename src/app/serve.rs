//! `stemma serve`.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use tokio::net::TcpListener;

use super::{
    expiry,
    open::{self, ModelName, Opening},
    signal,
};
use crate::{
    cli::ServeArgs,
    clock::{SystemClock, SystemEntropy},
    engine::EngineOptions,
    http::{self, AppState, HttpOptions},
    responses::{Models, Service},
    session::{self, Bounds, LogOptions, SessionLog, SledOptions},
    telemetry,
};

/// Serves until told to stop.
pub(super) fn run(args: &ServeArgs) -> anyhow::Result<()> {
    telemetry::start(&args.logging).map_err(anyhow::Error::msg)?;
    if !args.host.is_loopback() && !args.allow_unauthenticated {
        bail!(
            "{} can be reached from other machines, and nobody needs a key: listen on loopback, or \
             say --allow-unauthenticated",
            args.host
        );
    }
    // First, because a second server over the folder is told so at once.
    let sled = SledOptions::default();
    let options = LogOptions {
        bounds: bounds(args),
        ..LogOptions::default()
    };
    let log = session::open(&args.sessions, &sled, options)?;
    let models = models(args)?;
    super::runtime()?.block_on(async {
        let served = serve(args, models, log.clone()).await;
        let closed = log.close().await;
        served.and(closed.context("the session log could not be closed in order"))
    })
}

fn bounds(args: &ServeArgs) -> Bounds {
    let keeping = &args.keeping;
    Bounds::from_flags(
        keeping.responses_store_max_entries,
        keeping.responses_store_max_bytes,
        keeping.responses_store_ttl_secs,
        keeping.unstored_retention,
    )
}

fn models(args: &ServeArgs) -> anyhow::Result<Models> {
    let opening = Opening {
        loading: &args.loading,
        engine: EngineOptions {
            running_max: args.max_running,
            waiting_max: args.max_queue,
            kv_bytes_max: args.kv_bytes,
            ..EngineOptions::default()
        },
        max_output_tokens: args.max_tokens.map(u64::from),
    };
    let names = args.models.iter().map(|text| ModelName::parse(text));
    let opened = names.map(|name| open::open(&name, &opening));
    let opened = opened.collect::<anyhow::Result<Vec<_>>>()?;
    Models::new(opened).map_err(anyhow::Error::msg)
}

async fn serve(args: &ServeArgs, models: Models, log: SessionLog) -> anyhow::Result<()> {
    let address = SocketAddr::new(args.host, args.port);
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}"))?;
    let address = listener
        .local_addr()
        .context("the listener has no address")?;
    let clock = Arc::new(SystemClock);
    let service = Service::new(models, log.clone(), clock, Arc::new(SystemEntropy));
    let options = HttpOptions {
        max_body_bytes: args.max_body_bytes,
        ..HttpOptions::default()
    };
    let state = AppState::new(Arc::new(service), options, Arc::new(SystemEntropy));
    let mut out = io::stdout();
    writeln!(out, "stemma listening on http://{address}")
        .and_then(|()| out.flush())
        .context("cannot write to standard output")?;
    let grace = Duration::from_secs(args.shutdown_grace);
    let served = tokio::select! {
        served = http::serve(listener, state, told_to_stop(), grace) => served,
        never = expiry::sweep(&log, &SystemClock) => match never {},
    };
    served.context("the server failed")
}

async fn told_to_stop() {
    if let Err(error) = signal::stop().await {
        tracing::error!(%error, "cannot wait for signals; stopping");
    }
}
