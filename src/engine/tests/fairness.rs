//! Waiting between jobs, counted in steps.

use super::*;

/// Returns the steps in which a sequence with `cached_min..cached_max` cached tokens decodes.
fn decoding(steps: &[ScriptedStep], cached_min: usize, cached_max: usize) -> Vec<u64> {
    let decodes = |step: &&ScriptedStep| {
        step.slots
            .iter()
            .any(|slot| slot.tokens == 1 && (cached_min..cached_max).contains(&slot.cached))
    };
    steps
        .iter()
        .filter(decodes)
        .map(|step| step.number)
        .collect()
}

#[tokio::test]
async fn a_long_prompt_does_not_stall_those_that_decode() {
    let (executor, release) = held_at(repeat(50), 3);
    let (executor, steps) = recorded(executor);
    let options = EngineOptions {
        step_prefill_tokens_max: 100,
        events_buffered_max: 1000,
        ..EngineOptions::default()
    };
    let engine = engine(options, executor);
    let short = engine.submit(job([1])).expect("a place");
    settle(&engine, |stats| stats.steps == 2).await;
    let long = engine
        .submit(job((0..3000).map(|n| n % 900)))
        .expect("a place");
    release.send(()).expect("a held engine");
    assert_eq!(
        read(short).await,
        (vec![1; 50], FinishReason::EosToken(END))
    );
    assert_eq!(read(long).await, (vec![0; 50], FinishReason::EosToken(END)));

    let steps = steps.lock().expect("no panic");
    let reading = steps
        .iter()
        .filter(|step| step.slots.iter().any(|slot| slot.tokens > 1));
    assert_eq!(reading.count(), 30, "thirty chunks of a hundred");
    assert_eq!(
        decoding(&steps, 0, 60),
        (1..52).collect::<Vec<_>>(),
        "a token in every step"
    );
}

#[tokio::test]
async fn a_short_prompt_does_not_wait_for_a_long_one() {
    let (executor, release) = held_at(repeat(3), 2);
    let (executor, steps) = recorded(executor);
    let options = EngineOptions {
        step_prefill_tokens_max: 100,
        ..EngineOptions::default()
    };
    let engine = engine(options, executor);
    let long = engine
        .submit(job((0..3000).map(|n| n % 900)))
        .expect("a place");
    settle(&engine, |stats| stats.steps == 1).await;
    let short = engine.submit(job(1..100)).expect("a place");
    release.send(()).expect("a held engine");
    assert_eq!(read(short).await.0, [1; 3]);
    assert_eq!(read(long).await.0, [0; 3]);
    let steps = steps.lock().expect("no panic");
    // The second step was planned before the short prompt came. The next two steps prefill it.
    assert_eq!(decoding(&steps, 99, 102), [5, 6, 7]);
}

#[tokio::test]
async fn a_short_chat_behind_eight_long_prompts_begins_with_the_next_step() {
    let (executor, release) = held_at(repeat(3), 2);
    let (executor, steps) = recorded(executor);
    let engine = engine(EngineOptions::default(), executor);
    let long = |n: u32| job((0..3000).map(|token| (token + 100 * n) % 900));
    let long: Vec<_> = (1..9)
        .map(|n| engine.submit(long(n)).expect("a place"))
        .collect();
    settle(&engine, |stats| stats.steps == 1).await;
    let short = engine.submit(job(1..41)).expect("a place");
    release.send(()).expect("a held engine");
    assert_eq!(read(short).await.0, [1; 3]);
    for (n, answer) in (1..9).zip(long) {
        assert_eq!(read(answer).await.0, [100 * n; 3]);
    }
    let steps = steps.lock().expect("no panic");
    // The second step was planned before the short prompt came. The third step prefills it whole,
    // beside a long one.
    assert_eq!(decoding(&steps, 40, 43), [4, 5, 6]);
    let read_in_third: usize = steps[2].slots.iter().map(|slot| slot.tokens).sum();
    assert_eq!(read_in_third, 512, "nor do the long ones stand still");
}

#[tokio::test]
async fn jobs_begin_in_the_order_in_which_they_came() {
    let (executor, release) = held_at(repeat(10), 1);
    let (executor, steps) = recorded(executor);
    let options = EngineOptions {
        running_max: 1,
        ..EngineOptions::default()
    };
    let engine = engine(options, executor);
    // Prompts of different lengths show in the steps which job is which.
    let submit = |n: u32| tokio::spawn(read(engine.submit(job(0..n)).expect("a place")));
    let reads: Vec<_> = [9, 4, 6, 2].into_iter().map(submit).collect();
    release.send(()).expect("a held engine");
    for answer in reads {
        assert_eq!(answer.await.expect("an answer").0, [0; 10]);
    }
    let steps = steps.lock().expect("no panic");
    let begun: Vec<_> = steps
        .iter()
        .flat_map(|step| &step.slots)
        .filter(|slot| slot.cached == 0)
        .collect();
    assert_eq!(
        begun.iter().map(|slot| slot.tokens).collect::<Vec<_>>(),
        [9, 4, 6, 2]
    );
}
