//! Real models from the cache folder against mlx-lm on the same weights
//! (tests/goldens/real_logits.py). `cargo xtask models fetch` puts them there.

use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    sync::{Mutex, PoisonError},
};

use half::f16;
use serde::Deserialize;
use stemma::{
    load::{self, ModelFiles, Sources, alias},
    model::{
        self,
        exec::{
            Executor,
            cpu::{CpuExecutor, CpuOptions},
            mlx::{MlxExecutor, MlxOptions},
        },
        spec::DecoderSpec,
    },
};

use super::running::feed;

/// Real models take all cores and much memory: they run one after the other.
pub(super) static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[derive(Deserialize)]
struct Golden {
    prompt: Vec<u32>,
    /// Logits after the prompt, by token.
    probes: BTreeMap<usize, f32>,
    largest: BTreeMap<usize, f32>,
    /// The continuation at temperature 0.
    continuation: Vec<u32>,
}

fn golden(name: &str) -> Golden {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/models");
    let text = fs::read_to_string(folder.join(format!("{name}.json"))).expect("a golden");
    serde_json::from_str(&text).expect("a golden")
}

/// The files of an alias, if they are in the cache folder.
#[expect(clippy::print_stdout, reason = "says why a test did nothing")]
pub(crate) fn cached(name: &str) -> Option<(ModelFiles, DecoderSpec)> {
    let cache = Sources::from_environment(|name| env::var(name).ok()).downloads;
    let Some(path) = alias::find(name).and_then(|alias| alias::cached(alias, &cache)) else {
        println!("skipped: {name} is not in {}", cache.display());
        return None;
    };
    let files = load::open(&path).expect("a whole file");
    let spec = model::describe(&files).expect("a supported model");
    Some((files, spec))
}

fn largest(logits: &[f32]) -> u32 {
    let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
    best.expect("logits") as u32
}

/// Asserts that no probed logit is off by more than `tolerance` of the largest one, and that the
/// likeliest continuation is the golden one; from token `parts_at` on, only that the golden token is
/// as likely as any other, as far as `tolerance` can tell.
fn check<E: Executor>(name: &str, mut executor: E, tolerance: f32, parts_at: Option<usize>) {
    let golden = golden(name);
    let mut kv = executor.new_kv();
    let mut logits = feed(&mut executor, &mut kv, &golden.prompt);

    let scale = golden
        .largest
        .values()
        .fold(0.0_f32, |max, logit| max.max(logit.abs()));
    for (index, expected) in golden.probes.iter().chain(&golden.largest) {
        let got = logits[*index];
        let apart = (got - expected).abs();
        assert!(
            apart <= tolerance * scale,
            "{name}: logit {index} is {got}, expected {expected}"
        );
    }
    for (place, expected) in golden.continuation.iter().enumerate() {
        let token = largest(&logits);
        if parts_at.is_none_or(|parts_at| place < parts_at) {
            assert_eq!(token, *expected, "{name} at {place}");
        }
        let (best, own) = (logits[token as usize], logits[*expected as usize]);
        assert!(best - own <= tolerance * scale, "{name} at {place}");
        logits = feed(&mut executor, &mut kv, &[*expected]);
    }
}

/// MLX computes the same numbers in 32 bits; the CPU kernels have activations of 8 bits.
fn on_both(name: &str, parts_at: Option<usize>) {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((files, spec)) = cached(name) else {
        return;
    };
    let mlx = MlxExecutor::load(&spec, &*files.tensors, &MlxOptions::default());
    check(name, mlx.expect("a whole model"), 1e-3, None);
    let own = CpuExecutor::<f16>::load(&spec, &*files.tensors, &CpuOptions::default());
    check(name, own.expect("a whole model"), 3e-2, parts_at);
}

#[test]
fn smollm2_computes_what_mlx_lm_computes() {
    on_both("smollm2", None);
}

#[test]
fn qwen2_5_coder_computes_what_mlx_lm_computes() {
    on_both("qwen2.5-coder-0.5b", None);
}

#[test]
fn gemma3_computes_what_mlx_lm_computes() {
    // After "… of France. It is the" two continuations are all but equally likely.
    on_both("gemma3-270m", Some(11));
}
