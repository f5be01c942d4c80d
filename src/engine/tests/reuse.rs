//! The prefix cache: what is reused, what that is worth, and that answers do not change.

use std::{collections::HashMap, sync::atomic::Ordering};

use tokio::task::JoinHandle;

use super::{
    noise::{HARMLESS_END, NoiseExecutor},
    *,
};

/// Submits a job and returns its cached tokens and its stream.
async fn submit(engine: &EngineHandle, job: Job) -> (usize, TokenStream) {
    let mut stream = engine.submit(job).expect("a place");
    (accepted(&mut stream).await, stream)
}

#[tokio::test]
async fn a_continued_conversation_is_not_read_again() {
    let (executor, steps) = recorded(echo());
    let engine = engine(EngineOptions::default(), executor);
    let first = job(10..20);
    let (cached, stream) = submit(&engine, copy_of(&first)).await;
    assert_eq!(cached, 0);
    let (answer, _) = read_on(stream).await;
    let whole: Vec<_> = first.prompt.into_iter().chain(answer).collect();
    assert_eq!(whole.len(), 20);

    let second = job(whole.iter().copied().chain([5, 6]));
    let (cached, stream) = submit(&engine, second).await;
    assert_eq!(cached, 20);
    let expected = [6, 5].into_iter().chain(whole.into_iter().rev()).collect();
    assert_eq!(
        read_on(stream).await,
        (expected, FinishReason::EosToken(END))
    );

    let begins: Vec<_> = steps
        .lock()
        .expect("no panic")
        .iter()
        .flat_map(|step| step.slots.clone())
        .filter(|slot| slot.tokens > 1)
        .map(|slot| (slot.cached, slot.tokens))
        .collect();
    assert_eq!(begins, [(0, 10), (20, 2)]);
    let stats = settle(&engine, is_idle).await;
    assert_eq!(stats.prefilled_tokens, 12);
    assert_eq!((stats.cache.hits, stats.cache.hit_tokens), (1, 20));
    assert_eq!(
        (stats.cache.entries, stats.cache.bytes),
        (1, (20 + 2 + 22) * 16),
        "the second continues the first"
    );
}

#[tokio::test]
async fn the_same_request_reads_one_token_and_answers_the_same() {
    let engine = engine(EngineOptions::default(), echo());
    for cached in [0, 29, 29] {
        let (found, stream) = submit(&engine, job(0..30)).await;
        assert_eq!(found, cached);
        assert_eq!(read_on(stream).await.0, (0..30).rev().collect::<Vec<_>>());
    }
    let (found, stream) = submit(&engine, job((0..15).chain([99]))).await;
    assert_eq!(found, 15, "a hit inside a stored sequence");
    assert_eq!(
        read_on(stream).await.0,
        [99].into_iter().chain((0..15).rev()).collect::<Vec<_>>()
    );
    assert_eq!(engine.stats().prefilled_tokens, 30 + 1 + 1 + 1);
}

#[tokio::test]
async fn a_job_that_waits_knows_at_once_what_it_will_not_read() {
    let (executor, release) = held_at(repeat(3), 5);
    let (executor, release_next) = held_at(executor, 6);
    let options = EngineOptions {
        running_max: 1,
        ..EngineOptions::default()
    };
    let engine = engine(options, executor);
    assert_eq!(submit_and_read(&engine, job(0..20)).await, (0, vec![0; 3]));
    let running = engine.submit(job(50..60)).expect("a place");
    let mut waiting = engine.submit(job(0..40)).expect("a place");
    release.send(()).expect("a held engine");
    assert_eq!(accepted(&mut waiting).await, 20, "before the sixth step");
    release_next.send(()).expect("a held engine");
    assert_eq!(read(running).await.0, [50; 3]);
    assert_eq!(read_on(waiting).await.0, [0; 3]);
    assert_eq!(engine.stats().prefilled_tokens, 20 + 10 + 20);
}

async fn submit_and_read(engine: &EngineHandle, job: Job) -> (usize, Vec<TokenId>) {
    let (cached, stream) = submit(engine, job).await;
    (cached, read_on(stream).await.0)
}

#[tokio::test]
async fn scopes_share_nothing() {
    let engine = engine(EngineOptions::default(), repeat(1));
    let of = |scope| Job {
        cache_scope: CacheScope(scope),
        ..job(0..10)
    };
    for (scope, cached) in [(1, 0), (2, 0), (1, 9), (2, 9)] {
        let (found, _) = submit_and_read(&engine, of(scope)).await;
        assert_eq!(found, cached, "scope {scope}");
    }
}

