//! Jobs that wait for their first step, and for how long.

use super::*;

const WAIT_MAX: Duration = Duration::from_millis(50);

fn one_at_a_time() -> EngineOptions {
    EngineOptions {
        running_max: 1,
        waiting_max: 2,
        queue_timeout: Some(WAIT_MAX),
        ..EngineOptions::default()
    }
}

#[tokio::test]
async fn a_job_that_waits_too_long_ends_and_gives_its_place_back() {
    let executor = repeat(100_000).step_delay(Duration::from_millis(1));
    let engine = engine(one_at_a_time(), executor);
    let first = engine.submit(job([1])).expect("a place");
    let first = tokio::spawn(read_some(first, 200));
    let waiting = [2, 3].map(|n| engine.submit(job([n])).expect("a place"));
    for stream in waiting {
        let begun = std::time::Instant::now();
        assert_eq!(refused(stream).await, FinishReason::QueueTimeout);
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "at once when overdue"
        );
    }
    settle(&engine, |stats| stats.queue_timeouts == 2).await;
    // A running job never times out.
    assert_eq!(first.await.expect("no panic"), 200);
    let stats = settle(&engine, is_idle).await;
    assert_eq!(stats.prefilled_tokens, 1, "the others never ran");
}

/// Returns the finish reason of a job without tokens. `Accepted` is optional, because the timeout
/// can come first.
async fn refused(mut stream: TokenStream) -> FinishReason {
    loop {
        match next(&mut stream).await {
            Some(TokenEvent::Accepted { .. }) => {}
            Some(TokenEvent::Finished(finish)) => return finish,
            other => panic!("not refused: {other:?}"),
        }
    }
}

/// Reads `count` tokens.
async fn read_some(mut stream: TokenStream, count: usize) -> usize {
    accepted(&mut stream).await;
    let mut tokens = 0;
    while tokens < count {
        match next(&mut stream).await {
            Some(TokenEvent::Token(_)) => tokens += 1,
            other => panic!("no token: {other:?}"),
        }
    }
    tokens
}

#[tokio::test]
async fn a_job_whose_time_has_passed_when_it_is_looked_at_is_not_begun() {
    let (executor, release) = held_at(repeat(3), 1);
    let engine = engine(one_at_a_time(), executor);
    let held = engine.submit(job([1])).expect("a place");
    settle(&engine, |stats| stats.waiting == 1).await;
    let late = engine.submit(job([2])).expect("a place");
    tokio::time::sleep(2 * WAIT_MAX).await;
    release.send(()).expect("a held engine");
    assert_eq!(refused(late).await, FinishReason::QueueTimeout);
    assert_eq!(read(held).await, (vec![1; 3], FinishReason::EosToken(END)));
}
