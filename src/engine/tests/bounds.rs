//! Rejected jobs, and the engine's limits.

use super::*;

#[tokio::test]
async fn the_queue_has_a_bound() {
    let (executor, release) = held_at(echo(), 1);
    let options = EngineOptions {
        running_max: 2,
        waiting_max: 3,
        ..EngineOptions::default()
    };
    let engine = engine(options, executor);
    let submit = || engine.submit(job([1, 2, 3]));
    let streams: Vec<_> = (0..5).map(|_| submit().expect("a place")).collect();
    assert_eq!(submit().expect_err("full"), SubmitError::QueueFull);
    release.send(()).expect("a held engine");
    for stream in streams {
        assert_eq!(read(stream).await.0, [3, 2, 1]);
    }
    settle(&engine, is_idle).await;
    assert_eq!(read(submit().expect("a place again")).await.0, [3, 2, 1]);
}

#[tokio::test]
async fn prompts_must_leave_room_for_an_answer() {
    let engine = engine(EngineOptions::default(), echo().context_length(16));
    let refused = |prompt: Job| engine.submit(prompt).expect_err("a bad prompt");
    assert_eq!(
        refused(job(0..16)),
        SubmitError::PromptTooLong {
            prompt: 16,
            context: 16
        }
    );
    assert_eq!(
        refused(job(0..900)),
        SubmitError::PromptTooLong {
            prompt: 900,
            context: 16
        }
    );
    assert_eq!(refused(job([])), SubmitError::EmptyPrompt);
    let unknown = SubmitError::UnknownToken {
        token: 1000,
        vocab_size: VOCAB_SIZE,
    };
    assert_eq!(refused(job([0, 1000])), unknown);
    let longest = engine.submit(job(0..15)).expect("a place");
    assert_eq!(read(longest).await, (vec![14], FinishReason::ContextFull));
}

#[tokio::test]
async fn the_memory_budget_bounds_the_context() {
    let options = EngineOptions {
        kv_bytes_max: 10 * 16 + 15,
        ..EngineOptions::default()
    };
    let engine = engine(options, echo());
    assert_eq!(engine.context_length(), 10);
    assert_eq!(engine.vocab_size(), VOCAB_SIZE);
    let stream = engine.submit(job(0..8)).expect("a place");
    assert_eq!(read(stream).await, (vec![7, 6], FinishReason::ContextFull));
}

#[test]
fn bounds_out_of_range_are_named() {
    let error = |options| start(options, || Ok(echo())).expect_err("a bad bound");
    let options = EngineOptions::default();
    let check = |options, expected| assert_eq!(error(options), expected);
    check(
        EngineOptions {
            running_max: 0,
            ..options.clone()
        },
        "running_max is 0, but must be from 1 to 65536",
    );
    check(
        EngineOptions {
            waiting_max: usize::MAX,
            ..options.clone()
        },
        "waiting_max is 18446744073709551615, but must be from 0 to 65536",
    );
    check(
        EngineOptions {
            events_buffered_max: 2,
            ..options.clone()
        },
        "events_buffered_max is 2, but must be from 3 to 65536",
    );
    check(
        EngineOptions {
            step_prefill_tokens_max: 0,
            ..options.clone()
        },
        "step_prefill_tokens_max is 0, but must be at least 1",
    );
    check(
        EngineOptions {
            kv_bytes_max: 31,
            ..options
        },
        "the key/value budget of 31 bytes holds 1 tokens of 16 bytes each, but must hold at least 2",
    );
}

#[tokio::test]
async fn steps_and_memory_stay_within_their_bounds() {
    const KV_TOKENS: usize = 100;
    let (executor, steps) = recorded(echo());
    let kv_caches = executor.live_caches();
    let options = EngineOptions {
        running_max: 4,
        step_prefill_tokens_max: 10,
        kv_bytes_max: KV_TOKENS * 16,
        ..EngineOptions::default()
    };
    let engine = engine(options, executor);
    let submit = |n| engine.submit(job(n..n + 3 + 5 * (n % 8))).expect("a place");
    let streams: Vec<_> = (0..50).map(|n| tokio::spawn(read(submit(n)))).collect();
    for (n, stream) in (0..).zip(streams) {
        let expected: Vec<_> = (n..n + 3 + 5 * (n % 8)).rev().collect();
        assert_eq!(
            stream.await.expect("an answer"),
            (expected, FinishReason::EosToken(END))
        );
    }
    for step in steps.lock().expect("no panic").iter() {
        let held: usize = step
            .slots
            .iter()
            .map(|slot| slot.cached + slot.tokens)
            .sum();
        let read: usize = step
            .slots
            .iter()
            .map(|slot| slot.tokens)
            .filter(|&n| n > 1)
            .sum();
        assert!(
            step.slots.len() <= 4 && held <= KV_TOKENS && read <= 10,
            "{step:?}"
        );
    }
    let stats = settle(&engine, is_idle).await;
    assert_eq!(
        kv_caches.load(std::sync::atomic::Ordering::SeqCst),
        stats.cache.entries
    );
    assert!(stats.cache.bytes <= KV_TOKENS * 16, "{stats:?}");
}
