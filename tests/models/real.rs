//! Real models from the cache folder against mlx-lm on the same weights
//! (tests/goldens/real_logits.py). `cargo xtask models fetch` puts them there.

use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    sync::{Mutex, PoisonError},
};

use serde::Deserialize;
use stemma::{
    load::{self, Sources, alias},
    model::{
        self,
        exec::{
            Executor,
            mlx::{MlxExecutor, MlxOptions},
        },
    },
};

use super::running::feed;

/// Real models take all cores and much memory: they run one after the other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[derive(Deserialize)]
struct Golden {
    prompt: Vec<u32>,
    /// Logits after the prompt, by token.
    probes: BTreeMap<usize, f32>,
    largest: BTreeMap<usize, f32>,
    /// What follows at temperature 0.
    continuation: Vec<u32>,
}

fn golden(name: &str) -> Golden {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/models");
    let text = fs::read_to_string(folder.join(format!("{name}.json"))).expect("a golden");
    serde_json::from_str(&text).expect("a golden")
}

/// The executor of an alias, if its file is in the cache folder.
#[expect(clippy::print_stdout, reason = "says why a test did nothing")]
fn cached(name: &str) -> Option<MlxExecutor> {
    let cache = Sources::from_environment(|name| env::var(name).ok()).cache;
    let Some(path) = alias::find(name).and_then(|alias| alias::cached(alias, &cache)) else {
        println!("skipped: {name} is not in {}", cache.display());
        return None;
    };
    let files = load::open(&path).expect("a whole file");
    let spec = model::describe(&files).expect("a supported model");
    Some(MlxExecutor::load(&spec, &*files.tensors, &MlxOptions::default()).expect("a whole model"))
}

fn largest(logits: &[f32]) -> u32 {
    let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
    best.expect("logits") as u32
}

fn check(name: &str) {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(mut executor) = cached(name) else {
        return;
    };
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
            apart <= 1e-3 * scale,
            "{name}: logit {index} is {got}, expected {expected}"
        );
    }
    let mut continuation = Vec::new();
    for _ in &golden.continuation {
        let token = largest(&logits);
        continuation.push(token);
        logits = feed(&mut executor, &mut kv, &[token]);
    }
    assert_eq!(continuation, golden.continuation, "{name}");
}

#[test]
fn smollm2_computes_what_mlx_lm_computes() {
    check("smollm2");
}

#[test]
fn qwen2_5_coder_computes_what_mlx_lm_computes() {
    check("qwen2.5-coder-0.5b");
}

#[test]
fn gemma3_computes_what_mlx_lm_computes() {
    check("gemma3-270m");
}