#[tokio::test]
async fn a_job_that_was_dropped_leaves_what_was_read() {
    let (executor, release) = held_at(repeat(5), 2);
    let options = EngineOptions {
        step_prefill_tokens_max: 10,
        ..EngineOptions::default()
    };
    let engine = engine(options, executor);
    let stream = engine.submit(job(0..500)).expect("a place");
    settle(&engine, |stats| stats.steps == 1).await;
    drop(stream);
    release.send(()).expect("a held engine");
    settle(&engine, is_idle).await;
    assert_eq!(submit_and_read(&engine, job(0..30)).await, (20, vec![0; 5]));
}

#[tokio::test]
async fn a_step_that_fails_leaves_nothing_to_reuse() {
    let executor = repeat(3).failing_at(5);
    let kv_caches = executor.live_caches();
    let engine = engine(EngineOptions::default(), executor);
    assert_eq!(submit_and_read(&engine, job(0..9)).await.0, 0);
    // The fifth step is the first that extends the first job's entry.
    let (cached, stream) = submit(&engine, job(0..20)).await;
    assert_eq!(cached, 9);
    assert!(matches!(read_on(stream).await.1, FinishReason::Failed(_)));
    // The engine updates the metrics after the step.
    settle(&engine, |stats| stats.steps == 5).await;
    assert_eq!(kv_caches.load(Ordering::SeqCst), 0);
    assert_eq!(submit_and_read(&engine, job(0..20)).await, (0, vec![0; 3]));
}

#[tokio::test]
async fn a_step_that_fails_takes_the_prefix_of_one_that_waits() {
    let (executor, release) = held_at(repeat(3).failing_at(6), 5);
    let options = EngineOptions {
        running_max: 1,
        ..EngineOptions::default()
    };
    let engine = engine(options, executor);
    submit_and_read(&engine, job(0..9)).await;
    let failing = engine.submit(job(0..20)).expect("a place");
    let mut waiting = engine.submit(job(0..30)).expect("a place");
    release.send(()).expect("a held engine");
    assert_eq!(accepted(&mut waiting).await, 9);
    assert!(matches!(read(failing).await.1, FinishReason::Failed(_)));
    assert_eq!(read_on(waiting).await.0, [0; 3]);
    assert_eq!(engine.stats().prefilled_tokens, 9 + 11 + 30);
}

#[tokio::test]
async fn running_jobs_come_before_cache_entries() {
    let options = EngineOptions {
        kv_bytes_max: 100 * 16,
        ..EngineOptions::default()
    };
    let engine = engine(options, repeat(10));
    for first in [0, 100, 200] {
        submit_and_read(&engine, job(first..first + 30)).await;
    }
    let stats = settle(&engine, is_idle).await;
    // Each job left 40 tokens; three entries exceed the budget.
    assert_eq!((stats.cache.entries, stats.cache.evictions), (2, 1));
    let (cached, answer) = submit_and_read(&engine, job(300..385)).await;
    assert_eq!((cached, answer), (0, vec![300; 10]));
    let stats = settle(&engine, is_idle).await;
    assert_eq!((stats.cache.entries, stats.cache.evictions), (1, 3));
    assert_eq!(stats.preemptions, 0);
}

#[tokio::test]
async fn the_cache_keeps_within_its_own_budget() {
    let options = EngineOptions {
        cache_bytes_max: 50 * 16,
        ..EngineOptions::default()
    };
    let engine = engine(options, repeat(10));
    for first in (0..800).step_by(40) {
        submit_and_read(&engine, job(first..first + 3 + first / 20)).await;
        let stats = settle(&engine, is_idle).await;
        assert!(stats.cache.bytes <= 50 * 16, "{stats:?}");
    }
    assert!(engine.stats().cache.evictions > 10);
}

#[tokio::test]
async fn a_memory_that_grew_too_large_in_place_is_counted_and_let_go() {
    let options = EngineOptions {
        cache_bytes_max: 40,
        ..EngineOptions::default()
    };
    let engine = start(options, || Ok(NoiseExecutor)).expect("a model");
    let short = Job {
        max_new_tokens: 1,
        ..job(0..20)
    };
    submit_and_read(&engine, short).await;
    let stats = settle(&engine, is_idle).await;
    assert_eq!((stats.cache.entries, stats.cache.bytes), (1, 20));
    let long = Job {
        max_new_tokens: 1,
        ..job(0..50)
    };
    assert_eq!(submit_and_read(&engine, long).await.0, 20);
    let stats = settle(&engine, |stats| stats.cache.evictions > 0).await;
    assert_eq!((stats.cache.entries, stats.cache.bytes), (0, 0));
}

