//! `cargo xtask bench load`: many at once, beside the other servers.

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
    client::{Answer, Client},
    figures::{Figures, median},
    load_report,
    server_report::{Output, Views},
    servers::{ServerArgs, Servers, Side, Slots},
    talk::{Passages, turn},
};
use crate::project::Project;

/// What is measured under load.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    servers: ServerArgs,
    /// What to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Part::ALL)]
    parts: Vec<Part>,
    /// Numbers of streams whose decoding is measured.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16])]
    streams: Vec<u64>,
    /// Tokens of each stream's answer.
    #[arg(long, default_value_t = 128)]
    answer_tokens: u64,
    /// Long prompts in front of a short chat.
    #[arg(long, default_value_t = 8)]
    prompts: u64,
    /// Tokens of each.
    #[arg(long, default_value_t = 3000)]
    prompt_tokens: u64,
    /// Seconds after which the short chat is given up; that is what is then reported.
    #[arg(long, default_value_t = 600)]
    patience: u64,
    /// Requests that share a prefix.
    #[arg(long, default_value_t = 32)]
    sharing: u64,
    /// Tokens of that prefix.
    #[arg(long, default_value_t = 5000)]
    shared_tokens: u64,
    /// Clients that ask while the log is on and off, and how often each does.
    #[arg(long, default_value_t = 8)]
    log_clients: u64,
    /// How often each of them asks.
    #[arg(long, default_value_t = 20)]
    log_turns: u64,
}

/// A part of the measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    /// Tokens per second of streams at once.
    Decode,
    /// The first token of a short chat behind long prompts.
    Short,
    /// Requests that share a prefix; ours only.
    Shared,
    /// Throughput with the log on and off; ours only.
    Log,
}

impl Part {
    const ALL: [Self; 4] = [Self::Decode, Self::Short, Self::Shared, Self::Log];
}

/// Measures and writes `docs/benchmarks/load.md`, `load.json` and `load.svg`.
pub(crate) fn load(project: &Project, args: &LoadArgs) -> Result<()> {
    let servers = Servers::prepare(project, &args.servers)?;
    let output = Output::new(project, &args.servers, "load");
    let views: Views = (load_report::markdown, load_report::chart);
    output.measure(&servers, &args.servers, views, |side, number, figures| {
        let ours_alone = [Part::Shared, Part::Log];
        let parts = args.parts.iter();
        for part in parts.filter(|part| side == Side::Stemma || !ours_alone.contains(part)) {
            servers.forget()?;
            figures.extend(match part {
                Part::Decode => decode(&servers, args, side, number)?,
                Part::Short => short(&servers, args, side, number)?,
                Part::Shared => shared(&servers, args, number)?,
                Part::Log => log(&servers, args, number)?,
            });
        }
        Ok(())
    })
}

/// A chat of one message.
fn chat(text: &str, tokens_max: u64) -> Value {
    json!({
        "messages": [{ "role": "user", "content": text }],
        "temperature": 0,
        "max_tokens": tokens_max,
        "stream": true,
        "stream_options": { "include_usage": true },
    })
}

/// Sends requests at once and waits for all answers.
fn at_once(
    client: &Client,
    bodies: Vec<Value>,
    ask: fn(&Client, &Value) -> Result<Answer>,
) -> Result<Vec<Answer>> {
    let asking = |body: Value| {
        let client = client.clone();
        thread::spawn(move || ask(&client, &body))
    };
    let threads: Vec<_> = bodies.into_iter().map(asking).collect();
    let answers = threads.into_iter().map(|thread| {
        let answer = thread.join();
        answer.map_err(|_| anyhow!("a client panicked"))?
    });
    answers.collect()
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
            servers.never_end(side, &mut body);
            body
        };
        let answers = at_once(
            &server.client,
            (0..streams).map(body).collect(),
            Client::chat,
        )?;
        let ended = answers
            .iter()
            .any(|answer| answer.output_tokens < args.answer_tokens);
        ensure!(!ended, "an answer of {} ended early", side.name());
        let rate = together(&answers).context("the streams did not run together")?;
        figures.insert(format!("decode_{streams}_tokens_per_s"), rate);
    }
    Ok(figures)
}

