//! Drafts change no answer of a real model.

use half::f16;
use stemma::{
    engine::{EngineHandle, EngineOptions, GeneratedToken, Speculation, TokenEvent},
    model::exec::cpu::{CpuExecutor, CpuOptions},
    sampling::SamplingParams,
    tokenizer::Tokenizer,
};

use tokio::runtime::Builder;

use super::{
    real,
    running::{job, load_cpu, start},
};

fn options(speculation: Speculation) -> EngineOptions {
    EngineOptions {
        speculation,
        ..EngineOptions::default()
    }
}

/// Returns the answers of several concurrent jobs.
async fn answers(engine: &EngineHandle, prompt: &[u32], length: usize) -> Vec<Vec<GeneratedToken>> {
    let answer = |(temperature, seed): (f32, u64)| {
        let sampling = SamplingParams {
            temperature,
            seed,
            frequency_penalty: temperature / 10.0,
            logprobs: Some(1),
            ..SamplingParams::default()
        };
        let job = job(prompt, length, sampling);
        let mut stream = engine.submit(job).expect("a place");
        async move {
            let mut tokens = Vec::new();
            while let Some(event) = stream.next().await {
                if let TokenEvent::Token(token) = event {
                    tokens.push(token);
                }
            }
            tokens
        }
    };
    let jobs = [(0.0, 1), (0.3, 2), (1.0, 3)].map(answer);
    futures::future::join_all(jobs).await
}

#[tokio::test]
async fn drafts_change_no_answer_of_a_model() {
    let prompt: Vec<u32> = (0..40).map(|n| n * 37 % 7).collect();
    for model in ["llama", "mistral", "gemma3_text", "llama-mlx-4bit"] {
        let load = move || load_cpu::<f16>(model, &CpuOptions::default());
        let plain = start(load, options(Speculation::Off));
        let drafting = start(load, options(Speculation::Ngram));
        let expected = answers(&plain, &prompt, 60).await;
        assert_eq!(answers(&drafting, &prompt, 60).await, expected, "{model}");
        assert!(drafting.stats().drafted_tokens > 0, "{model}");
    }
}

#[test]
fn a_real_model_copies_in_fewer_steps() {
    let _alone = real::ONE_AT_A_TIME.lock();
    let Some((files, _)) = real::cached("smollm2") else {
        return;
    };
    let tokenizer = Tokenizer::open(&files.tokenizer).expect("a tokenizer");
    let line = "The quick brown fox jumps over the lazy dog and then runs into the forest.\n";
    let prompt = tokenizer.encode_text(&line.repeat(6), true);
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let mut all = Vec::new();
    for speculation in [Speculation::Off, Speculation::Ngram] {
        let load = || {
            let (files, spec) = real::cached("smollm2").expect("it was there");
            CpuExecutor::<f16>::load(&spec, &*files.tensors, &CpuOptions::default())
                .expect("a model")
        };
        let engine = start(load, options(speculation));
        all.push(runtime.block_on(answers(&engine, &prompt, 48)));
        let stats = engine.stats();
        assert_eq!(stats.drafted_tokens > 0, speculation == Speculation::Ngram);
        assert!(
            stats.accepted_tokens * 10 >= stats.drafted_tokens * 6,
            "{stats:?}"
        );
    }
    assert_eq!(all[0], all[1]);
}
