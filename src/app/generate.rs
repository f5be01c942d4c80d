//! `stemma generate`: one answer on standard output, as it comes.

use std::{
    io::{self, Write as _},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use serde_json::Map;

use super::{
    load_model::{self, ModelName},
    model_options::ModelOptions,
};
use crate::{
    auth::Caller,
    cache::CacheScope,
    cli::GenerateArgs,
    clock::{Entropy as _, SystemClock, SystemEntropy},
    conversation::{OutputEvent, Status, Turn},
    engine::{EngineOptions, FinishReason, Job, TokenEvent},
    responses::{Models, ServedModel, Service, TurnEvent, settle},
    session::{LogOptions, SessionLog, store::memory::MemoryStorage},
    telemetry,
    translate::inbound::{self, UnsupportedTools},
    wire,
};

pub(super) fn run(args: &GenerateArgs) -> anyhow::Result<()> {
    telemetry::start(&args.logging).map_err(anyhow::Error::msg)?;
    let opening = ModelOptions {
        loading: &args.loading,
        engine: EngineOptions {
            running_max: 1,
            waiting_max: 0,
            ..EngineOptions::default()
        },
        template_args: Map::new(),
        max_output_tokens: args.max_tokens.map(u64::from),
        lenient_tool_calls: false,
        snapshots: None,
    };
    let model = load_model::open(&ModelName::parse(&args.model), &opening)?;
    let runtime = super::runtime()?;
    let engine = model.engine.clone();
    let answered = match model.template {
        Some(_) => runtime.block_on(answer(args, model)),
        None => runtime.block_on(continue_text(args, &model)),
    };
    // MLX must not go with the process while the engine's thread still uses it.
    runtime.block_on(engine.shutdown(Duration::ZERO));
    answered
}

/// Answers through the same service as `POST /v1/responses`, so that both say the same.
async fn answer(args: &GenerateArgs, model: ServedModel) -> anyhow::Result<()> {
    let models = Models::new(vec![model]).map_err(anyhow::Error::msg)?;
    // Nothing of it is kept.
    let log = SessionLog::start(Arc::new(MemoryStorage::default()), LogOptions::default())?;
    let clock = Arc::new(SystemClock);
    let service = Service::new(models, log, clock, Arc::new(SystemEntropy));
    let prepared = service.prepare(&Caller::anyone(false), turn(args)?)?;
    let mut running = service.start(prepared, None).await?;
    while let Some(event) = running.next().await {
        match event {
            TurnEvent::Answer(OutputEvent::Delta { delta, .. }) => print(&delta)?,
            TurnEvent::Answer(_) => {}
            TurnEvent::Ended(record) => match record.status {
                Status::Failed(_) => bail!("the generation failed; the log says why"),
                _ => print("\n")?,
            },
        }
    }
    Ok(())
}

fn turn(args: &GenerateArgs) -> anyhow::Result<Turn> {
    let request = wire::CreateRequest {
        input: Some(wire::TextOrList::Text(args.prompt.clone())),
        instructions: args.instructions.clone(),
        temperature: args.temperature.map(f64::from),
        seed: args.seed,
        ..wire::CreateRequest::default()
    };
    Ok(inbound::turn(request, UnsupportedTools::Refuse)?)
}

/// Continues the text as it stands: the model has no idea of a conversation.
async fn continue_text(args: &GenerateArgs, model: &ServedModel) -> anyhow::Result<()> {
    if args.instructions.is_some() {
        bail!("the model has no chat template, so there is no place for --instructions");
    }
    let wishes = turn(args)?.sampling;
    let (_, sampling) = settle(&wishes, &model.defaults, SystemEntropy.draw() as u64);
    let prompt = model.tokenizer.encode_text(&args.prompt, true);
    let room = model.engine.context_length().saturating_sub(prompt.len());
    let wanted = args.max_tokens.map_or(room, |max| room.min(max as usize));
    let job = Job {
        prompt,
        max_new_tokens: wanted.max(1),
        sampling,
        constraint: None,
        end_tokens: Arc::clone(&model.end_tokens),
        cache_scope: CacheScope::default(),
        cache_key: None,
        restore: None,
    };
    let mut events = model.engine.submit(job)?;
    let mut text = model.tokenizer.detokenizer();
    print(&args.prompt)?;
    while let Some(event) = events.next().await {
        match event {
            TokenEvent::Accepted { .. } => {}
            TokenEvent::Token(token) => print(&text.push(token.id))?,
            TokenEvent::Finished(FinishReason::Failed(reason)) => {
                bail!("the model failed: {reason}")
            }
            TokenEvent::Finished(_) => print(&format!("{}\n", text.finish()))?,
        }
    }
    Ok(())
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}
