//! Tiny random models of every architecture against logits of mlx-lm (tests/goldens/logits.py).

use half::f16;
use stemma::model::exec::{
    Executor,
    cpu::{CpuOptions, KvElement, Quantize},
    mlx::{Backend, Dtype, MlxOptions},
};

use super::{
    files,
    running::{assert_close, cpu_options, feed, load, load_cpu},
};

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
        check_executor(model, &mut load(model, options), tolerance);
    }
}

fn check_executor<E: Executor>(model: &str, executor: &mut E, tolerance: f32) {
    let golden = files::golden(model);
    for len in 1..=golden.tokens.len() {
        let mut kv = executor.new_kv();
        let logits = feed(executor, &mut kv, &golden.tokens[..len]);
        let what = format!("{model} after {len} tokens");
        assert_close(&what, &logits, &golden.logits[len - 1], tolerance);
    }
}

/// Plain weights are exact; MLX-quantised ones are too, but their activations have 8 bits.
fn check_cpu<E: KvElement>(tolerance: f32) {
    for options in cpu_options() {
        for model in MODELS {
            let is_quantised = model.starts_with("llama-mlx");
            let tolerance = if is_quantised { 0.1 } else { tolerance };
            check_executor(model, &mut load_cpu::<E>(model, &options), tolerance);
        }
    }
}

#[test]
fn cpu_kernels_give_the_logits_of_mlx_lm() {
    check_cpu::<f32>(1e-4);
}

#[test]
fn memory_of_sixteen_bits_stays_close() {
    check_cpu::<f16>(5e-3);
}

#[test]
fn weights_that_are_quantised_on_request_stay_close() {
    for (quantize, cosine_min) in [(Quantize::Q8, 0.998), (Quantize::Q4, 0.85)] {
        let options = CpuOptions {
            quantize: Some(quantize),
            ..CpuOptions::default()
        };
        for model in ["llama", "qwen3", "gemma3_text"] {
            let golden = files::golden(model);
            let mut executor = load_cpu::<f16>(model, &options);
            let mut kv = executor.new_kv();
            let logits = feed(&mut executor, &mut kv, &golden.tokens);
            let cosine = cosine(&logits, golden.logits.last().unwrap());
            assert!(cosine >= cosine_min, "{model} in {quantize:?}: {cosine}");
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
