//! `cargo xtask bench load`: many concurrent requests, compared with the other servers.

use std::{
    path::Path,
    sync::mpsc::sync_channel,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::{
    client::{Client, Completion},
    conversation::{Passages, turn},
    figures::{Figures, median},
    load_report,
    server_report::{Output, Views},
    servers::{ServerArgs, Servers, Side, Slots},
};
use crate::project::Project;

/// Arguments of `bench load`.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    servers: ServerArgs,
    /// Scenarios to measure.
    #[arg(long = "parts", value_enum, value_delimiter = ',', default_values_t = Scenario::ALL)]
    scenarios: Vec<Scenario>,
    /// Numbers of concurrent streams whose decode rate is measured.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16])]
    streams: Vec<u64>,
    /// Tokens of each stream's output.
    #[arg(long, default_value_t = 128)]
    answer_tokens: u64,
    /// Long prompts sent before the short chat.
    #[arg(long, default_value_t = 8)]
    prompts: u64,
    /// Tokens of each long prompt.
    #[arg(long, default_value_t = 3000)]
    prompt_tokens: u64,
    /// Timeout of the short chat, in seconds; reported in place of its latency.
    #[arg(long = "patience", default_value_t = 600)]
    timeout: u64,
    /// Requests that share a prefix.
    #[arg(long, default_value_t = 32)]
    sharing: u64,
    /// Tokens of the shared prefix.
    #[arg(long, default_value_t = 5000)]
    shared_tokens: u64,
    /// Clients that run turns with the session log on and off.
    #[arg(long, default_value_t = 8)]
    log_clients: u64,
    /// Turns of each of these clients.
    #[arg(long, default_value_t = 20)]
    log_turns: u64,
}

/// A scenario of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Scenario {
    /// Decode rate of concurrent streams.
    Decode,
    /// Time to first token of a short chat behind long prompts.
    Short,
    /// Requests that share a prefix; stemma only.
    Shared,
    /// Throughput with the session log on and off; stemma only.
    Log,
}

impl Scenario {
    const ALL: [Self; 4] = [Self::Decode, Self::Short, Self::Shared, Self::Log];
}

/// Measures all servers in turn and writes `docs/benchmarks/load.md`, `load.json` and `load.svg`.
pub(crate) fn load(project: &Project, args: &LoadArgs) -> Result<()> {
    let servers = Servers::prepare(project, &args.servers)?;
    let output = Output::new(project, &args.servers, "load");
    let views: Views = (load_report::markdown, load_report::chart);
    output.measure(&servers, &args.servers, views, |side, number, figures| {
        let stemma_only = [Scenario::Shared, Scenario::Log];
        let applies = |it: &&Scenario| side == Side::Stemma || !stemma_only.contains(it);
        for scenario in args.scenarios.iter().filter(applies) {
            servers.clear()?;
            figures.extend(match scenario {
                Scenario::Decode => decode(&servers, args, side, number)?,
                Scenario::Short => short(&servers, args, side, number)?,
                Scenario::Shared => shared(&servers, args, number)?,
                Scenario::Log => log(&servers, args, number)?,
            });
        }
        Ok(())
    })
}

/// Returns a streamed chat completion request of one message.
fn chat(text: &str, tokens_max: u64) -> Value {
    json!({
        "messages": [{ "role": "user", "content": text }],
        "temperature": 0,
        "max_tokens": tokens_max,
        "stream": true,
        "stream_options": { "include_usage": true },
    })
}

/// Sends requests concurrently and waits for all completions.
fn send_all(
    client: &Client,
    bodies: Vec<Value>,
    ask: fn(&Client, &Value) -> Result<Completion>,
) -> Result<Vec<Completion>> {
    let asking = |body: Value| {
        let client = client.clone();
        thread::spawn(move || ask(&client, &body))
    };
    let threads: Vec<_> = bodies.into_iter().map(asking).collect();
    let completions = threads.into_iter().map(|thread| {
        let completion = thread.join();
        completion.map_err(|_| anyhow!("a client panicked"))?
    });
    completions.collect()
}

