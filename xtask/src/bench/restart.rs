//! `cargo xtask bench restart`: the time to first token of the first turn after a restart.

use std::{thread, time::Duration};

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::json;

use super::{
    chain::{Checkpoint, slots},
    chain_report,
    conversation::{Conversation, Passages},
    figures::Figures,
    server_report::{Output, Views},
    servers::{ServerArgs, Servers, Side},
};
use crate::{process::say, project::Project};

/// Arguments of `bench restart`.
#[derive(Debug, Args)]
pub(crate) struct RestartArgs {
    #[command(flatten)]
    servers: ServerArgs,
    /// History lengths, in tokens, at which the servers are restarted.
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 4000])]
    sizes: Vec<u64>,
    /// Seconds for stemma to write its snapshots before it is killed.
    #[arg(long, default_value_t = 3)]
    settle: u64,
}

/// Measures restarts and writes `docs/benchmarks/restart.md`, `restart.json` and `restart.svg`.
pub(super) fn restart(project: &Project, args: &RestartArgs) -> Result<()> {
    let servers = Servers::prepare(project, &args.servers)?;
    let output = Output::new(project, &args.servers, "restart");
    let views: Views = (chain_report::restart_markdown, chain_report::restart_chart);
    output.measure(&servers, &args.servers, views, |side, number, figures| {
        let mut sizes = args.sizes.iter();
        sizes.try_for_each(|&size| first_turn(&servers, args, side, (size, number), figures))
    })
}

/// Measures the first turn after a restart. stemma has stored the conversation before the restart.
fn first_turn(
    servers: &Servers,
    args: &RestartArgs,
    side: Side,
    (size, number): (u64, usize),
    figures: &mut Figures,
) -> Result<()> {
    servers.clear()?;
    let slots = slots(&args.sizes);
    let mut passages = Passages::from(number);
    let (ready_s, completion) = match side {
        Side::Stemma => {
            let mut server = servers.start(side, slots)?;
            let mut conversation = Conversation::new(&server.client, side);
            conversation.fill(&mut passages, size)?;
            conversation.ask()?;
            let response = conversation.previous.clone().unwrap_or_default();
            if servers.has_snapshots() {
                thread::sleep(Duration::from_secs(args.settle));
            }
            server.kill()?;
            let server = servers.start(side, slots)?;
            let checkpoint = Checkpoint { size, response };
            let completion = server.client.response(&checkpoint.turn())?;
            let state = completion
                .continuation
                .as_deref()
                .unwrap_or("new")
                .to_owned();
            say(&format!("{size} tokens after kill -9: {state}"));
            figures.insert(format!("said_{state}_{size}"), 1.0);
            (server.ready_s, completion)
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
        completion.prompt_tokens > 0,
        "a server does not report the length of a prompt"
    );
    figures.insert(format!("first_{size}_ms"), completion.first_ms()?);
    figures.insert(
        format!("prompt_{size}_tokens"),
        completion.prompt_tokens as f64,
    );
    figures.insert(format!("ready_{size}_s"), ready_s);
    Ok(())
}
