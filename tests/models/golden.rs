//! Tiny random models of every architecture against logits of mlx-lm (tests/goldens/logits.py).

use stemma::model::exec::mlx::{Backend, Dtype, MlxOptions};

use super::{
    files,
    running::{assert_close, feed, load},
};
use stemma::model::exec::Executor;

const MODELS: [&str; 7] = [
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "gemma3_text",
    "llama-mlx-4bit",
    "llama-mlx-8bit",
];

fn check(options: &MlxOptions<'_>, tolerance: f32) {
    for model in MODELS {
        let golden = files::golden(model);
        let mut executor = load(model, options);
        for len in 1..=golden.tokens.len() {
            let mut kv = executor.new_kv();
            let logits = feed(&mut executor, &mut kv, &golden.tokens[..len]);
            let what = format!("{model} after {len} tokens");
            assert_close(&what, &logits, &golden.logits[len - 1], tolerance);
        }
    }
}

#[test]
fn logits_equal_those_of_mlx_lm() {
    check(&MlxOptions::default(), 1e-4);
}

/// The way that GPUs take, on this machine's device.
#[test]
fn fused_kernels_and_quantised_weights_give_the_same_logits() {
    let options = MlxOptions {
        backend: Some(Backend::Gpu),
        dtype: Dtype::F32,
        ..MlxOptions::default()
    };
    check(&options, 1e-4);
}

#[test]
fn sixteen_bit_types_stay_close() {
    for backend in [Backend::Cpu, Backend::Gpu] {
        for (dtype, cosine_min) in [(Dtype::Bf16, 0.99), (Dtype::F16, 0.9999)] {
            let options = MlxOptions {
                backend: Some(backend),
                dtype,
                progress: None,
            };
            for model in MODELS {
                let golden = files::golden(model);
                let mut executor = load(model, &options);
                let mut kv = executor.new_kv();
                let logits = feed(&mut executor, &mut kv, &golden.tokens);
                let cosine = cosine(&logits, golden.logits.last().unwrap());
                assert!(
                    cosine >= cosine_min,
                    "{model} in {dtype:?} on {backend:?}: {cosine}"
                );
            }
        }
    }
}

fn cosine(left: &[f32], right: &[f32]) -> f32 {
    let dot = |left: &[f32], right: &[f32]| -> f32 {
        left.iter()
            .zip(right)
            .map(|(left, right)| left * right)
            .sum()
    };
    dot(left, right) / (dot(left, left) * dot(right, right)).sqrt()
}
