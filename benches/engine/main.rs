//! The benchmark of the engine without HTTP, run by `cargo xtask bench engine`.
//!
//! `measure MODEL` measures loading, prefill and decode. `perplexity MODEL TEXT` computes the perplexity of
//! a text. `copy MODEL TEXT` measures decode with and without n-gram drafts. Each prints one flat JSON
//! object with units in the names. `export MODEL FOLDER` writes the model in the Hugging Face layout with
//! 32-bit floats.

mod export;
mod perplexity;
#[path = "../support/mod.rs"]
mod support;

use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use clap::{Subcommand, ValueEnum};
use futures::future::join_all;
use stemma::{
    cache::CacheScope,
    engine::{self, EngineHandle, EngineOptions, Job, Speculation, TokenEvent, TokenStream},
    id::TokenId,
    load::{self, ModelFiles, Sources, Tensors},
    model::{
        self,
        exec::{
            cpu::{CpuExecutor, CpuOptions},
            mlx::{MlxExecutor, MlxOptions},
        },
    },
    sampling::SamplingParams,
    tokenizer::Tokenizer,
};

use self::support::{Figures, print, process_mib};

/// Prompt lengths whose prefill is timed, in tokens.
const PREFILLS: [usize; 2] = [512, 3400];
/// Batch sizes whose decode is timed.
const BATCHES: [usize; 3] = [1, 4, 8];
/// Prompt length and output length of a sequence whose decode is timed, in tokens.
const DECODE_PROMPT: usize = 64;
const DECODE_TOKENS: usize = 129;
/// Average context lengths at which decode is timed, in tokens.
const CONTEXTS: [usize; 2] = [100, 3000];
/// Length of the passage that a prompt repeats, in tokens.
const COPIED_TOKENS: usize = 160;
/// Window of the perplexity, in tokens.
const PERPLEXITY_WINDOW: usize = 512;

