//! `stemma serve`.

use std::{
    convert::Infallible,
    io::{self, Write as _},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use serde_json::{Map, Value};
use tokio::net::TcpListener;

use super::{
    auth,
    load_model::{self, ModelName, ModelOptions},
    retention_task,
    signal::{self, Reload},
    snapshots,
};
use crate::{
    auth::Authenticator,
    cache::snapshot::Snapshots,
    cli::{AnswerArgs, ReasoningAliasArg, ServeArgs, SpeculateArg, UnsupportedToolsArg},
    clock::{SystemClock, SystemEntropy},
    engine::{EngineOptions, Speculation},
    http::{self, AppState, HttpOptions, Tls, TlsFiles},
    limits,
    responses::{Models, Service},
    session::{self, LogOptions, RetentionLimits, SessionLog, SledOptions},
    telemetry,
    template::PRESERVE_THINKING,
    translate::{
        chat::ReasoningAlias,
        inbound::{self, UnsupportedTools},
    },
};

/// Serves until told to stop.
pub(super) fn run(args: &ServeArgs) -> anyhow::Result<()> {
    telemetry::start(&args.logging).map_err(anyhow::Error::msg)?;
    let gate = Arc::new(auth::open(args)?);
    // First, because a second server over the folder is told so at once.
    let sled = SledOptions::default();
    let options = LogOptions {
        retention: bounds(args),
        ..LogOptions::default()
    };
    let log = session::open(&args.sessions, &sled, options)?;
    auth::record(&gate, args)?;
    // Looks through the folder while models load.
    let snapshots = snapshots::open(args)?;
    let models = models(args, snapshots.as_ref())?;
    if let Some(snapshots) = &snapshots {
        snapshots.tell_foreign(models.iter().filter_map(|model| model.snapshots.as_ref()));
    }
    super::runtime()?.block_on(async {
        let served = serve(args, models, log.clone(), gate, snapshots.as_ref()).await;
        let closed = log.close().await;
        if let Some(snapshots) = snapshots {
            snapshots.close();
        }
        served.and(closed.context("the session log could not be closed in order"))
    })
}

fn bounds(args: &ServeArgs) -> RetentionLimits {
    let keeping = &args.keeping;
    RetentionLimits::from_flags(
        keeping.responses_store_max_entries,
        keeping.responses_store_max_bytes,
        keeping.responses_store_ttl_secs,
        keeping.unstored_retention,
    )
}

fn models(args: &ServeArgs, snapshots: Option<&Snapshots>) -> anyhow::Result<Models> {
    let opening = ModelOptions {
        loading: &args.loading,
        engine: EngineOptions {
            running_max: args.max_running,
            waiting_max: args.max_queue,
            queue_timeout: (args.queue_timeout > 0)
                .then(|| Duration::from_secs(args.queue_timeout)),
            decode_stall_max: Some(limits::DECODE_GAP_MAX),
            kv_bytes_max: args.kv_bytes,
            speculation: match args.speculate {
                SpeculateArg::Off => Speculation::Off,
                SpeculateArg::Ngram => Speculation::Ngram,
            },
            ..EngineOptions::default()
        },
        template_args: template_args(&args.answers)?,
        max_output_tokens: args.max_tokens.map(u64::from),
        lenient_tool_calls: args.lenient_tool_calls,
        snapshots: snapshots.cloned(),
    };
    let names = args.models.iter().map(|text| ModelName::parse(text));
    let opened = names.map(|name| load_model::open(&name, &opening));
    let opened = opened.collect::<anyhow::Result<Vec<_>>>()?;
    Models::new(opened).map_err(anyhow::Error::msg)
}

fn template_args(answers: &AnswerArgs) -> anyhow::Result<Map<String, Value>> {
    let args = answers.chat_template_args.clone();
    let mut args = inbound::template_args("--chat-template-args", args)?;
    if !answers.preserve_thinking {
        args.entry(PRESERVE_THINKING).or_insert(false.into());
    }
    Ok(args)
}

async fn serve(
    args: &ServeArgs,
    models: Models,
    log: SessionLog,
    gate: Arc<Authenticator>,
    snapshots: Option<&Snapshots>,
) -> anyhow::Result<()> {
    let reload = || Reload::listen().context("cannot wait for signals");
    let tls = tls(args)?;
    let address = SocketAddr::new(args.host, args.port);
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}"))?;
    let address = listener
        .local_addr()
        .context("the listener has no address")?;
    let clock = Arc::new(SystemClock);
    let service = Service::new(models, log.clone(), clock, Arc::new(SystemEntropy));
    let service = Arc::new(service.with_snapshots(snapshots.cloned()));
    let options = http_options(args);
    let entropy = Arc::new(SystemEntropy);
    let state = AppState::new(Arc::clone(&service), Arc::clone(&gate), options, entropy);
    let follow = auth::follow(&gate, args, reload()?);
    let renew = renew(tls.as_ref(), reload()?);
    let mut out = io::stdout();
    let scheme = if tls.is_some() { "https" } else { "http" };
    writeln!(out, "stemma listening on {scheme}://{address}")
        .and_then(|()| out.flush())
        .context("cannot write to standard output")?;
    let grace = Duration::from_secs(args.shutdown_grace);
    let served = tokio::select! {
        served = http::serve(listener, tls.as_ref(), state, told_to_stop(), grace) => served,
        never = retention_task::sweep(&log, &SystemClock) => match never {},
        never = snapshots::sweep(&service) => match never {},
        never = follow => match never {},
        never = renew => match never {},
    };
    served.context("the server failed")
}

fn tls(args: &ServeArgs) -> anyhow::Result<Option<Tls>> {
    let (Some(cert), Some(key)) = (&args.access.tls_cert, &args.access.tls_key) else {
        return Ok(None);
    };
    let (cert, key) = (cert.clone(), key.clone());
    Ok(Some(Tls::open(TlsFiles { cert, key })?))
}

/// Reads the certificate again when the process is told to.
async fn renew(tls: Option<&Tls>, mut reload: Reload) -> Infallible {
    loop {
        reload.told().await;
        match tls.map(Tls::reload) {
            Some(Ok(())) => tracing::info!("certificate reloaded"),
            Some(Err(error)) => {
                tracing::error!(%error, "certificate reload failed");
            }
            None => {}
        }
    }
}

fn http_options(args: &ServeArgs) -> HttpOptions {
    let access = &args.access;
    HttpOptions {
        max_body_bytes: args.max_body_bytes,
        // Elsewhere names come from the network's own, which the server cannot know.
        hosts: args
            .host
            .is_loopback()
            .then(|| access.allowed_hosts.clone()),
        cors_origins: access.cors_origins.clone(),
        unsupported_tools: match args.answers.unsupported_tools {
            UnsupportedToolsArg::Refuse => UnsupportedTools::Refuse,
            UnsupportedToolsArg::Skip => UnsupportedTools::Skip,
        },
        reasoning_alias: match args.answers.reasoning_alias_field {
            ReasoningAliasArg::Reasoning => ReasoningAlias::Reasoning,
            ReasoningAliasArg::None => ReasoningAlias::None,
        },
        ..HttpOptions::default()
    }
}

async fn told_to_stop() {
    if let Err(error) = signal::stop().await {
        tracing::error!(%error, "signal handling failed: stopping");
    }
}
