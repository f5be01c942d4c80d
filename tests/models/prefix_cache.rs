//! Outputs after prompts that are partly in the prefix cache, compared with outputs after a full
//! prefill.

use std::sync::{Arc, Mutex};

use half::f16;
use stemma::{
    engine::{EngineHandle, EngineOptions, GeneratedToken, TokenEvent, TokenStream},
    model::exec::{ExecError, Executor, Slot, cpu::CpuOptions, mlx::MlxOptions},
    sampling::SamplingParams,
};

use super::running::{assert_close, job, load, load_cpu, start};

fn options(cache_bytes_max: usize) -> EngineOptions {
    EngineOptions {
        cache_bytes_max,
        // Short prefill chunks, so that decode and prefill share steps.
        step_prefill_tokens_max: 8,
        ..EngineOptions::default()
    }
}

/// An executor that runs no step while the gate is locked.
struct Gated<E> {
    executor: E,
    gate: Arc<Mutex<()>>,
}

impl<E> Gated<E> {
    /// Returns a function that loads the executor, on the engine's thread.
    fn over(
        load: impl FnOnce() -> E + Send + 'static,
        gate: &Arc<Mutex<()>>,
    ) -> impl FnOnce() -> Self + Send + 'static {
        let gate = Arc::clone(gate);
        move || Self {
            executor: load(),
            gate,
        }
    }
}

impl<E: Executor> Executor for Gated<E> {
    type Kv = E::Kv;

    fn vocab_size(&self) -> usize {
        self.executor.vocab_size()
    }

    fn context_length(&self) -> usize {
        self.executor.context_length()
    }

    fn kv_bytes_per_token(&self) -> usize {
        self.executor.kv_bytes_per_token()
    }

    fn new_kv(&self) -> E::Kv {
        self.executor.new_kv()
    }

    fn step(
        &mut self,
        slots: &mut [Slot<'_, E::Kv>],
        logits: &mut Vec<f32>,
    ) -> Result<(), ExecError> {
        drop(self.gate.lock());
        self.executor.step(slots, logits)
    }
}

/// Returns the number of cached prompt tokens, and the greedy output.
async fn generate(engine: &EngineHandle, prompt: &[u32]) -> (usize, Vec<GeneratedToken>) {
    read(submit(engine, prompt)).await
}

fn submit(engine: &EngineHandle, prompt: &[u32]) -> TokenStream {
    let sampling = SamplingParams {
        temperature: 0.0,
        logprobs: Some(0),
        ..SamplingParams::default()
    };
    engine
        .submit(job(prompt, 12, sampling))
        .expect("a queue slot")
}

async fn read(mut stream: TokenStream) -> (usize, Vec<GeneratedToken>) {
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
async fn the_prefix_cache_never_changes_an_output() {
    for model in ["llama", "mistral", "gemma3_text"] {
        check(model, move || load(model, &MlxOptions::default())).await;
        check(model, move || {
            load_cpu::<f16>(model, &CpuOptions::default())
        })
        .await;
    }
}

async fn check<E: Executor + 'static>(model: &str, load: impl Fn() -> E + Copy + Send + 'static) {
    let gate = Arc::new(Mutex::new(()));
    let gated = Gated::over(load, &gate);
    let (warm, cold) = (start(gated, options(1 << 30)), start(load, options(0)));
    let stem: Vec<u32> = (0..40).map(|n| n * 37 % 96).collect();
    let (cached, first) = generate(&warm, &stem).await;
    assert_eq!(cached, 0);
    // The KV cache has no entry of the last output token.
    let history = [&stem[..], &ids(&first)].concat();
    let prompts = [
        (39, stem.clone()),
        (51, [&history[..], &[5, 6, 7]].concat()),
        (51, [&history[..], &[8, 9]].concat()),
        (20, [&stem[..20], &[95, 94]].concat()),
    ];
    // No job ends before all jobs are queued.
    let held = gate.lock();
    let streams: Vec<_> = prompts
        .iter()
        .map(|(_, prompt)| submit(&warm, prompt))
        .collect();
    drop(held);
    let together = futures::future::join_all(streams.into_iter().map(read)).await;
    for ((expected_cached, prompt), (cached, tokens)) in prompts.iter().zip(together) {
        assert_eq!(cached, *expected_cached, "{model}");
        let (none, expected) = generate(&cold, prompt).await;
        assert_eq!(none, 0);
        assert_same(&format!("{model} after {cached}"), &tokens, &expected);
    }
    // Concurrent sequences leave entries that the next prompt uses.
    let (cached, again) = generate(&warm, &prompts[1].1).await;
    assert_eq!(cached, prompts[1].1.len() - 1, "{model}");
    assert_same(model, &again, &generate(&cold, &prompts[1].1).await.1);
}