/// Tokens per second of all streams together, while all of them decode.
fn together(answers: &[Answer]) -> Option<f64> {
    let times = answers.iter().map(|answer| {
        let sent = answer.sent?;
        let times: Vec<Instant> = answer.times.iter().map(|&after| sent + after).collect();
        Some((times, answer.output_tokens))
    });
    let times: Vec<(Vec<Instant>, u64)> = times.collect::<Option<_>>()?;
    let begin = *times.iter().filter_map(|(times, _)| times.first()).max()?;
    let end = *times.iter().filter_map(|(times, _)| times.last()).min()?;
    let seconds = end.checked_duration_since(begin)?.as_secs_f64();
    // Some servers send several tokens at once, so that pieces are weighed.
    let tokens = times.iter().map(|(times, tokens)| {
        let within = times.iter().filter(|&&at| begin < at && at <= end).count();
        let pieces = times.len().saturating_sub(1).max(1);
        (tokens.saturating_sub(1)) as f64 * within as f64 / pieces as f64
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
    // So that they are all in front.
    thread::sleep(Duration::from_millis(1000));
    let (sender, first) = sync_channel(1);
    let client = server.client.clone();
    let short = thread::spawn(move || {
        let answer = client.chat(&chat("What is the capital of France?", 8));
        let _ = sender.send(answer.and_then(|answer| answer.first_ms()));
    });
    let patience = Duration::from_secs(args.patience);
    let first_ms = match first.recv_timeout(patience) {
        Ok(first_ms) => first_ms?,
        Err(_) => patience.as_secs_f64() * 1e3,
    };
    let given_up = f64::from(u8::from(first_ms >= patience.as_secs_f64() * 1e3));
    let waited = long.iter().filter(|long| !long.is_finished()).count();
    server.kill()?;
    // What they were told last is nobody's concern.
    let _ = short.join();
    long.into_iter().for_each(|long| drop(long.join()));
    Ok(Figures::from([
        ("short_first_ms".to_owned(), first_ms),
        ("short_given_up".to_owned(), given_up),
        ("short_long_prompts_unanswered".to_owned(), waited as f64),
    ]))
}

fn shared(servers: &Servers, args: &LoadArgs, number: usize) -> Result<Figures> {
    let slots = Slots {
        count: 1,
        tokens: 0,
    };
    let server = servers.start(Side::Stemma, slots)?;
    let text = Passages::from(number).tokens(args.shared_tokens);
    let read = |client: &Client| -> Result<f64> {
        let metrics = client.metrics()?;
        let read = metrics.get("stemma_prefilled_tokens_total").copied();
        read.context("/metrics does not tell how many tokens were read")
    };
    let before = read(&server.client)?;
    let body = |nth: u64| turn(None, &format!("{text}\n\nWhat is {nth} plus 5?"), 4);
    let bodies = (0..args.sharing).map(body).collect();
    let start = Instant::now();
    let answers = at_once(&server.client, bodies, Client::response)?;
    let seconds = start.elapsed().as_secs_f64();
    let tokens = read(&server.client)? - before;
    let prompt = answers.first().map_or(0, |answer| answer.prompt_tokens) as f64;
    ensure!(
        prompt > 0.0,
        "the server does not tell how long a prompt is"
    );
    Ok(Figures::from([
        ("shared_requests".to_owned(), args.sharing as f64),
        ("shared_prompt_tokens".to_owned(), prompt),
        ("shared_read_tokens".to_owned(), tokens),
        ("shared_prefills".to_owned(), tokens / prompt),
        ("shared_all_answered_s".to_owned(), seconds),
    ]))
}

/// Where files lie in memory only.
const MEMORY: &str = "/dev/shm";

fn log(servers: &Servers, args: &LoadArgs, number: usize) -> Result<Figures> {
    ensure!(
        Path::new(MEMORY).is_dir(),
        "there is no {MEMORY} for a log that reaches no disk"
    );
    let memory = Path::new(MEMORY).join(format!("stemma-bench-{}", std::process::id()));
    let (mut on, mut off) = (Vec::new(), Vec::new());
    let measured = (|| {
        for turn in 0..5 {
            let seed = number * 100 + turn * 10;
            on.push(throughput(servers, args, (&[], &servers.sessions()), seed)?);
            let nothing_kept = ["--responses-store-max-entries=0"];
            off.push(throughput(servers, args, (&nothing_kept, &memory), seed)?);
        }
        Ok::<(), anyhow::Error>(())
    })();
    crate::folder::remove(&memory)?;
    measured?;
    let ratios: Vec<f64> = on.iter().zip(&off).map(|(on, off)| on / off).collect();
    let middle = |values| median(values).context("nothing was measured");
    Ok(Figures::from([
        ("log_on_tokens_per_s".to_owned(), middle(on)?),
        ("log_off_tokens_per_s".to_owned(), middle(off)?),
        ("log_on_times_off".to_owned(), middle(ratios)?),
    ]))
}

/// Tokens generated in a second for clients that ask again and again.
fn throughput(
    servers: &Servers,
    args: &LoadArgs,
    (flags, sessions): (&[&str], &Path),
    seed: usize,
) -> Result<f64> {
    let server = servers.ours(flags, sessions)?;
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
    fn streams_count_while_all_of_them_run() {
        let sent = Instant::now();
        let answer = |times: &[u64], output_tokens| Answer {
            sent: Some(sent),
            times: times.iter().map(|&s| Duration::from_secs(s)).collect(),
            output_tokens,
            ..Answer::default()
        };
        // From second 2 to 4: three of five pieces of one, two tokens each; all of the other.
        let one = answer(&[1, 2, 3, 4, 5, 6], 11);
        let other = answer(&[2, 3, 4], 3);
        let rate = together(&[one, other]).expect("they ran together");
        assert!((rate - (4.0 + 2.0) / 2.0).abs() < 1e-9, "{rate}");
        let apart = [answer(&[1, 2], 2), answer(&[3, 4], 2)];
        assert_eq!(together(&apart), None);
    }
}
