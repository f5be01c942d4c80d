//! `cargo xtask bench chain` and `restart`: the first token of a turn in a long conversation, beside
//! the servers to which everything must be sent again.

use std::{thread, time::Duration};

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::json;

use super::{
    chain_report,
    client::Answer,
    figures::{Figures, median},
    restart_report,
    server_report::{Output, Views},
    servers::{ServerArgs, Servers, Side, Slots},
    talk::{Passages, Talk, expect, turn},
};
use crate::{process::say, project::Project};

/// What is measured of chains.
#[derive(Debug, Args)]
pub(crate) struct ChainArgs {
    #[command(flatten)]
    servers: ServerArgs,
    /// Tokens of history at which turns are measured.
    #[arg(long, value_delimiter = ',', default_values_t = [500, 1000, 2000, 4000, 7000])]
    sizes: Vec<u64>,
    /// Warm turns measured at each, one continuing the other.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
    /// Seconds that ours gets to write its snapshots before it is killed.
    #[arg(long, default_value_t = 3)]
    settle: u64,
}

/// What is measured of restarts.
#[derive(Debug, Args)]
pub(crate) struct RestartArgs {
    #[command(flatten)]
    servers: ServerArgs,
    /// Tokens of history when the servers are restarted.
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 4000])]
    sizes: Vec<u64>,
    /// Seconds that ours gets to write its snapshots before it is killed.
    #[arg(long, default_value_t = 3)]
    settle: u64,
}

/// A place in a chain of ours from which turns are measured again later.
struct Place {
    size: u64,
    response: String,
}

