//! `cargo xtask bench chain`: the time to first token of turns in a long conversation. stemma continues
//! a stored response; the other servers get the whole conversation again.

use std::{thread, time::Duration};

use anyhow::Result;
use clap::Args;

use super::{
    chain_report,
    client::Completion,
    conversation::{Conversation, Passages, expect, turn},
    figures::{Figures, median},
    server_report::{Output, Views},
    servers::{ServerArgs, Servers, Side, Slots},
};
use crate::{process::say, project::Project};

/// Arguments of `bench chain`.
#[derive(Debug, Args)]
pub(crate) struct ChainArgs {
    #[command(flatten)]
    servers: ServerArgs,
    /// History lengths, in tokens, at which turns are measured.
    #[arg(long, value_delimiter = ',', default_values_t = [500, 1000, 2000, 4000, 7000])]
    sizes: Vec<u64>,
    /// Warm turns measured at each length; each continues the one before.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
    /// Seconds for stemma to write its snapshots before it is killed.
    #[arg(long, default_value_t = 3)]
    settle: u64,
}

/// A stored response that later turns continue.
pub(super) struct Checkpoint {
    /// Tokens of history.
    pub(super) size: u64,
    pub(super) response: String,
}

impl Checkpoint {
    /// Returns a request that continues the checkpoint, as long as a warm turn's.
    pub(super) fn turn(&self) -> serde_json::Value {
        let text = "What is 17 plus 25? Say only the number.";
        turn(Some(&self.response), text, 8)
    }
}

/// Measures chains and writes `docs/benchmarks/chain.md`, `chain.json` and `chain.svg`.
pub(super) fn chain(project: &Project, args: &ChainArgs) -> Result<()> {
    let servers = Servers::prepare(project, &args.servers)?;
    let output = Output::new(project, &args.servers, "chain");
    let views: Views = (chain_report::chain_markdown, chain_report::chain_chart);
    output.measure(
        &servers,
        &args.servers,
        views,
        |side, number, figures| match side {
            Side::Stemma => our_chain(&servers, args, number, figures),
            Side::LlamaCpp | Side::MlxLm => their_chain(&servers, args, side, number, figures),
        },
    )
}

/// Returns one slot with room for the longest history.
pub(super) fn slots(sizes: &[u64]) -> Slots {
    let longest = sizes.iter().max().copied().unwrap_or(0);
    Slots {
        count: 1,
        tokens: (longest + 1024).min(8192),
    }
}

fn our_chain(
    servers: &Servers,
    args: &ChainArgs,
    number: usize,
    figures: &mut Figures,
) -> Result<()> {
    servers.clear()?;
    let checkpoints = our_warm(servers, args, number, figures)?;
    if servers.has_snapshots() {
        for checkpoint in &checkpoints {
            let size = checkpoint.size;
            let mut server = servers.start(Side::Stemma, slots(&args.sizes))?;
            let completion = server.client.response(&checkpoint.turn())?;
            let cached = completion.cached_tokens as f64;
            let state = completion.continuation.as_deref().unwrap_or("new");
            say(&format!(
                "{size} tokens after kill -9: {state}, {cached} cached"
            ));
            figures.insert(
                format!("{state}_after_kill_{size}_ms"),
                completion.first_ms()?,
            );
            figures.insert(format!("after_kill_{size}_cached_tokens"), cached);
            server.kill()?;
        }
    }
    for checkpoint in &checkpoints {
        let size = checkpoint.size;
        let mut server = servers.stemma(&servers.without_snapshots(), &servers.sessions())?;
        let completion = server.client.response(&checkpoint.turn())?;
        expect(&completion, "cold")?;
        figures.insert(format!("cold_{size}_ms"), completion.first_ms()?);
        let mut other_preamble = checkpoint.turn();
        other_preamble["instructions"] = "You are a helpful clerk.".into();
        let completion = server.client.response(&other_preamble)?;
        expect(&completion, "rebuilt")?;
        figures.insert(format!("rebuilt_{size}_ms"), completion.first_ms()?);
        server.kill()?;
    }
    Ok(())
}

/// Measures warm turns of stemma. Returns a checkpoint for each history length.
fn our_warm(
    servers: &Servers,
    args: &ChainArgs,
    number: usize,
    figures: &mut Figures,
) -> Result<Vec<Checkpoint>> {
    let mut server = servers.start(Side::Stemma, slots(&args.sizes))?;
    let mut conversation = Conversation::new(&server.client, Side::Stemma);
    let mut passages = Passages::from(number);
    let mut checkpoints = Vec::new();
    for &size in &args.sizes {
        conversation.fill(&mut passages, size)?;
        figures.insert(format!("history_{size}_tokens"), conversation.tokens as f64);
        let response = conversation.previous.clone().unwrap_or_default();
        checkpoints.push(Checkpoint { size, response });
        let (mut first, mut outside) = (Vec::new(), Vec::new());
        for _ in 0..args.turns {
            let (completion, prefill_ms) = ask_with_prefill_ms(&mut conversation)?;
            expect(&completion, "warm")?;
            first.push(completion.first_ms()?);
            outside.extend(prefill_ms.map(|ms| completion.first_ms().unwrap_or(0.0) - ms));
        }
        insert_median(figures, "warm", size, first);
        insert_median(figures, "outside", size, outside);
    }
    if servers.has_snapshots() {
        thread::sleep(Duration::from_secs(args.settle));
    }
    server.kill()?;
    Ok(checkpoints)
}

/// Runs a turn of stemma. Also returns the milliseconds that the model took to prefill the prompt;
/// `None` if the server has no such metric.
fn ask_with_prefill_ms(conversation: &mut Conversation<'_>) -> Result<(Completion, Option<f64>)> {
    const PREFILL: &str = "stemma_prefill_seconds_total";
    let before = conversation.client.metrics()?.get(PREFILL).copied();
    let completion = conversation.ask()?;
    let after = conversation.client.metrics()?.get(PREFILL).copied();
    let prefill_ms = before
        .zip(after)
        .map(|(before, after)| (after - before) * 1e3);
    Ok((completion, prefill_ms))
}

fn their_chain(
    servers: &Servers,
    args: &ChainArgs,
    side: Side,
    number: usize,
    figures: &mut Figures,
) -> Result<()> {
    let server = servers.start(side, slots(&args.sizes))?;
    let mut conversation = Conversation::new(&server.client, side);
    let mut passages = Passages::from(number);
    for &size in &args.sizes {
        conversation.fill(&mut passages, size)?;
        figures.insert(format!("history_{size}_tokens"), conversation.tokens as f64);
        let mut first = Vec::new();
        for _ in 0..args.turns {
            first.push(conversation.ask()?.first_ms()?);
        }
        insert_median(figures, "warm", size, first);
    }
    Ok(())
}

fn insert_median(figures: &mut Figures, name: &str, size: u64, values: Vec<f64>) {
    if let Some(value) = median(values) {
        figures.insert(format!("{name}_{size}_ms"), value);
    }
}
