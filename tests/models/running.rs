//! Drives an executor by hand, or starts an engine over one.

use stemma::{
    cache::CacheScope,
    engine::{self, EngineHandle, EngineOptions, Job},
    model::{
        self,
        exec::{
            Executor, KvCache, Slot,
            cpu::{CpuExecutor, CpuOptions, KvElement, SimdLevel},
            mlx::{MlxExecutor, MlxOptions},
        },
    },
    sampling::SamplingParams,
};

use super::files;

/// Loads a tiny model onto MLX.
pub(crate) fn load(model: &str, options: &MlxOptions<'_>) -> MlxExecutor {
    let files = files::open(model);
    let spec = model::describe(&files).expect("a supported model");
    MlxExecutor::load(&spec, &*files.tensors, options).expect("a loadable model")
}

/// Loads a tiny model onto the CPU kernels.
pub(crate) fn load_cpu<E: KvElement>(model: &str, options: &CpuOptions<'_>) -> CpuExecutor<E> {
    let files = files::open(model);
    let spec = model::describe(&files).expect("a supported model");
    CpuExecutor::load(&spec, &*files.tensors, options).expect("a loadable model")
}

/// All instructions of this processor, with numbers of threads that do and do not divide the work.
pub(crate) fn cpu_options() -> Vec<CpuOptions<'static>> {
    let options = |(threads, instructions)| CpuOptions {
        threads: Some(threads),
        instructions: Some(instructions),
        ..CpuOptions::default()
    };
    let threads = [2, 3, 1];
    threads
        .into_iter()
        .zip(SimdLevel::all())
        .map(options)
        .collect()
}

/// Starts an engine over what `build` loads.
pub(crate) fn start<E: Executor + 'static>(
    build: impl FnOnce() -> E + Send + 'static,
    options: EngineOptions,
) -> EngineHandle {
    engine::start(options, move || Ok(build())).expect("an engine")
}

/// Returns a job for `length` tokens that ignores EOS.
pub(crate) fn job(prompt: &[u32], length: usize, sampling: SamplingParams) -> Job {
    Job {
        prompt: prompt.to_vec(),
        max_new_tokens: length,
        sampling,
        constraint: None,
        end_tokens: [].into(),
        cache_scope: CacheScope::default(),
        cache_key: None,
        restore: None,
    }
}

/// Appends tokens to one sequence and gives the logits after the last.
pub(crate) fn feed<E: Executor>(executor: &mut E, kv: &mut E::Kv, tokens: &[u32]) -> Vec<f32> {
    let mut logits = Vec::new();
    let before = kv.len();
    executor
        .step(
            &mut [Slot {
                tokens,
                kv,
                logit_rows: 1,
            }],
            &mut logits,
        )
        .expect("a working device");
    assert_eq!(kv.len(), before + tokens.len());
    assert_eq!(logits.len(), executor.vocab_size());
    logits
}

/// The logits after each token of a sequence that is fed in chunks of one size.
pub(crate) fn last_logits<E: Executor>(executor: &mut E, tokens: &[u32], chunk: usize) -> Vec<f32> {
    let mut kv = executor.new_kv();
    let mut logits = Vec::new();
    for part in tokens.chunks(chunk) {
        logits = feed(executor, &mut kv, part);
    }
    logits
}

/// Asserts that no logit differs by more than a fraction of the largest one.
pub(crate) fn assert_close(what: &str, got: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let scale = expected
        .iter()
        .fold(0.0_f32, |max, value| max.max(value.abs()));
    let apart = got
        .iter()
        .zip(expected)
        .map(|(got, expected)| (got - expected).abs())
        .fold(0.0_f32, f32::max);
    assert!(
        apart <= tolerance * scale,
        "{what}: {apart} apart at a scale of {scale}"
    );
}