fn decode(servers: &Servers, args: &LoadArgs, side: Side, number: usize) -> Result<Figures> {
    let slots = Slots {
        count: args.streams.iter().max().copied().unwrap_or(1),
        tokens: args.answer_tokens + 256,
    };
    let server = servers.start(side, slots)?;
    let mut figures = Figures::new();
    for &streams in &args.streams {
        let body = |stream: u64| {
            let start = number * 64 + (streams * 16 + stream) as usize;
            let text = Passages::from(start).next(30);
            let text = format!("Write a long story that goes on from here: {text}");
            let mut body = chat(&text, args.answer_tokens);
            servers.ignore_eos(side, &mut body);
            body
        };
        let completions = send_all(
            &server.client,
            (0..streams).map(body).collect(),
            Client::chat,
        )?;
        let ended = completions
            .iter()
            .any(|completion| completion.output_tokens < args.answer_tokens);
        ensure!(!ended, "an output of {} ended early", side.name());
        let rate = concurrent_rate(&completions).context("the streams did not run together")?;
        figures.insert(format!("decode_{streams}_tokens_per_s"), rate);
    }
    Ok(figures)
}

/// Returns the tokens per second of all streams together, over the time in which all of them decode.
/// `None` if there is no such time.
fn concurrent_rate(completions: &[Completion]) -> Option<f64> {
    let times = completions.iter().map(|completion| {
        let sent = completion.sent?;
        let times: Vec<Instant> = completion.times.iter().map(|&after| sent + after).collect();
        Some((times, completion.output_tokens))
    });
    let times: Vec<(Vec<Instant>, u64)> = times.collect::<Option<_>>()?;
    let begin = *times.iter().filter_map(|(times, _)| times.first()).max()?;
    let end = *times.iter().filter_map(|(times, _)| times.last()).min()?;
    let seconds = end.checked_duration_since(begin)?.as_secs_f64();
    // Some servers send several tokens in one delta, so a delta counts its average number of tokens.
    let tokens = times.iter().map(|(times, tokens)| {
        let within = times.iter().filter(|&&at| begin < at && at <= end).count();
        let deltas = times.len().saturating_sub(1).max(1);
        (tokens.saturating_sub(1)) as f64 * within as f64 / deltas as f64
    });
    (seconds > 0.0).then(|| tokens.sum::<f64>() / seconds)
}

fn short(servers: &Servers, args: &LoadArgs, side: Side, number: usize) -> Result<Figures> {
    let slots = Slots {
        count: args.prompts + 1,
        tokens: args.prompt_tokens + 512,
    };
    let mut server = servers.start(side, slots)?;
    let ask = |body: Value| {
        let client = server.client.clone();
        thread::spawn(move || client.chat(&body))
    };
    let long = |nth: u64| {
        let mut passages = Passages::from(number + 3 * nth as usize);
        let text = passages.tokens(args.prompt_tokens);
        ask(chat(&format!("{nth}. {text}"), 16))
    };
    let long: Vec<_> = (0..args.prompts).map(long).collect();
    // The server has queued all long prompts by then.
    thread::sleep(Duration::from_millis(1000));
    let (sender, first) = sync_channel(1);
    let client = server.client.clone();
    let short = thread::spawn(move || {
        let completion = client.chat(&chat("What is the capital of France?", 8));
        let _ = sender.send(completion.and_then(|completion| completion.first_ms()));
    });
    let timeout = Duration::from_secs(args.timeout);
    let first_ms = match first.recv_timeout(timeout) {
        Ok(first_ms) => first_ms?,
        Err(_) => timeout.as_secs_f64() * 1e3,
    };
    let timed_out = f64::from(u8::from(first_ms >= timeout.as_secs_f64() * 1e3));
    let unanswered = long.iter().filter(|long| !long.is_finished()).count();
    server.kill()?;
    // The kill fails the requests that are still running; their errors are expected.
    let _ = short.join();
    long.into_iter().for_each(|long| drop(long.join()));
    Ok(Figures::from([
        ("short_first_ms".to_owned(), first_ms),
        ("short_given_up".to_owned(), timed_out),
        (
            "short_long_prompts_unanswered".to_owned(),
            unanswered as f64,
        ),
    ]))
}

