//! N-gram drafts save steps and change no answer.

use super::{
    noise::{HARMLESS_END, NoiseExecutor},
    reuse::{Draws, check},
    *,
};

fn drafting() -> EngineOptions {
    EngineOptions {
        speculation: Speculation::Ngram,
        ..EngineOptions::default()
    }
}

/// Model that answers with the whole prompt.
fn copying() -> ScriptedExecutor {
    ScriptedExecutor::new(VOCAB_SIZE, END, <[TokenId]>::to_vec)
}

#[tokio::test]
async fn what_copies_its_prompt_takes_few_steps() {
    let prompt: Vec<TokenId> = (0..200).collect();
    let mut steps = Vec::new();
    for options in [EngineOptions::default(), drafting()] {
        let options = EngineOptions {
            events_buffered_max: 1000,
            ..options
        };
        let engine = engine(options, copying());
        let stream = engine.submit(job(prompt.clone())).expect("a place");
        assert_eq!(
            read(stream).await,
            (prompt.clone(), FinishReason::EosToken(END))
        );
        let stats = settle(&engine, is_idle).await;
        assert_eq!(stats.generated_tokens, 201);
        assert_eq!(stats.prefilled_tokens, 200);
        assert_eq!(stats.cache.bytes, 400 * 16, "no guess is left in memory");
        assert_eq!(stats.steps + stats.accepted_tokens, 201);
        steps.push(stats.steps);
    }
    // Three tokens without a draft, then up to eight tokens in a step.
    assert_eq!((steps[0], steps[1] < 35), (201, true), "{steps:?}");
}

#[tokio::test]
async fn answers_end_where_they_would_without_drafts() {
    let prompt: Vec<TokenId> = (0..40).chain(0..40).collect();
    for max in [1, 2, 5, 13, 14, 15, 40, 80] {
        let engine = engine(drafting(), copying());
        let job = Job {
            max_new_tokens: max,
            ..job(prompt.clone())
        };
        let stream = engine.submit(job).expect("a place");
        let expected = (prompt[..max].to_vec(), FinishReason::MaxTokens);
        assert_eq!(read(stream).await, expected, "{max} tokens");
    }
    for context in [81, 82, 90, 95, 120, 159, 160, 161] {
        let executor = copying().context_length(context);
        let engine = engine(drafting(), executor);
        let stream = engine.submit(job(prompt.clone())).expect("a place");
        let room = context - 80;
        let expected = match prompt.get(..room) {
            Some(cut) => (cut.to_vec(), FinishReason::ContextFull),
            None => (prompt.clone(), FinishReason::EosToken(END)),
        };
        assert_eq!(read(stream).await, expected, "a context of {context}");
    }
}

#[tokio::test]
async fn a_reader_that_does_not_keep_up_loses_nothing() {
    for buffered in [3, 4, 5, 9] {
        let options = EngineOptions {
            events_buffered_max: buffered,
            ..drafting()
        };
        let engine = engine(options, copying());
        let prompt: Vec<TokenId> = (0..60).collect();
        let stream = engine.submit(job(prompt.clone())).expect("a place");
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(read(stream).await, (prompt, FinishReason::EosToken(END)));
    }
}

/// A job for [`NoiseExecutor`] whose tokens are so few that the same ones often follow each other.
fn drawn(draws: &mut Draws) -> Job {
    let length = 1 + draws.below(60);
    let few = 1 + draws.below(3);
    let bias: Vec<(TokenId, f32)> = (1..=few).map(|token| (token, 12.0)).collect();
    Job {
        max_new_tokens: 1 + draws.below(80) as usize,
        sampling: SamplingParams {
            temperature: if draws.below(3) == 0 { 0.0 } else { 1.0 },
            repetition_penalty: 1.0 + draws.below(2) as f32 / 20.0,
            frequency_penalty: draws.below(2) as f32 / 50.0,
            top_p: if draws.below(2) == 0 { 1.0 } else { 0.9 },
            logit_bias: bias.into(),
            logprobs: Some(2),
            seed: u64::from(draws.below(1000)),
            ..SamplingParams::default()
        },
        end_tokens: if draws.below(2) == 0 {
            [0].into()
        } else {
            [few].into()
        },
        ..job((0..length).map(|_| 1 + draws.below(few)))
    }
}

/// Runs random jobs, some dropped, in an engine with drafts and little KV memory.
async fn history(seed: u64) -> EngineStats {
    let mut draws = Draws(seed);
    let options = EngineOptions {
        running_max: 1 + draws.below(8) as usize,
        step_prefill_tokens_max: 1 + draws.below(40) as usize,
        kv_bytes_max: 200 + draws.below(300) as usize,
        cache_bytes_max: draws.below(300) as usize,
        events_buffered_max: 3 + draws.below(20) as usize,
        ..drafting()
    };
    let engine = start(options, || Ok(NoiseExecutor)).expect("a model");
    for round in 0..5 {
        let mut running = Vec::new();
        for _ in 0..1 + draws.below(8) {
            let job = drawn(&mut draws);
            let stream = engine.submit(copy_of(&job)).expect("a place");
            if draws.below(6) > 0 {
                running.push((job, tokio::spawn(read(stream))));
            }
        }
        check(running, &format!("seed {seed}, round {round}")).await;
    }
    settle(&engine, is_idle).await
}

#[tokio::test]
async fn drafts_never_change_an_answer() {
    let mut sums = (0, 0, 0);
    let saw_all = |(right, wrong, evictions)| right > 500 && wrong > 500 && evictions > 0;
    // On a busy machine a job can end before the next one comes, and then no preemption happens.
    for seed in 0..200 {
        if seed >= 16 && saw_all(sums) {
            break;
        }
        let stats = history(seed).await;
        sums.0 += stats.accepted_tokens;
        sums.1 += stats.drafted_tokens - stats.accepted_tokens;
        sums.2 += stats.preemptions;
    }
    assert!(
        saw_all(sums),
        "right and wrong guesses, and too little memory: {sums:?}"
    );
}

#[tokio::test]
async fn log_probabilities_are_those_without_drafts() {
    let mut answers = Vec::new();
    for options in [EngineOptions::default(), drafting()] {
        let engine = start(options, || Ok(NoiseExecutor)).expect("a model");
        let mut events = Vec::new();
        for seed in 0..6 {
            let mut stream = engine.submit(drawn(&mut Draws(seed))).expect("a place");
            accepted(&mut stream).await;
            while let Some(event) = next(&mut stream).await {
                events.push(event);
            }
        }
        answers.push(events);
    }
    assert_eq!(answers[0], answers[1]);
    assert!(answers[0].len() > HARMLESS_END as usize, "{answers:?}");
}
