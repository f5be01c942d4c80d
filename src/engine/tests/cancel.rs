//! Readers that go away or stop reading.

use std::sync::atomic::Ordering;

use super::*;

#[tokio::test]
async fn a_job_dropped_while_it_decodes_takes_part_in_no_further_step() {
    let (executor, release) = held_at(repeat(1000), 4);
    let kv_caches = executor.live_caches();
    let engine = engine(EngineOptions::default(), executor);
    let stream = engine.submit(job([1, 2])).expect("a place");
    settle(&engine, |stats| stats.steps == 3).await;
    drop(stream);
    release.send(()).expect("a held engine");
    let stats = settle(&engine, is_idle).await;
    assert_eq!(stats.steps, 4, "the step that ran and no other");
    assert_eq!(kv_caches.load(Ordering::SeqCst), stats.cache.entries);
}

#[tokio::test]
async fn a_job_dropped_while_its_prompt_is_read_is_not_read_on() {
    let (executor, release) = held_at(echo(), 2);
    let options = EngineOptions {
        step_prefill_tokens_max: 10,
        ..EngineOptions::default()
    };
    let engine = engine(options, executor);
    let stream = engine.submit(job(0..500)).expect("a place");
    settle(&engine, |stats| stats.steps == 1).await;
    drop(stream);
    release.send(()).expect("a held engine");
    let stats = settle(&engine, is_idle).await;
    assert_eq!((stats.steps, stats.prefilled_tokens), (2, 20));
}

#[tokio::test]
async fn a_job_dropped_while_it_waits_never_runs() {
    let (executor, release) = held_at(echo(), 1);
    let options = EngineOptions {
        running_max: 1,
        waiting_max: 1,
        ..EngineOptions::default()
    };
    let engine = engine(options, executor);
    let first = engine.submit(job([1])).expect("a place");
    let second = engine.submit(job(0..100)).expect("a place");
    drop(second);
    release.send(()).expect("a held engine");
    assert_eq!(read(first).await.0, [1]);
    let stats = settle(&engine, is_idle).await;
    assert_eq!(stats.prefilled_tokens, 1);
}

#[tokio::test]
async fn two_hundred_rounds_leave_nothing_behind() {
    let executor = repeat(1000);
    let kv_caches = executor.live_caches();
    let options = EngineOptions {
        running_max: 3,
        waiting_max: 5,
        step_prefill_tokens_max: 16,
        ..EngineOptions::default()
    };
    let engine = engine(options, executor);
    for round in 0..200 {
        let submit = |n| engine.submit(job(n..n + 1 + (round * 7 + n) % 60));
        let mut streams: Vec<_> = (0..8).map(|n| submit(n).expect("a place")).collect();
        // Some streams are dropped at once, some after a few events, and some are read.
        for stream in streams.iter_mut().take(round as usize % 4) {
            for _ in 0..round % 5 {
                stream.next().await.expect("an event");
            }
        }
        drop(streams);
        let stats = settle(&engine, is_idle).await;
        assert_eq!(
            kv_caches.load(Ordering::SeqCst),
            stats.cache.entries,
            "round {round}"
        );
    }
    let all: Vec<_> = (0..8)
        .map(|n| engine.submit(job([n])).expect("every place is free"))
        .collect();
    for (n, stream) in (0..).zip(all) {
        assert_eq!(
            read(stream).await,
            (vec![n; 1000], FinishReason::EosToken(END))
        );
    }
}

#[tokio::test]
async fn a_stalled_reader_pauses_its_own_job_only() {
    let options = EngineOptions {
        running_max: 2,
        events_buffered_max: 8,
        ..EngineOptions::default()
    };
    let engine = engine(options, repeat(500));
    // As many stalled jobs as may run at once.
    let stalled: Vec<_> = (1..3)
        .map(|n| engine.submit(job([n])).expect("a place"))
        .collect();
    let before = settle(&engine, |stats| stats.generated_tokens >= 10).await;
    let expected = (vec![3; 500], FinishReason::EosToken(END));
    assert_eq!(
        read(engine.submit(job([3])).expect("a place")).await,
        expected
    );
    let after = settle(&engine, |stats| stats.running == 2).await;
    assert!(before.generated_tokens <= 16, "{before:?}");
    assert_eq!(
        after.generated_tokens,
        501 + 2 * 6,
        "the stalled ones wait: {after:?}"
    );
    for (n, stream) in (1..).zip(stalled) {
        assert_eq!(
            read(stream).await,
            (vec![n; 500], FinishReason::EosToken(END))
        );
    }
}

#[tokio::test]
async fn a_stalled_job_gives_its_memory_to_one_that_runs() {
    let options = EngineOptions {
        kv_bytes_max: 100 * 16,
        events_buffered_max: 8,
        ..EngineOptions::default()
    };
    let engine = engine(options, repeat(30));
    let mut stalled = engine.submit(job(0..50)).expect("a place");
    settle(&engine, |stats| stats.generated_tokens >= 6).await;
    let running = engine.submit(job(50..110)).expect("a place");
    assert_eq!(
        read(running).await,
        (vec![50; 30], FinishReason::EosToken(END))
    );
    let stats = settle(&engine, |stats| stats.waiting == 1).await;
    assert_eq!(stats.preemptions, 1);

    // One of seven events read leaves the channel more than half full, so the sequence stays
    // preempted.
    next(&mut stalled).await.expect("an event");
    assert_eq!(
        read(engine.submit(job([7])).expect("a place")).await.0,
        [7; 30]
    );
    let stats = settle(&engine, |stats| stats.running == 0).await;
    assert_eq!((stats.waiting, stats.prefilled_tokens), (1, 50 + 60 + 1));

    let mut rest = 0;
    while let Some(event) = next(&mut stalled).await {
        rest += usize::from(matches!(event, TokenEvent::Token(_)));
    }
    assert_eq!(rest, 30);
    // The engine recomputed the prompt of 50 tokens and the first six generated tokens.
    assert_eq!(engine.stats().prefilled_tokens, 50 + 60 + 1 + 56);
}

#[tokio::test]
async fn without_handles_the_engine_ends_after_its_jobs() {
    let executor = repeat(300);
    let kv_caches = executor.live_caches();
    let engine = engine(EngineOptions::default(), executor);
    let stream = engine.submit(job([4])).expect("a place");
    drop(engine);
    assert_eq!(
        read(stream).await,
        (vec![4; 300], FinishReason::EosToken(END))
    );
    for _ in 0..2000 {
        if Arc::strong_count(&kv_caches) == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the executor is still there");
}
