//! Beginnings that several prompts share: read once, whatever becomes of the one that reads.

use super::{
    noise::{HARMLESS_END, NoiseExecutor},
    reuse::{Draws, check},
    *,
};

/// Model that answers every prompt with its last token, three times.
fn last() -> ScriptedExecutor {
    ScriptedExecutor::new(VOCAB_SIZE, END, |prompt| {
        vec![prompt.last().copied().unwrap_or(END); 3]
    })
    .context_length(8192)
}

/// Prompt with a common prefix and a number at its end.
fn prompt(shared: u32, number: u32) -> Job {
    job((0..shared).map(|token| token % 900).chain([900, number]))
}

/// Reads a job of [`last`] and returns its cached prompt tokens.
async fn read_last(mut stream: TokenStream, number: u32) -> usize {
    let cached = accepted(&mut stream).await;
    let answer = (vec![number; 3], FinishReason::EosToken(END));
    assert_eq!(read_on(stream).await, answer);
    cached
}

#[tokio::test]
async fn thirty_two_that_arrive_together_read_what_they_share_once() {
    let (executor, release) = held_at(last(), 1);
    let engine = engine(EngineOptions::default(), executor);
    let before = engine.submit(job([7])).expect("a place");
    let streams: Vec<_> = (0..32)
        .map(|n| engine.submit(prompt(5000, n)).expect("a place"))
        .collect();
    release.send(()).expect("a held engine");
    assert_eq!(read_last(before, 7).await, 0);
    for (n, stream) in (0..).zip(streams) {
        let expected = if n == 0 { 0 } else { 5001 };
        assert_eq!(read_last(stream, n).await, expected, "job {n}");
    }
    let stats = settle(&engine, is_idle).await;
    assert_eq!(stats.prefilled_tokens, 1 + 5002 + 31);
    assert_eq!(stats.shared_tokens, 31 * 5001);
}

#[tokio::test]
async fn little_memory_does_not_make_them_read_it_again() {
    for kv_tokens in [5100, 7000, 12_000] {
        let (executor, release) = held_at(last(), 1);
        let options = EngineOptions {
            kv_bytes_max: kv_tokens * 16,
            cache_bytes_max: kv_tokens * 16,
            ..EngineOptions::default()
        };
        let engine = engine(options, executor);
        let before = engine.submit(job([7])).expect("a place");
        let streams: Vec<_> = (0..32)
            .map(|n| engine.submit(prompt(5000, n)).expect("a place"))
            .collect();
        release.send(()).expect("a held engine");
        read_last(before, 7).await;
        for (n, stream) in (0..).zip(streams) {
            read_last(stream, n).await;
        }
        let read = settle(&engine, is_idle).await.prefilled_tokens;
        assert!(read < 2 * 5002, "{read} tokens read with {kv_tokens}");
    }
}

#[tokio::test]
async fn when_the_one_that_reads_is_dropped_the_next_reads_on() {
    let (executor, release) = held_at(last(), 3);
    let options = EngineOptions {
        step_prefill_tokens_max: 500,
        ..EngineOptions::default()
    };
    let engine = engine(options, executor);
    let first = engine.submit(prompt(5000, 1)).expect("a place");
    settle(&engine, |stats| stats.steps == 2).await;
    let others = [2, 3, 4].map(|n| engine.submit(prompt(5000, n)).expect("a place"));
    drop(first);
    release.send(()).expect("a held engine");
    let mut cached = Vec::new();
    for (n, stream) in (2..).zip(others) {
        cached.push(read_last(stream, n).await);
    }
    // The last token of the common prefix is computed sooner than awaited.
    assert_eq!(cached, [1500, 5000, 5000]);
    let stats = settle(&engine, is_idle).await;
    assert_eq!(stats.prefilled_tokens, 5002 + 2 + 2);
}

#[tokio::test]
async fn when_the_one_that_reads_fails_the_next_reads_all() {
    let (executor, release) = held_at(last(), 3);
    let options = EngineOptions {
        step_prefill_tokens_max: 500,
        ..EngineOptions::default()
    };
    let engine = engine(options, executor.failing_at(3));
    let first = engine.submit(prompt(5000, 1)).expect("a place");
    settle(&engine, |stats| stats.steps == 2).await;
    let others = [2, 3].map(|n| engine.submit(prompt(5000, n)).expect("a place"));
    release.send(()).expect("a held engine");
    assert!(matches!(read(first).await.1, FinishReason::Failed(_)));
    let mut cached = Vec::new();
    for (n, stream) in (2..).zip(others) {
        cached.push(read_last(stream, n).await);
    }
    assert_eq!(cached, [0, 5000]);
}

#[tokio::test]
async fn one_that_waits_can_be_dropped() {
    let (executor, release) = held_at(last(), 2);
    let engine = engine(EngineOptions::default(), executor);
    let first = engine.submit(prompt(4000, 1)).expect("a place");
    settle(&engine, |stats| stats.steps == 1).await;
    drop(engine.submit(prompt(4000, 2)).expect("a place"));
    let last = engine.submit(prompt(4000, 3)).expect("a place");
    release.send(()).expect("a held engine");
    assert_eq!(read_last(first, 1).await, 0);
    assert_eq!(read_last(last, 3).await, 4001);
    settle(&engine, is_idle).await;
}