/// Measures chains and writes `docs/benchmarks/chain.md`, `chain.json` and `chain.svg`.
pub(crate) fn chain(project: &Project, args: &ChainArgs) -> Result<()> {
    let servers = Servers::prepare(project, &args.servers)?;
    let output = Output::new(project, &args.servers, "chain");
    let views: Views = (chain_report::markdown, chain_report::chart);
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

/// Measures restarts and writes `docs/benchmarks/restart.md`, `restart.json` and `restart.svg`.
pub(crate) fn restart(project: &Project, args: &RestartArgs) -> Result<()> {
    let servers = Servers::prepare(project, &args.servers)?;
    let output = Output::new(project, &args.servers, "restart");
    let views: Views = (restart_report::markdown, restart_report::chart);
    output.measure(&servers, &args.servers, views, |side, number, figures| {
        let mut sizes = args.sizes.iter();
        sizes.try_for_each(|&size| restarted(&servers, args, side, (size, number), figures))
    })
}

/// What the others are given memory for.
fn slots(sizes: &[u64]) -> Slots {
    let most = sizes.iter().max().copied().unwrap_or(0);
    Slots {
        count: 1,
        tokens: (most + 1024).min(8192),
    }
}

fn our_chain(
    servers: &Servers,
    args: &ChainArgs,
    number: usize,
    figures: &mut Figures,
) -> Result<()> {
    servers.forget()?;
    let places = our_warm(servers, args, number, figures)?;
    if servers.has_snapshots() {
        for place in &places {
            let mut server = servers.start(Side::Stemma, slots(&args.sizes))?;
            let answer = server.client.response(&again(place))?;
            let cached = answer.cached_tokens as f64;
            let said = answer.temperature.as_deref().unwrap_or("new");
            say(&format!(
                "{} tokens after kill -9: {said}, {cached} cached",
                place.size
            ));
            figures.insert(
                format!("{said}_after_kill_{}_ms", place.size),
                answer.first_ms()?,
            );
            figures.insert(format!("after_kill_{}_cached_tokens", place.size), cached);
            server.kill()?;
        }
    }
    for place in &places {
        let mut server = servers.ours(&servers.without_snapshots(), &servers.sessions())?;
        let answer = server.client.response(&again(place))?;
        expect(&answer, "cold")?;
        figures.insert(format!("cold_{}_ms", place.size), answer.first_ms()?);
        let mut other_head = again(place);
        other_head["instructions"] = "You are a helpful clerk.".into();
        let answer = server.client.response(&other_head)?;
        expect(&answer, "rebuilt")?;
        figures.insert(format!("rebuilt_{}_ms", place.size), answer.first_ms()?);
        server.kill()?;
    }
    Ok(())
}

/// A turn that goes on from a place, of as many tokens as the warm ones.
fn again(place: &Place) -> serde_json::Value {
    let text = "What is 17 plus 25? Say only the number.";
    turn(Some(&place.response), text, 8)
}

/// Warm turns, and the places where they began.
fn our_warm(
    servers: &Servers,
    args: &ChainArgs,
    number: usize,
    figures: &mut Figures,
) -> Result<Vec<Place>> {
    let mut server = servers.start(Side::Stemma, slots(&args.sizes))?;
    let mut talk = Talk::new(&server.client, Side::Stemma);
    let mut passages = Passages::from(number);
    let mut places = Vec::new();
    for &size in &args.sizes {
        talk.fill(&mut passages, size)?;
        figures.insert(format!("history_{size}_tokens"), talk.tokens as f64);
        let response = talk.previous.clone().unwrap_or_default();
        places.push(Place { size, response });
        let (mut first, mut outside) = (Vec::new(), Vec::new());
        for _ in 0..args.turns {
            let (answer, step_ms) = stepped(&mut talk)?;
            expect(&answer, "warm")?;
            first.push(answer.first_ms()?);
            outside.extend(step_ms.map(|step_ms| answer.first_ms().unwrap_or(0.0) - step_ms));
        }
        keep(figures, "warm", size, first);
        keep(figures, "outside", size, outside);
    }
    if servers.has_snapshots() {
        thread::sleep(Duration::from_secs(args.settle));
    }
    server.kill()?;
    Ok(places)
}

/// A turn of ours, with the milliseconds that the model itself took to read its prompt, if the server
/// tells.
fn stepped(talk: &mut Talk<'_>) -> Result<(Answer, Option<f64>)> {
    const READING: &str = "stemma_prefill_seconds_total";
    let before = talk.client.metrics()?.get(READING).copied();
    let answer = talk.ask()?;
    let after = talk.client.metrics()?.get(READING).copied();
    let step_ms = before
        .zip(after)
        .map(|(before, after)| (after - before) * 1e3);
    Ok((answer, step_ms))
}

fn their_chain(
    servers: &Servers,
    args: &ChainArgs,
    side: Side,
    number: usize,
    figures: &mut Figures,
) -> Result<()> {
    let server = servers.start(side, slots(&args.sizes))?;
    let mut talk = Talk::new(&server.client, side);
    let mut passages = Passages::from(number);
    for &size in &args.sizes {
        talk.fill(&mut passages, size)?;
        figures.insert(format!("history_{size}_tokens"), talk.tokens as f64);
        let mut first = Vec::new();
        for _ in 0..args.turns {
            first.push(talk.ask()?.first_ms()?);
        }
        keep(figures, "warm", size, first);
    }
    Ok(())
}

fn keep(figures: &mut Figures, what: &str, size: u64, values: Vec<f64>) {
    if let Some(value) = median(values) {
        figures.insert(format!("{what}_{size}_ms"), value);
    }
}

/// The first turn after a restart, of a conversation that the server has held before.
fn restarted(
    servers: &Servers,
    args: &RestartArgs,
    side: Side,
    (size, number): (u64, usize),
    figures: &mut Figures,
) -> Result<()> {
    servers.forget()?;
    let slots = slots(&args.sizes);
    let mut passages = Passages::from(number);
    let (ready_s, answer) = match side {
        Side::Stemma => {
            let mut server = servers.start(side, slots)?;
            let mut talk = Talk::new(&server.client, side);
            talk.fill(&mut passages, size)?;
            talk.ask()?;
            let response = talk.previous.clone().unwrap_or_default();
            if servers.has_snapshots() {
                thread::sleep(Duration::from_secs(args.settle));
            }
            server.kill()?;
            let server = servers.start(side, slots)?;
            let answer = server.client.response(&again(&Place { size, response }))?;
            let said = answer.temperature.as_deref().unwrap_or("new").to_owned();
            say(&format!("{size} tokens after kill -9: {said}"));
            figures.insert(format!("said_{said}_{size}"), 1.0);
            (server.ready_s, answer)
        }
        Side::LlamaCpp | Side::MlxLm => {
            let server = servers.start(side, slots)?;
            let body = json!({
                "messages": [{ "role": "user", "content": passages.tokens(size) }],
                "temperature": 0,
                "max_tokens": 4,
                "stream": true,
                "stream_options": { "include_usage": true },
            });
            (server.ready_s, server.client.chat(&body)?)
        }
    };
    ensure!(
        answer.prompt_tokens > 0,
        "a server does not tell how long a prompt is"
    );
    figures.insert(format!("first_{size}_ms"), answer.first_ms()?);
    figures.insert(format!("prompt_{size}_tokens"), answer.prompt_tokens as f64);
    figures.insert(format!("ready_{size}_s"), ready_s);
    Ok(())
}
