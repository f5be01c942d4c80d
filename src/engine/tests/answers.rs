//! The events of jobs and their finish reasons.

use super::{noise::NoiseExecutor, *};
use crate::sampling::Logprobs;

#[tokio::test]
async fn concurrent_jobs_get_their_own_answers() {
    let engine = engine(EngineOptions::default(), echo());
    let submit = |first| engine.submit(job(first..first + 5)).expect("a place");
    let streams: Vec<_> = (0..40).map(|n| (n, submit(n * 7))).collect();
    for (n, stream) in streams {
        let expected = (n * 7..n * 7 + 5).rev().collect();
        assert_eq!(
            read(stream).await,
            (expected, FinishReason::EosToken(END)),
            "job {n}"
        );
    }
}

#[tokio::test]
async fn answers_end_where_they_must() {
    let engine = engine(EngineOptions::default(), echo().context_length(16));
    let run = |job| read(engine.submit(job).expect("a place"));
    assert_eq!(run(job([7])).await, (vec![7], FinishReason::EosToken(END)));

    let two = Job {
        max_new_tokens: 2,
        ..job([1, 2, 3])
    };
    assert_eq!(run(two).await, (vec![3, 2], FinishReason::MaxTokens));

    let exact = Job {
        max_new_tokens: 3,
        ..job([1, 2, 3])
    };
    assert_eq!(run(exact).await, (vec![3, 2, 1], FinishReason::MaxTokens));

    assert_eq!(
        run(job(0..10)).await,
        ((4..10).rev().collect(), FinishReason::ContextFull)
    );

    let as_asked = Job {
        max_new_tokens: 6,
        ..job(0..10)
    };
    assert_eq!(
        run(as_asked).await.1,
        FinishReason::MaxTokens,
        "the caller's bound is named first"
    );

    let endless = Job {
        end_tokens: [].into(),
        max_new_tokens: 5,
        ..job([1, 2])
    };
    assert_eq!(
        run(endless).await,
        (vec![2, 1, END, END, END], FinishReason::MaxTokens)
    );

    let others = Job {
        end_tokens: [50, 2].into(),
        ..job([1, 2, 3])
    };
    assert_eq!(run(others).await, (vec![3], FinishReason::EosToken(2)));
}

#[tokio::test]
async fn alternatives_come_with_their_probabilities() {
    let engine = engine(EngineOptions::default(), echo());
    let sampling = SamplingParams {
        logprobs: Some(3),
        ..job([]).sampling
    };
    let mut stream = engine
        .submit(Job {
            sampling,
            ..job([5, 6])
        })
        .expect("a place");
    assert_eq!(accepted(&mut stream).await, 0);
    let Some(TokenEvent::Token(token)) = stream.next().await else {
        panic!("no token");
    };
    assert_eq!(token.id, 6);
    let Logprobs { chosen, top } = token.logprobs.expect("log probabilities");
    assert_eq!(top[0], (6, chosen));
    assert_eq!(top.len(), 3);
    assert!(chosen > -1e-6 && top[1].1 < -80.0);
}

/// A job for [`NoiseExecutor`]: a prompt of some length, everything random, every penalty on.
fn noisy(seed: u32) -> Job {
    let length = 1 + seed * 13 % 40;
    Job {
        prompt: (0..length)
            .map(|at| (at * at + seed * 17) % noise::HARMLESS_END)
            .collect(),
        max_new_tokens: 60,
        sampling: SamplingParams {
            temperature: 1.0,
            repetition_penalty: 1.1,
            frequency_penalty: 0.1,
            seed: u64::from(seed),
            ..SamplingParams::default()
        },
        constraint: None,
        end_tokens: [0].into(),
        cache_scope: CacheScope::default(),
        cache_key: None,
        restore: None,
    }
}

async fn alone(seed: u32) -> (Vec<TokenId>, FinishReason) {
    let engine = start(EngineOptions::default(), || Ok(NoiseExecutor)).expect("a model");
    read(engine.submit(noisy(seed)).expect("a place")).await
}

#[tokio::test]
async fn concurrent_answers_equal_those_given_alone() {
    let engine = start(EngineOptions::default(), || Ok(NoiseExecutor)).expect("a model");
    let submit = |seed| engine.submit(noisy(seed)).expect("a place");
    let streams: Vec<_> = (0..8).map(|seed| (seed, submit(seed))).collect();
    for (seed, stream) in streams {
        assert_eq!(read(stream).await, alone(seed).await, "seed {seed}");
    }
}

#[tokio::test]
async fn answers_survive_small_chunks_and_preemption() {
    let options = EngineOptions {
        running_max: 6,
        step_prefill_tokens_max: 3,
        kv_bytes_max: 150,
        events_buffered_max: 3,
        ..EngineOptions::default()
    };
    let engine = start(options, || Ok(NoiseExecutor)).expect("a model");
    let submit = |seed| tokio::spawn(read(engine.submit(noisy(seed)).expect("a place")));
    let answers: Vec<_> = (0..24).map(|seed| (seed, submit(seed))).collect();
    for (seed, answer) in answers {
        assert_eq!(
            answer.await.expect("an answer"),
            alone(seed).await,
            "seed {seed}"
        );
    }
    let stats = settle(&engine, is_idle).await;
    assert!(
        stats.preemptions > 0,
        "the budget was to be too small: {stats:?}"
    );
}

#[tokio::test]
async fn a_job_joins_while_another_decodes() {
    let (executor, release) = held_at(repeat(20), 5);
    let (executor, steps) = recorded(executor);
    let engine = engine(EngineOptions::default(), executor);
    let first = engine.submit(job([1])).expect("a place");
    settle(&engine, |stats| stats.steps == 4).await;
    let second = engine.submit(job([2])).expect("a place");
    release.send(()).expect("a held engine");
    assert_eq!(
        read(first).await,
        (vec![1; 20], FinishReason::EosToken(END))
    );
    assert_eq!(
        read(second).await,
        (vec![2; 20], FinishReason::EosToken(END))
    );
    let widths: Vec<_> = steps
        .lock()
        .expect("no panic")
        .iter()
        .map(|s| s.slots.len())
        .collect();
    assert_eq!(widths, [[1; 5].as_slice(), &[2; 16], &[1; 5]].concat());
    let stats = settle(&engine, is_idle).await;
    assert_eq!((stats.prefilled_tokens, stats.generated_tokens), (2, 42));
}