#[tokio::test]
async fn what_is_short_or_of_another_scope_is_not_waited_for() {
    let of = |shared, scope| Job {
        cache_scope: CacheScope(scope),
        ..prompt(shared, scope as u32)
    };
    for (jobs, expected) in [
        ([of(40, 1), of(40, 1)], 42 + 42),
        ([of(200, 1), of(200, 2)], 202 + 202),
        ([of(200, 1), of(200, 1)], 202 + 1),
    ] {
        let (executor, release) = held_at(last(), 1);
        let engine = engine(EngineOptions::default(), executor);
        let before = engine.submit(job([7])).expect("a place");
        let streams = jobs.map(|job| engine.submit(job).expect("a place"));
        release.send(()).expect("a held engine");
        read(before).await;
        for stream in streams {
            read(stream).await;
        }
        assert_eq!(engine.stats().prefilled_tokens, 1 + expected);
    }
}

#[tokio::test]
async fn one_that_comes_while_another_answers_takes_what_that_one_has() {
    let (executor, release) = held_at(repeat(50).context_length(8192), 9);
    let engine = engine(EngineOptions::default(), executor);
    let first = engine.submit(prompt(3000, 1)).expect("a place");
    settle(&engine, |stats| stats.steps == 8).await;
    let mut second = engine.submit(prompt(3000, 2)).expect("a place");
    assert_eq!(engine.stats().generated_tokens, 3);
    release.send(()).expect("a held engine");
    assert_eq!(accepted(&mut second).await, 3001);
    assert_eq!(read_on(second).await.0, [0; 50]);
    assert_eq!(read(first).await.0, [0; 50]);
    let stats = settle(&engine, is_idle).await;
    assert_eq!((stats.prefilled_tokens, stats.shared_tokens), (3003, 3001));
}

/// A job for [`NoiseExecutor`] that begins like many others.
fn drawn(draws: &mut Draws, bases: &[Vec<TokenId>]) -> Job {
    let base = draws.below(bases.len() as u32) as usize;
    let mut prompt = bases[base].clone();
    prompt.truncate(50 + draws.below(250) as usize);
    let added = 1 + draws.below(40);
    prompt.extend((0..added).map(|_| draws.below(HARMLESS_END)));
    Job {
        max_new_tokens: 1 + draws.below(40) as usize,
        sampling: SamplingParams {
            temperature: 1.0,
            presence_penalty: 0.5,
            seed: u64::from(draws.below(1000)),
            ..SamplingParams::default()
        },
        end_tokens: [0].into(),
        cache_scope: CacheScope(u64::from(draws.below(4) / 3)),
        ..job(prompt)
    }
}

/// Runs random jobs that share beginnings, some dropped, in an engine with little memory.
async fn history(seed: u64) -> EngineStats {
    let mut draws = Draws(seed);
    let options = EngineOptions {
        running_max: 1 + draws.below(10) as usize,
        step_prefill_tokens_max: 1 + draws.below(80) as usize,
        kv_bytes_max: 420 + draws.below(900) as usize,
        cache_bytes_max: 200 + draws.below(900) as usize,
        events_buffered_max: 3 + draws.below(20) as usize,
        ..EngineOptions::default()
    };
    let engine = start(options, || Ok(NoiseExecutor)).expect("a model");
    for round in 0..4 {
        let base = |_| (0..300).map(|_| draws.below(HARMLESS_END)).collect();
        let bases: Vec<Vec<TokenId>> = (0..2).map(base).collect();
        let (mut running, mut leaving) = (Vec::new(), Vec::new());
        for _ in 0..1 + draws.below(16) {
            let job = drawn(&mut draws, &bases);
            let mut stream = engine.submit(copy_of(&job)).expect("a place");
            if draws.below(5) == 0 {
                let events = draws.below(4);
                leaving.push(tokio::spawn(async move {
                    for _ in 0..events {
                        next(&mut stream).await;
                    }
                }));
                continue;
            }
            running.push((job, tokio::spawn(read(stream))));
        }
        check(running, &format!("seed {seed}, round {round}")).await;
        for reader in leaving {
            reader.await.expect("a reader that goes");
        }
    }
    settle(&engine, is_idle).await
}

#[tokio::test]
async fn sharing_never_changes_an_answer() {
    let mut sums = (0, 0, 0);
    for seed in 0..24 {
        let stats = history(seed).await;
        sums.0 += stats.shared_tokens;
        sums.1 += stats.cache.evictions;
        sums.2 += stats.preemptions;
    }
    assert!(
        sums.0 > 2000 && sums.1 > 50 && sums.2 > 0,
        "the histories were to share and to run short of memory: {sums:?}"
    );
}
