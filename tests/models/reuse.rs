//! The engine: conversations that go on from the prefix cache answer as those read in full.

use half::f16;
use stemma::{
    engine::{EngineHandle, EngineOptions, GeneratedToken, TokenEvent},
    model::exec::{cpu::CpuOptions, mlx::MlxOptions},
    sampling::SamplingParams,
};

use super::running::{assert_close, job, load, load_cpu, start};

fn options(cache_bytes_max: usize) -> EngineOptions {
    EngineOptions {
        cache_bytes_max,
        // Short chunks, so that answers are written while other prompts are read.
        step_prefill_tokens_max: 8,
        ..EngineOptions::default()
    }
}

/// How much of a prompt was cached, and its likeliest continuation.
async fn answer(engine: &EngineHandle, prompt: &[u32]) -> (usize, Vec<GeneratedToken>) {
    let sampling = SamplingParams {
        temperature: 0.0,
        logprobs: Some(0),
        ..SamplingParams::default()
    };
    let job = job(prompt, 12, sampling);
    let mut stream = engine.submit(job).expect("a place");
    let (mut cached, mut tokens) = (0, Vec::new());
    while let Some(event) = stream.next().await {
        match event {
            TokenEvent::Accepted { cached_tokens, .. } => cached = cached_tokens,
            TokenEvent::Token(token) => tokens.push(token),
            TokenEvent::Finished(_) => {}
        }
    }
    assert_eq!(tokens.len(), 12);
    (cached, tokens)
}

fn ids(tokens: &[GeneratedToken]) -> Vec<u32> {
    tokens.iter().map(|token| token.id).collect()
}

fn assert_same(what: &str, got: &[GeneratedToken], expected: &[GeneratedToken]) {
    assert_eq!(ids(got), ids(expected), "{what}");
    let logprobs = |tokens: &[GeneratedToken]| -> Vec<f32> {
        let chosen = |token: &GeneratedToken| token.logprobs.as_ref().map(|it| it.chosen);
        tokens.iter().filter_map(chosen).collect()
    };
    assert_close(what, &logprobs(got), &logprobs(expected), 1e-4);
}

#[tokio::test]
async fn reuse_never_changes_an_answer() {
    for model in ["llama", "mistral", "gemma3_text"] {
        let mlx = move || load(model, &MlxOptions::default());
        check(
            model,
            [start(mlx, options(1 << 30)), start(mlx, options(0))],
        )
        .await;
        let own = move || load_cpu::<f16>(model, &CpuOptions::default());
        check(
            model,
            [start(own, options(1 << 30)), start(own, options(0))],
        )
        .await;
    }
}

async fn check(model: &str, [warm, cold]: [EngineHandle; 2]) {
    let stem: Vec<u32> = (0..40).map(|n| n * 37 % 96).collect();
    let (cached, first) = answer(&warm, &stem).await;
    assert_eq!(cached, 0);
    // The last token of an answer is not run.
    let told = [&stem[..], &ids(&first)].concat();
    let prompts = [
        (39, stem.clone()),
        (51, [&told[..], &[5, 6, 7]].concat()),
        (51, [&told[..], &[8, 9]].concat()),
        (20, [&stem[..20], &[95, 94]].concat()),
    ];
    let together = prompts.iter().map(|(_, prompt)| answer(&warm, prompt));
    let together = futures::future::join_all(together).await;
    for ((known, prompt), (cached, tokens)) in prompts.iter().zip(together) {
        assert_eq!(cached, *known, "{model}");
        let (none, expected) = answer(&cold, prompt).await;
        assert_eq!(none, 0);
        assert_same(&format!("{model} after {cached}"), &tokens, &expected);
    }
    // Those that ran side by side left what the next one goes on from.
    let (cached, again) = answer(&warm, &prompts[1].1).await;
    assert_eq!(cached, prompts[1].1.len() - 1, "{model}");
    assert_same(model, &again, &answer(&cold, &prompts[1].1).await.1);
}