#[derive(Subcommand)]
enum Command {
    /// Measure loading, prefill, decode and memory.
    Measure {
        model: String,
        #[arg(long, value_enum, default_value_t = Device::Cpu)]
        device: Device,
    },
    /// Print the path of the model's file or folder.
    Path { model: String },
    /// Compute the perplexity of a text.
    Perplexity {
        model: String,
        text: PathBuf,
        #[arg(long, value_enum, default_value_t = Device::Cpu)]
        device: Device,
    },
    /// Measure decode after a repeated passage, with and without n-gram drafts.
    Copy {
        model: String,
        text: PathBuf,
        #[arg(long, value_enum, default_value_t = Device::Cpu)]
        device: Device,
    },
    /// Write the weights, config.json and the tokenizer to a folder.
    Export { model: String, folder: PathBuf },
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Device {
    Cpu,
    Mlx,
}

fn main() -> Result<()> {
    match support::command() {
        Command::Measure { model, device } => print(&measure(&find(&model)?, device)?),
        Command::Path { model } => {
            writeln!(io::stdout(), "{}", find(&model)?.display())?;
            Ok(())
        }
        Command::Perplexity {
            model,
            text,
            device,
        } => {
            let files = load::open(&find(&model)?)?;
            let perplexity = perplexity_of(&files, &fs::read_to_string(text)?, device)?;
            print(&Figures::from([("perplexity".into(), perplexity)]))
        }
        Command::Copy {
            model,
            text,
            device,
        } => {
            let figures = copy(&find(&model)?, &fs::read_to_string(text)?, device)?;
            print(&figures)
        }
        Command::Export { model, folder } => export::export(&load::open(&find(&model)?)?, &folder),
    }
}

fn find(model: &str) -> Result<PathBuf> {
    let sources = Sources::from_environment(|name| env::var(name).ok());
    Ok(load::resolve(model, &sources)?)
}

fn measure(path: &Path, device: Device) -> Result<Figures> {
    let mut figures = Figures::new();
    let files = load::open(path)?;
    let start = Instant::now();
    let elements = read_all(&*files.tensors)?;
    figures.insert("read_s".into(), start.elapsed().as_secs_f64());
    figures.insert("weights_mib".into(), mib(elements as f64 * 4.0));
    drop(files);

    let start = Instant::now();
    let engine = start_engine(load::open(path)?, device, Speculation::Off)?;
    figures.insert("load_s".into(), start.elapsed().as_secs_f64());
    tokio::runtime::Builder::new_current_thread()
        .build()?
        .block_on(speeds(&engine, &mut figures))?;
    figures.extend(process_mib("VmHWM:").map(|peak| ("peak_mib".into(), peak)));
    Ok(figures)
}

/// Reads every tensor and dequantises it to 32-bit floats. Returns the number of elements.
fn read_all(tensors: &dyn Tensors) -> Result<usize> {
    let mut out = Vec::new();
    let mut elements = 0;
    for name in tensors.names() {
        let info = tensors.info(name).context("a tensor has no description")?;
        out.resize(info.elements(), 0.0);
        tensors.read_f32(name, &mut out)?;
        elements += info.elements();
    }
    Ok(elements)
}

fn start_engine(
    files: ModelFiles,
    device: Device,
    speculation: Speculation,
) -> Result<EngineHandle> {
    let spec = model::describe(&files)?;
    // The benchmark measures computation, so the prefix cache is off.
    let options = EngineOptions {
        cache_bytes_max: 0,
        speculation,
        ..EngineOptions::default()
    };
    let engine = match device {
        Device::Mlx => engine::start(options, move || {
            MlxExecutor::load(&spec, &*files.tensors, &MlxOptions::default())
                .map_err(|error| error.to_string())
        }),
        Device::Cpu => engine::start(options, move || {
            CpuExecutor::<half::f16>::load(&spec, &*files.tensors, &CpuOptions::default())
                .map_err(|error| error.to_string())
        }),
    };
    engine.map_err(|reason| anyhow!(reason))
}

fn perplexity_of(files: &ModelFiles, text: &str, device: Device) -> Result<f64> {
    let spec = model::describe(files)?;
    let tokens = Tokenizer::open(&files.tokenizer)?.encode_text(text, false);
    let tensors = &*files.tensors;
    match device {
        Device::Mlx => {
            let mut executor = MlxExecutor::load(&spec, tensors, &MlxOptions::default())?;
            perplexity::perplexity(&mut executor, &tokens, PERPLEXITY_WINDOW)
        }
        Device::Cpu => {
            let options = CpuOptions::default();
            let mut executor = CpuExecutor::<half::f16>::load(&spec, tensors, &options)?;
            perplexity::perplexity(&mut executor, &tokens, PERPLEXITY_WINDOW)
        }
    }
}

/// Measures greedy decode, with and without n-gram drafts, after two kinds of prompts. One repeats a
/// passage twice and starts it again, as agents repeat code. The other does not repeat itself, so that
/// most drafts are rejected.
fn copy(path: &Path, text: &str, device: Device) -> Result<Figures> {
    let tokens = Tokenizer::open(&load::open(path)?.tokenizer)?.encode_text(text, false);
    let passage = tokens
        .get(..COPIED_TOKENS)
        .context("the text is too short")?;
    let copied = [passage, passage, &passage[..8]].concat();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut figures = Figures::new();
    let modes = [("off", Speculation::Off), ("ngram", Speculation::Ngram)];
    for (name, speculation) in modes {
        let engine = start_engine(load::open(path)?, device, speculation)?;
        let rate = |prompt: &[TokenId]| {
            let mut job = job(&engine, 1, DECODE_TOKENS, 0);
            job.prompt = prompt.to_vec();
            let times = runtime.block_on(token_times(engine.submit(job)?))?;
            let (first, last) = times.first().zip(times.last()).context("no tokens")?;
            Ok::<_, anyhow::Error>((times.len() - 1) as f64 / (*last - *first).as_secs_f64())
        };
        rate(&copied)?;
        figures.insert(format!("copy_{name}_tokens_per_s"), rate(&copied)?);
        figures.insert(format!("new_{name}_tokens_per_s"), rate(passage)?);
        let stats = engine.stats();
        if stats.drafted_tokens > 0 {
            let share = stats.accepted_tokens as f64 / stats.drafted_tokens as f64;
            figures.insert("accepted_drafts_share".into(), share);
        }
    }
    Ok(figures)
}

async fn speeds(engine: &EngineHandle, figures: &mut Figures) -> Result<()> {
    prefill(engine, DECODE_PROMPT).await?;
    decode(engine, BATCHES[0], (DECODE_PROMPT, DECODE_TOKENS / 4)).await?;
    for length in PREFILLS {
        let (time, resident) = prefill(engine, length).await?;
        let rate = length as f64 / time.as_secs_f64();
        figures.insert(format!("prefill_{length}_tokens_per_s"), rate);
        figures.extend(resident.map(|mib| (format!("resident_{length}_tokens_mib"), mib)));
    }
    for sequences in BATCHES {
        let rate = decode(engine, sequences, (DECODE_PROMPT, DECODE_TOKENS)).await?;
        figures.insert(format!("decode_{sequences}_tokens_per_s"), rate);
    }
    for context in CONTEXTS {
        let rate = decode(engine, 1, (context - DECODE_TOKENS / 2, DECODE_TOKENS)).await?;
        figures.insert(format!("decode_at_{context}_ms_per_token"), 1000.0 / rate);
    }
    Ok(())
}

/// Returns the time from submitting a prompt until the first output token. Also returns the resident
/// memory at that time, in MiB, with the whole prompt in the KV cache.
async fn prefill(engine: &EngineHandle, length: usize) -> Result<(Duration, Option<f64>)> {
    let start = Instant::now();
    let mut stream = engine.submit(job(engine, length, 2, 0))?;
    next_token(&mut stream)
        .await?
        .context("the engine gave no token")?;
    let time = start.elapsed();
    let resident = process_mib("VmRSS:");
    while next_token(&mut stream).await?.is_some() {}
    Ok((time, resident))
}

/// Returns the tokens per second of all sequences together, over the time in which all of them decode.
async fn decode(
    engine: &EngineHandle,
    sequences: usize,
    (prompt, tokens): (usize, usize),
) -> Result<f64> {
    let streams: Vec<TokenStream> = (0..sequences)
        .map(|nth| engine.submit(job(engine, prompt, tokens, nth)))
        .collect::<Result<_, _>>()?;
    let times = join_all(streams.into_iter().map(token_times)).await;
    let times: Vec<Vec<Instant>> = times.into_iter().collect::<Result<_>>()?;
    let begin = times.iter().filter_map(|times| times.first()).max();
    let end = times.iter().filter_map(|times| times.last()).min();
    let (Some(&begin), Some(&end)) = (begin, end) else {
        return Err(anyhow!("the engine gave no tokens"));
    };
    let counted = times
        .iter()
        .flatten()
        .filter(|&&time| begin < time && time <= end);
    Ok(counted.count() as f64 / (end - begin).as_secs_f64())
}

async fn token_times(mut stream: TokenStream) -> Result<Vec<Instant>> {
    let mut times = Vec::new();
    while next_token(&mut stream).await?.is_some() {
        times.push(Instant::now());
    }
    Ok(times)
}

async fn next_token(stream: &mut TokenStream) -> Result<Option<TokenId>> {
    loop {
        match stream.next().await {
            Some(TokenEvent::Token(token)) => return Ok(Some(token.id)),
            Some(TokenEvent::Finished(engine::FinishReason::Failed(reason))) => {
                return Err(anyhow!("the engine failed: {reason}"));
            }
            Some(TokenEvent::Accepted { .. }) => {}
            Some(TokenEvent::Finished(_)) | None => return Ok(None),
        }
    }
}

/// Returns a job that greedily decodes exactly `tokens` tokens after a prompt of arbitrary tokens.
fn job(engine: &EngineHandle, length: usize, tokens: usize, nth: usize) -> Job {
    let vocabulary = engine.vocab_size();
    let token = |index: usize| ((index * 7919 + nth * 104_729 + 1) % vocabulary) as TokenId;
    Job {
        prompt: (0..length).map(token).collect(),
        max_new_tokens: tokens,
        sampling: SamplingParams {
            temperature: 0.0,
            ..SamplingParams::default()
        },
        constraint: None,
        end_tokens: Arc::new([]),
        cache_scope: CacheScope::default(),
        cache_key: None,
        restore: None,
    }
}

fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}
