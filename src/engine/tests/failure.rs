//! Devices that fail, executors that panic, and the engine's end.

use super::{
    noise::{self, NoiseExecutor},
    *,
};

fn failed(text: &str) -> FinishReason {
    FinishReason::Failed(text.to_owned())
}

#[tokio::test]
async fn a_step_that_fails_ends_its_jobs_and_the_engine_goes_on() {
    let (executor, release) = held_at(repeat(100).failing_at(3), 1);
    let kv_caches = executor.live_caches();
    let engine = engine(EngineOptions::default(), executor);
    let submit = |n| engine.submit(job([n])).expect("a place");
    let streams: Vec<_> = (0..4).map(submit).collect();
    release.send(()).expect("a held engine");
    for (n, stream) in (0..).zip(streams) {
        let (tokens, finish) = read(stream).await;
        assert!(tokens.len() <= 2 && tokens.iter().all(|&token| token == n));
        assert_eq!(finish, failed("step 3 fails by its script"));
    }
    settle(&engine, is_idle).await;
    assert_eq!(kv_caches.load(std::sync::atomic::Ordering::SeqCst), 0);
    assert_eq!(
        read(submit(7)).await,
        (vec![7; 100], FinishReason::EosToken(END))
    );
}

#[tokio::test]
async fn a_job_outside_the_step_that_fails_is_untouched() {
    let options = EngineOptions {
        events_buffered_max: 3,
        ..EngineOptions::default()
    };
    let engine = engine(options, repeat(100).failing_at(5));
    let stalled = engine.submit(job([1])).expect("a place");
    settle(&engine, |stats| stats.generated_tokens == 1).await;
    // Its two events leave too little room for a further step, so another job runs the fifth.
    let other = engine.submit(job([2])).expect("a place");
    assert_eq!(read(other).await.1, failed("step 5 fails by its script"));
    assert_eq!(
        read(stalled).await,
        (vec![1; 100], FinishReason::EosToken(END))
    );
}

#[tokio::test]
async fn a_panic_ends_all_jobs_and_the_engine() {
    let (executor, release) = held_at(repeat(100), 1);
    let options = EngineOptions {
        running_max: 2,
        ..EngineOptions::default()
    };
    let engine = engine(options, executor.panicking_at(3));
    let submit = |n| engine.submit(job([n]));
    let streams: Vec<_> = (0..4).map(|n| submit(n).expect("a place")).collect();
    release.send(()).expect("a held engine");
    for stream in streams {
        let FinishReason::Failed(text) = read(stream).await.1 else {
            panic!("not failed");
        };
        assert!(text.contains("step 3 panics by its script"), "{text}");
    }
    engine.shutdown(Duration::from_secs(60)).await;
    assert!(!engine.is_running());
    assert!(is_idle(&engine.stats()), "{:?}", engine.stats());
    assert_eq!(submit(1).expect_err("no engine"), SubmitError::ShutDown);
}

#[test]
fn a_model_that_cannot_be_loaded_says_why() {
    let failing = || Err::<ScriptedExecutor, _>("no such file".to_owned());
    assert_eq!(
        start(EngineOptions::default(), failing).expect_err("no model"),
        "no such file"
    );
    let panicking = || -> Result<ScriptedExecutor, String> { panic!("a bad {}", "shape") };
    let error = start(EngineOptions::default(), panicking).expect_err("no model");
    assert_eq!(error, "loading the model panicked: a bad shape");
}

#[tokio::test]
async fn logits_that_are_no_numbers_end_their_job_only() {
    let engine = start(EngineOptions::default(), || Ok(NoiseExecutor)).expect("a model");
    let submit = |first| {
        let prompt = Job {
            max_new_tokens: 20,
            end_tokens: [].into(),
            ..job([first, 2])
        };
        engine.submit(prompt).expect("a place")
    };
    let (bad, good) = (submit(noise::POISON), submit(1));
    let text = "the model's logits hold a value that is not a finite number";
    assert_eq!(read(bad).await, (vec![], failed(text)));
    let (tokens, finish) = read(good).await;
    assert_eq!((tokens.len(), finish), (20, FinishReason::MaxTokens));
}

#[tokio::test]
async fn an_executor_that_breaks_its_promise_fails_the_step() {
    let engine = start(EngineOptions::default(), || Ok(NoiseExecutor)).expect("a model");
    let run = |first| read(engine.submit(job([first, 2])).expect("a place"));
    let omitted = "the executor gave 0 logits, but 1 rows of 64 were asked for";
    assert_eq!(run(noise::OMITTED).await, (vec![], failed(omitted)));
    let forgotten = "the executor left 0 tokens in a memory that must hold 2";
    assert_eq!(run(noise::FORGOTTEN).await, (vec![], failed(forgotten)));
}

#[tokio::test]
async fn a_shutdown_lets_jobs_end_within_its_grace() {
    let options = EngineOptions {
        running_max: 2,
        ..EngineOptions::default()
    };
    let engine = engine(options, repeat(200));
    let submit = |n| engine.submit(job([n]));
    let reads: Vec<_> = (0..6)
        .map(|n| tokio::spawn(read(submit(n).expect("a place"))))
        .collect();
    engine.shutdown(Duration::from_secs(60)).await;
    assert_eq!(submit(0).expect_err("no engine"), SubmitError::ShutDown);
    for (n, answer) in (0..).zip(reads) {
        let expected = (vec![n; 200], FinishReason::EosToken(END));
        assert_eq!(answer.await.expect("an answer"), expected);
    }
    engine.shutdown(Duration::MAX).await;
}

#[tokio::test]
async fn a_shutdown_cancels_what_outlasts_its_grace() {
    let executor = repeat(4000);
    let kv_caches = executor.live_caches();
    let options = EngineOptions {
        running_max: 2,
        ..EngineOptions::default()
    };
    let engine = engine(options, executor);
    // No consumer reads, so the first two jobs stall, and then the next two.
    let streams: Vec<_> = (0..4)
        .map(|n| engine.submit(job([n])).expect("a place"))
        .collect();
    settle(&engine, |stats| stats.running == 4).await;
    engine.shutdown(Duration::from_millis(20)).await;
    assert_eq!(Arc::strong_count(&kv_caches), 1, "the executor is gone");
    for (n, stream) in (0..).zip(streams) {
        let (tokens, finish) = read(stream).await;
        assert_eq!(finish, FinishReason::Cancelled);
        assert!(!tokens.is_empty() && tokens.iter().all(|&token| token == n));
    }
}