fn shared(servers: &Servers, args: &LoadArgs, number: usize) -> Result<Figures> {
    let slots = Slots {
        count: 1,
        tokens: 0,
    };
    let server = servers.start(Side::Stemma, slots)?;
    let text = Passages::from(number).tokens(args.shared_tokens);
    let prefilled = |client: &Client| -> Result<f64> {
        let metrics = client.metrics()?;
        let tokens = metrics.get("stemma_prefilled_tokens_total").copied();
        tokens.context("/metrics has no stemma_prefilled_tokens_total")
    };
    let before = prefilled(&server.client)?;
    let body = |nth: u64| turn(None, &format!("{text}\n\nWhat is {nth} plus 5?"), 4);
    let bodies = (0..args.sharing).map(body).collect();
    let start = Instant::now();
    let completions = send_all(&server.client, bodies, Client::response)?;
    let seconds = start.elapsed().as_secs_f64();
    let tokens = prefilled(&server.client)? - before;
    let prompt = completions
        .first()
        .map_or(0, |completion| completion.prompt_tokens) as f64;
    ensure!(
        prompt > 0.0,
        "the server does not report the length of a prompt"
    );
    Ok(Figures::from([
        ("shared_requests".to_owned(), args.sharing as f64),
        ("shared_prompt_tokens".to_owned(), prompt),
        ("shared_read_tokens".to_owned(), tokens),
        ("shared_prefills".to_owned(), tokens / prompt),
        ("shared_all_answered_s".to_owned(), seconds),
    ]))
}

/// A file system in memory.
const MEMORY: &str = "/dev/shm";

fn log(servers: &Servers, args: &LoadArgs, number: usize) -> Result<Figures> {
    ensure!(
        Path::new(MEMORY).is_dir(),
        "there is no {MEMORY} for a session log in memory"
    );
    let memory = Path::new(MEMORY).join(format!("stemma-bench-{}", std::process::id()));
    let (mut on, mut off) = (Vec::new(), Vec::new());
    let measured = (|| {
        for turn in 0..5 {
            let seed = number * 100 + turn * 10;
            on.push(throughput(servers, args, (&[], &servers.sessions()), seed)?);
            let store_nothing = ["--responses-store-max-entries=0"];
            off.push(throughput(servers, args, (&store_nothing, &memory), seed)?);
        }
        Ok::<(), anyhow::Error>(())
    })();
    crate::folder::remove(&memory)?;
    measured?;
    let ratios: Vec<f64> = on.iter().zip(&off).map(|(on, off)| on / off).collect();
    let median = |values| median(values).context("nothing was measured");
    Ok(Figures::from([
        ("log_on_tokens_per_s".to_owned(), median(on)?),
        ("log_off_tokens_per_s".to_owned(), median(off)?),
        ("log_on_times_off".to_owned(), median(ratios)?),
    ]))
}

/// Returns the tokens per second of clients that run one turn after the other.
fn throughput(
    servers: &Servers,
    args: &LoadArgs,
    (flags, sessions): (&[&str], &Path),
    seed: usize,
) -> Result<f64> {
    let server = servers.stemma(flags, sessions)?;
    let turns = args.log_turns;
    let asking = |nth: u64| {
        let client = server.client.clone();
        thread::spawn(move || {
            let mut passages = Passages::from(seed + nth as usize);
            let mut tokens = 0;
            for _ in 0..turns {
                let mut body = turn(None, &passages.next(20), 32);
                body["ignore_eos"] = true.into();
                tokens += client.response(&body)?.output_tokens;
            }
            Ok::<u64, anyhow::Error>(tokens)
        })
    };
    let start = Instant::now();
    let threads: Vec<_> = (0..args.log_clients).map(asking).collect();
    let mut tokens = 0;
    for thread in threads {
        tokens += thread.join().map_err(|_| anyhow!("a client panicked"))??;
    }
    Ok(tokens as f64 / start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_covers_the_time_in_which_all_streams_run() {
        let sent = Instant::now();
        let completion = |times: &[u64], output_tokens| Completion {
            sent: Some(sent),
            times: times.iter().map(|&s| Duration::from_secs(s)).collect(),
            output_tokens,
            ..Completion::default()
        };
        // From second 2 to 4: two of one stream's five deltas, of two tokens each, and all of the
        // other's.
        let one = completion(&[1, 2, 3, 4, 5, 6], 11);
        let other = completion(&[2, 3, 4], 3);
        let rate = concurrent_rate(&[one, other]).expect("a common time");
        assert!((rate - (4.0 + 2.0) / 2.0).abs() < 1e-9, "{rate}");
        let apart = [completion(&[1, 2], 2), completion(&[3, 4], 2)];
        assert_eq!(concurrent_rate(&apart), None);
    }
}