#[tokio::test]
async fn a_prefix_gives_way_when_running_jobs_need_all_memory() {
    // The first job takes 31 steps and leaves 50 tokens.
    let (executor, release) = held_at(repeat(30), 32);
    let options = EngineOptions {
        running_max: 1,
        kv_bytes_max: 100 * 16,
        events_buffered_max: 200,
        ..EngineOptions::default()
    };
    let engine = engine(options, executor);
    submit_and_read(&engine, job(0..20)).await;
    let running = engine.submit(job(100..130)).expect("a place");
    let mut waiting = engine.submit(job((0..20).chain([7]))).expect("a place");
    release.send(()).expect("a held engine");
    assert_eq!(accepted(&mut waiting).await, 20);
    // The 60 tokens of the running job do not fit beside the 50 cached ones.
    assert_eq!(read(running).await.0, [100; 30]);
    assert_eq!(read_on(waiting).await.0, [0; 30]);
    let stats = settle(&engine, is_idle).await;
    assert_eq!((stats.preemptions, stats.cache.evictions), (1, 2));
    assert_eq!(stats.prefilled_tokens, 20 + 30 + 21);
}

/// Numbers in an order that only the seed decides.
pub(super) struct Draws(pub(super) u64);

impl Draws {
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        ((self.0 >> 33) % u64::from(bound)) as u32
    }
}

/// A job for [`NoiseExecutor`] that often begins as another did, and sometimes goes on from its
/// answer.
pub(super) fn drawn(draws: &mut Draws, known: &[Vec<TokenId>]) -> Job {
    let mut prompt = match known {
        [] => Vec::new(),
        _ => known[draws.below(known.len() as u32) as usize].clone(),
    };
    prompt.truncate(draws.below(120) as usize);
    let added = 1 + draws.below(12);
    prompt.extend((0..added).map(|_| draws.below(HARMLESS_END)));
    Job {
        max_new_tokens: 1 + draws.below(30) as usize,
        sampling: SamplingParams {
            temperature: 1.0,
            repetition_penalty: 1.1,
            seed: u64::from(draws.below(1000)),
            ..SamplingParams::default()
        },
        constraint: None,
        end_tokens: [0].into(),
        cache_scope: CacheScope(u64::from(draws.below(2))),
        ..job(prompt)
    }
}

/// Returns the answer of an engine that has run no other job.
pub(super) async fn cold(job: Job) -> (Vec<TokenId>, FinishReason) {
    let options = EngineOptions {
        cache_bytes_max: 0,
        ..EngineOptions::default()
    };
    let engine = start(options, || Ok(NoiseExecutor)).expect("a model");
    read(engine.submit(job).expect("a place")).await
}

/// Jobs with the tasks that read their output.
pub(super) type Running = Vec<(Job, JoinHandle<(Vec<TokenId>, FinishReason)>)>;

/// Waits for answers, which must be those that the jobs get alone and without a cache.
pub(super) async fn check(running: Running, place: &str) {
    for (n, (job, answer)) in running.into_iter().enumerate() {
        let answer = answer.await.expect("an answer");
        assert_eq!(answer, cold(job).await, "{place}, job {n}");
    }
}

/// Runs random jobs, some at once, some dropped, in an engine with little memory.
async fn history(seed: u64) -> EngineStats {
    let mut draws = Draws(seed);
    let options = EngineOptions {
        running_max: 1 + draws.below(8) as usize,
        step_prefill_tokens_max: 1 + draws.below(40) as usize,
        kv_bytes_max: 170 + draws.below(150) as usize,
        cache_bytes_max: 100 + draws.below(200) as usize,
        events_buffered_max: 3 + draws.below(20) as usize,
        ..EngineOptions::default()
    };
    let engine = start(options, || Ok(NoiseExecutor)).expect("a model");
    let mut known = Vec::new();
    for round in 0..12 {
        let mut running = HashMap::new();
        for n in 0..1 + draws.below(8) {
            let job = drawn(&mut draws, &known);
            let mut stream = engine.submit(copy_of(&job)).expect("a place");
            if draws.below(5) == 0 {
                for _ in 0..draws.below(4) {
                    next(&mut stream).await;
                }
                continue;
            }
            running.insert(n, (job, tokio::spawn(read(stream))));
        }
        for (n, (job, answer)) in running {
            let (tokens, finish) = answer.await.expect("an answer");
            known.push([&job.prompt[..], &tokens].concat());
            assert_eq!(
                (tokens, finish),
                cold(job).await,
                "seed {seed}, round {round}, job {n}"
            );
        }
    }
    settle(&engine, is_idle).await
}

#[tokio::test]
async fn reuse_never_changes_an_answer() {
    let mut sums = (0, 0, 0);
    for seed in 0..12 {
        let stats = history(seed).await;
        sums.0 += stats.cache.hits;
        sums.1 += stats.cache.evictions;
        sums.2 += stats.preemptions;
    }
    assert!(
        sums.0 > 100 && sums.1 > 50 && sums.2 > 0,
        "the histories were to reuse and to run short of memory: {sums:?}"
    );
}
