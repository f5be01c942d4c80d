//! The engine from outside its thread, with made-up models.

mod answers;
mod bounds;
mod cancel;
mod constraints;
mod failure;
mod fairness;
mod noise;
mod reuse;
mod schedules;
mod sharing;
mod snapshots;
mod speculation;
mod waiting;

use std::{
    sync::{
        Arc, Mutex,
        mpsc::{SyncSender, sync_channel},
    },
    time::Duration,
};

use super::{
    scripted::{ScriptedExecutor, ScriptedStep},
    *,
};
use crate::{cache::CacheScope, id::TokenId, sampling::SamplingParams};

const VOCAB_SIZE: usize = 1000;
const END: TokenId = 999;

/// Model that answers with the reversed prompt.
fn echo() -> ScriptedExecutor {
    ScriptedExecutor::new(VOCAB_SIZE, END, |prompt| {
        prompt.iter().rev().copied().collect()
    })
}

/// Returns a model that repeats the prompt's first token `times` times.
fn repeat(times: usize) -> ScriptedExecutor {
    ScriptedExecutor::new(VOCAB_SIZE, END, move |prompt| vec![prompt[0]; times])
}

fn engine(options: EngineOptions, executor: ScriptedExecutor) -> EngineHandle {
    start(options, move || Ok(executor)).expect("a model")
}

fn job(prompt: impl IntoIterator<Item = TokenId>) -> Job {
    Job {
        prompt: prompt.into_iter().collect(),
        max_new_tokens: 100_000,
        sampling: SamplingParams {
            temperature: 0.0,
            ..SamplingParams::default()
        },
        constraint: None,
        end_tokens: [END].into(),
        cache_scope: CacheScope::default(),
        cache_key: None,
        restore: None,
    }
}

/// Copies an unconstrained job.
fn copy_of(job: &Job) -> Job {
    Job {
        prompt: job.prompt.clone(),
        max_new_tokens: job.max_new_tokens,
        sampling: job.sampling.clone(),
        constraint: None,
        end_tokens: Arc::clone(&job.end_tokens),
        cache_scope: job.cache_scope,
        cache_key: job.cache_key,
        restore: None,
    }
}

/// Returns the next event. Fails if the engine parks although it has work.
async fn next(stream: &mut TokenStream) -> Option<TokenEvent> {
    let patience = Duration::from_secs(60);
    tokio::time::timeout(patience, stream.next())
        .await
        .expect("an event within a minute")
}

/// Reads the whole stream, checks the order of events, and returns the tokens and the finish
/// reason.
async fn read(mut stream: TokenStream) -> (Vec<TokenId>, FinishReason) {
    accepted(&mut stream).await;
    read_on(stream).await
}

/// Reads the first event and returns the cached tokens.
async fn accepted(stream: &mut TokenStream) -> usize {
    match next(stream).await {
        Some(TokenEvent::Accepted { cached_tokens, .. }) => cached_tokens,
        other => panic!("not accepted first: {other:?}"),
    }
}

/// Reads the events after the first one.
async fn read_on(mut stream: TokenStream) -> (Vec<TokenId>, FinishReason) {
    let mut tokens = Vec::new();
    while let Some(event) = next(&mut stream).await {
        match event {
            TokenEvent::Accepted { .. } => panic!("accepted twice"),
            TokenEvent::Token(token) => tokens.push(token.id),
            TokenEvent::Finished(finish) => {
                assert_eq!(stream.next().await, None, "nothing follows the end");
                return (tokens, finish);
            }
        }
    }
    panic!("the stream ended without an end");
}

/// Waits until the engine's numbers are as wanted.
async fn settle(engine: &EngineHandle, wanted: impl Fn(&EngineStats) -> bool) -> EngineStats {
    for _ in 0..2000 {
        if wanted(&engine.stats()) {
            return engine.stats();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the engine does not settle: {:?}", engine.stats());
}

fn is_idle(stats: &EngineStats) -> bool {
    stats.running == 0 && stats.waiting == 0 && stats.kv_bytes == 0
}

/// Blocks the model before one step until the test sends a message or drops the sender.
fn held_at(executor: ScriptedExecutor, number: u64) -> (ScriptedExecutor, SyncSender<()>) {
    let (release, wait) = sync_channel(1);
    let held = executor.before_step(move |step| {
        if step.number == number {
            let _ = wait.recv();
        }
        Ok(())
    });
    (held, release)
}

/// Records the steps of a model.
fn recorded(executor: ScriptedExecutor) -> (ScriptedExecutor, Arc<Mutex<Vec<ScriptedStep>>>) {
    let steps = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&steps);
    let recorded = executor.before_step(move |step| {
        record.lock().expect("no panic").push(step.clone());
        Ok(())
    });
    (recorded, steps)
}
