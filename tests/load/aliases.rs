//! The real files of the aliases, where the cache folder has them (`cargo xtask models fetch`).

use std::{collections::BTreeMap, env};

use serde_json::{Value, json};
use stemma::{
    load::{self, ModelFiles, Sources, TensorType, alias},
    tokenizer::TokenizerSource,
};

/// Opens the file of an alias, or says why it cannot.
#[expect(clippy::print_stdout, reason = "says why a test did nothing")]
fn open(name: &str) -> Option<ModelFiles> {
    let cache = Sources::from_environment(|name| env::var(name).ok()).downloads;
    let alias = alias::find(name).expect("an alias");
    match alias::cached(alias, &cache) {
        Some(path) => Some(load::open(&path).expect("a whole file")),
        None => {
            println!("skipped: {name} is not in {}", cache.display());
            None
        }
    }
}

fn check(name: &str, config: &Value, encodings: &[(&str, usize)], tokens: usize) {
    let Some(model) = open(name) else { return };
    for (key, value) in config.as_object().expect("an object") {
        assert_eq!(model.config.get(key), Some(value), "{name}: {key}");
    }
    let TokenizerSource::Gguf(vocabulary) = &model.tokenizer else {
        panic!("not from metadata")
    };
    assert_eq!(vocabulary.tokens.len(), tokens);
    let mut names: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for name in model.tensors.names() {
        let encoding = match model.tensors.info(name).expect("a listed tensor").encoding {
            TensorType::Block(block_type) => format!("{block_type:?}"),
            plain => format!("{plain:?}"),
        };
        names.entry(encoding).or_default().push(name);
    }
    let counts: Vec<_> = names
        .iter()
        .map(|(kind, all)| (kind.as_str(), all.len()))
        .collect();
    assert_eq!(counts, encodings, "{name}");
    for name in names.values().filter_map(|all| all.last()) {
        let elements = model
            .tensors
            .info(name)
            .expect("a listed tensor")
            .elements();
        let mut values = vec![f32::NAN; elements];
        model
            .tensors
            .read_f32(name, &mut values)
            .expect("a readable tensor");
        assert!(values.iter().all(|value| value.is_finite()), "{name}");
        assert!(values.iter().any(|value| *value != 0.0), "{name}");
    }
}

#[test]
fn smollm2() {
    let config = json!({
        "model_type": "llama",
        "num_hidden_layers": 30,
        "hidden_size": 576,
        "num_key_value_heads": 3,
        "rope_theta": 100_000.0,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": true,
        "eos_token_id": 2,
    });
    check(
        "smollm2",
        &config,
        &[("F32", 61), ("Q4_1", 210), ("Q8_0", 1)],
        49_152,
    );
}

#[test]
fn qwen2_5_coder() {
    let config = json!({
        "model_type": "qwen2",
        "num_hidden_layers": 24,
        "hidden_size": 896,
        "attention_bias": true,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": false,
        "eos_token_id": 151_645,
    });
    let encodings = [
        ("F32", 121),
        ("Q4K", 12),
        ("Q5_0", 133),
        ("Q6K", 12),
        ("Q8_0", 13),
    ];
    check("qwen2.5-coder-0.5b", &config, &encodings, 151_936);
}

#[test]
fn gemma_3() {
    let config = json!({
        "model_type": "gemma3_text",
        "num_hidden_layers": 18,
        "head_dim": 256,
        "query_pre_attn_scalar": 256,
        "sliding_window": 512,
        "sliding_window_pattern": 6,
        "rope_theta": 1_000_000.0,
        "rope_local_base_freq": 10_000.0,
        "eos_token_id": 1,
    });
    let encodings = [
        ("F32", 109),
        ("Q4K", 27),
        ("Q5_0", 81),
        ("Q6K", 9),
        ("Q8_0", 10),
    ];
    check("gemma3-270m", &config, &encodings, 262_144);
}
