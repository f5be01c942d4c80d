//! Models whose configuration and weights do not fit each other.

use serde_json::{Value, json};
use stemma::{
    load::{LoadError, ModelFiles, TensorType},
    model::{
        self,
        exec::{
            cpu::{CpuExecutor, CpuOptions},
            mlx::{Backend, MlxExecutor, MlxOptions},
        },
    },
};

use super::files::{self, TinyTensors};

/// Returns the load error, on MLX for a kind of device, or on the CPU kernels.
fn load_error(files: Result<ModelFiles, LoadError>, backend: Option<Backend>) -> String {
    let files = match files {
        Ok(files) => files,
        Err(LoadError(error)) => return error,
    };
    let spec = model::describe(&files).expect("a description");
    if backend.is_none() {
        let options = CpuOptions::default();
        let loaded = CpuExecutor::<half::f16>::load(&spec, &*files.tensors, &options);
        return loaded.err().expect("an error").0;
    }
    let options = MlxOptions {
        backend,
        ..MlxOptions::default()
    };
    let loaded = MlxExecutor::load(&spec, &*files.tensors, &options);
    loaded.err().expect("an error").0
}

fn damage(model: &str, damage: impl FnOnce(&mut TinyTensors)) -> Result<ModelFiles, LoadError> {
    let mut tensors = files::tensors(model);
    damage(&mut tensors);
    files::assemble(files::config(model), tensors)
}

fn check(model: &str, tensor: &str, expected: &[&str], change: impl Fn(&mut TinyTensors)) {
    for backend in [Some(Backend::Cpu), Some(Backend::Gpu), None] {
        let error = load_error(damage(model, &change), backend);
        for part in [&[tensor], expected].concat() {
            assert!(error.contains(part), "`{error}` lacks `{part}`");
        }
    }
}

#[test]
fn missing_tensors_are_named() {
    for tensor in [
        "model.embed_tokens.weight",
        "model.layers.1.self_attn.k_proj.weight",
        "model.layers.1.self_attn.k_proj.bias",
        "model.layers.0.mlp.down_proj.weight",
        "model.layers.0.post_attention_layernorm.weight",
        "model.norm.weight",
        "lm_head.weight",
    ] {
        check("llama", tensor, &["is missing", "tiny.model"], |tensors| {
            tensors.0.remove(tensor).expect("a tensor to remove");
        });
    }
}

#[test]
fn wrong_shapes_are_named() {
    let tensor = "model.layers.0.mlp.up_proj.weight";
    check(
        "llama",
        tensor,
        &["[64, 32]", "[64, 64]", "tiny.model"],
        |tensors| {
            let (info, bytes) = tensors.0.get_mut(tensor).unwrap();
            info.shape = vec![64, 32];
            bytes.truncate(64 * 32 * 4);
        },
    );
    let tensor = "model.norm.weight";
    check(
        "gemma3_text",
        tensor,
        &["[32]", "[64]", "tiny.model"],
        |tensors| {
            let (info, bytes) = tensors.0.get_mut(tensor).unwrap();
            info.shape = vec![32];
            bytes.truncate(32 * 2);
        },
    );
}

#[test]
fn wrong_packings_are_named() {
    let tensor = "model.layers.0.self_attn.q_proj.weight";
    let scales = "model.layers.0.self_attn.q_proj.scales";
    let biases = "model.layers.0.self_attn.q_proj.biases";
    check(
        "llama-mlx-4bit",
        scales,
        &["missing beside it"],
        |tensors| {
            tensors.0.remove(scales).unwrap();
        },
    );
    check(
        "llama-mlx-4bit",
        biases,
        &["missing beside it"],
        |tensors| {
            tensors.0.remove(biases).unwrap();
        },
    );
    check(
        "llama-mlx-4bit",
        tensor,
        &["[64, 7]", "no packing in 4 bits by 32"],
        |tensors| {
            let (info, bytes) = tensors.0.get_mut(tensor).unwrap();
            info.shape = vec![64, 7];
            bytes.truncate(64 * 7 * 4);
        },
    );
    check(
        "llama-mlx-4bit",
        "model.norm.weight",
        &["no packing"],
        |tensors| {
            tensors.0.get_mut("model.norm.weight").unwrap().0.encoding = TensorType::U32;
        },
    );
}

fn describe_error(model: &str, change: impl FnOnce(&mut serde_json::Map<String, Value>)) -> String {
    let mut config = files::config(model);
    change(&mut config);
    let files = files::assemble(config, files::tensors(model)).expect("a whole model");
    model::describe(&files).expect_err("an error").0
}

#[test]
fn unknown_architectures_get_a_list_of_known_ones() {
    let error = describe_error("llama", |config| {
        config.insert("model_type".into(), json!("mamba"));
    });
    assert_eq!(
        error,
        "tiny.model: `model_type` names an architecture that is not supported: `mamba`; supported \
         are llama, mistral, qwen2, qwen3, gemma3_text, gemma3"
    );
}

#[test]
fn configurations_are_checked_key_by_key() {
    for (key, value, expected) in [
        ("model_type", Value::Null, "is missing"),
        ("hidden_size", Value::Null, "is missing"),
        (
            "hidden_size",
            json!("64"),
            "is \"64\", not a number from 1 to",
        ),
        ("hidden_size", json!(u64::MAX), "not a number from 1 to"),
        (
            "num_hidden_layers",
            json!(0),
            "is 0, not a number from 1 to",
        ),
        (
            "num_hidden_layers",
            json!(1_000_000),
            "not a number from 1 to",
        ),
        ("num_attention_heads", json!(5), "does not divide"),
        (
            "num_key_value_heads",
            json!(3),
            "does not divide 4 attention heads",
        ),
        ("head_dim", json!(15), "is 15, an odd number"),
        ("vocab_size", json!(-1), "not a number from 1 to"),
        ("rms_norm_eps", json!(0), "is 0, not a number above 0"),
        ("rope_theta", json!(-1.0), "not a number above 0"),
        ("hidden_act", json!("relu"), "is `relu`; supported are"),
        ("tie_word_embeddings", json!(1), "is 1, not true or false"),
        (
            "layer_types",
            json!(["full_attention"]),
            "has 1 entries for 2 layers",
        ),
        (
            "layer_types",
            json!(["full_attention", "linear"]),
            "names `linear`",
        ),
        ("rope_scaling", json!([]), "is not an object"),
    ] {
        let error = describe_error("llama", |config| {
            config.insert(key.into(), value);
        });
        assert!(error.starts_with("tiny.model: `"), "{error}");
        assert!(
            error.contains(&format!("`{key}` ")) || error.contains("num_key"),
            "{error}"
        );
        assert!(error.contains(expected), "`{error}` lacks `{expected}`");
    }
    let error = describe_error("llama", |config| {
        config.insert(
            "rope_scaling".into(),
            json!({"rope_type": "yarn", "factor": 4.0}),
        );
    });
    assert_eq!(
        error,
        "tiny.model: `rope_scaling.rope_type` is `yarn`; supported are default, linear and llama3"
    );
}
