//! GGUF files: what of them is presented how, and what is refused with which sentence.

use serde_json::json;
use stemma::{
    load::{self, LoadError, ModelFiles, TensorType},
    tokenizer::TokenizerSource,
};

use super::gguf_writer::{GgufFile, HIDDEN, Metadata, VOCABULARY};

fn open(file: &GgufFile) -> Result<ModelFiles, LoadError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    load::open(&file.write(folder.path()))
}

/// Opens a file that must be refused and checks that the reason has these words and the file.
fn refused(file: &GgufFile, words: &[&str]) {
    let Err(LoadError(text)) = open(file) else {
        panic!("opened, expected {words:?}")
    };
    assert!(text.contains("small.gguf: "), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}

#[test]
fn metadata_becomes_config_json() {
    let mut file = GgufFile::small("llama");
    file.set("llama.rope.freq_base", Metadata::F32(100_000.0));
    file.set("tokenizer.ggml.eot_token_id", Metadata::U32(2));
    file.set("tokenizer.ggml.bos_token_id", Metadata::U32(0));
    file.set(
        "tokenizer.chat_template",
        Metadata::Text("{{ messages }}".to_owned()),
    );
    file.set("general.sampling.temp", Metadata::F32(0.7));
    file.set("general.sampling.top_k", Metadata::U32(40));
    let model = open(&file).expect("a readable file");
    let expected = json!({
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": HIDDEN / 4,
        "intermediate_size": 64,
        "rms_norm_eps": 1e-5,
        "rope_theta": 100_000.0,
        "max_position_embeddings": 64,
        "vocab_size": VOCABULARY,
        "tie_word_embeddings": true,
        "attention_bias": false,
        "hidden_act": "silu",
        "bos_token_id": 0,
        "eos_token_id": [3, 2],
    });
    let config: serde_json::Value = model.config.into();
    assert_eq!(config, expected);
    let generation: serde_json::Value = model.generation_config.into();
    assert_eq!(generation, json!({ "temperature": 0.7, "top_k": 40 }));
    assert_eq!(model.chat_template.as_deref(), Some("{{ messages }}"));
}

#[test]
fn rotary_scalings_are_found_in_metadata_and_factors() {
    let scaling = |change: &dyn Fn(&mut GgufFile)| {
        let mut file = GgufFile::small("llama");
        change(&mut file);
        let config = open(&file).expect("a readable file").config;
        config.get("rope_scaling").cloned().unwrap_or_default()
    };
    let text = |text: &str| Metadata::Text(text.to_owned());
    assert_eq!(
        scaling(&|file| file.set("llama.rope.scaling.type", text("none"))),
        json!(null)
    );
    let yarn = scaling(&|file| {
        file.set("llama.rope.scaling.type", text("yarn"));
        file.set("llama.rope.scaling.factor", Metadata::F32(4.0));
        file.set(
            "llama.rope.scaling.original_context_length",
            Metadata::U32(32),
        );
    });
    let expected = json!({
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32
    });
    assert_eq!(yarn, expected);
    let old = scaling(&|file| file.set("llama.rope.scale_linear", Metadata::F32(2.0)));
    assert_eq!(old, json!({ "rope_type": "linear", "factor": 2.0 }));
    // A base so low that every frequency is kept, with all divisors 1.
    let llama3 = scaling(&|file| {
        file.set("llama.rope.freq_base", Metadata::F32(10.0));
        file.add_f32("rope_freqs.weight", &[HIDDEN / 4 / 2]);
        file.tensor("rope_freqs.weight").data = [1.0_f32; 4].map(f32::to_le_bytes).concat();
    });
    assert_eq!(llama3["rope_type"], "llama3");
    let mut file = GgufFile::small("llama");
    file.add_f32("rope_freqs.weight", &[HIDDEN / 4 / 2]);
    refused(
        &file,
        &["tensor `rope_freqs.weight`", "not those of Llama 3"],
    );
}

#[test]
fn gemma_3_gets_what_converters_leave_out() {
    let mut file = GgufFile::small("gemma3");
    file.set("gemma3.attention.sliding_window", Metadata::U32(512));
    file.set("gemma3.attention.key_length", Metadata::U32(16));
    file.set("gemma3.attention.value_length", Metadata::U32(16));
    file.set("gemma3.rope.freq_base", Metadata::F32(1e6));
    let config: serde_json::Value = open(&file).expect("a readable file").config.into();
    for (key, value) in [
        ("model_type", json!("gemma3_text")),
        ("hidden_activation", json!("gelu_pytorch_tanh")),
        ("sliding_window", json!(512)),
        ("sliding_window_pattern", json!(6)),
        ("rope_theta", json!(1e6)),
        ("rope_local_base_freq", json!(1e4)),
        ("head_dim", json!(16)),
        ("query_pre_attn_scalar", json!(16)),
    ] {
        assert_eq!(config[key], value, "{key}");
    }
    assert!(config.get("final_logit_softcapping").is_none());
}

#[test]
fn gemma_norms_lose_the_one_that_converters_add() {
    let gemma = GgufFile::small("gemma3");
    let mut gemma = gemma;
    gemma.set("gemma3.attention.sliding_window", Metadata::U32(512));
    for (file, expected) in [(gemma, 6.0), (GgufFile::small("llama"), 7.0)] {
        let tensors = open(&file).expect("a readable file").tensors;
        let name = "model.layers.0.input_layernorm.weight";
        let mut out = vec![0.0; HIDDEN];
        tensors.read_f32(name, &mut out).expect("a norm");
        assert_eq!(out[7], expected);
        assert_eq!(
            tensors.bytes(name).expect("a norm")[28..32],
            f32::to_le_bytes(expected)
        );
    }
}

#[test]
fn the_vocabulary_is_handed_over() {
    let mut file = GgufFile::small("qwen2");
    file.set("tokenizer.ggml.pre", Metadata::Text("qwen2".to_owned()));
    file.set(
        "tokenizer.ggml.merges",
        Metadata::Texts(vec!["a b".to_owned()]),
    );
    file.set("tokenizer.ggml.add_bos_token", Metadata::Bool(false));
    let model = open(&file).expect("a readable file");
    let TokenizerSource::Gguf(vocabulary) = model.tokenizer else {
        panic!("not from metadata")
    };
    assert_eq!(vocabulary.model, "gpt2");
    assert_eq!(vocabulary.pre.as_deref(), Some("qwen2"));
    assert_eq!(vocabulary.tokens, ["a", "b", "ab", "<e>"]);
    assert_eq!(vocabulary.token_types, [1, 1, 1, 3]);
    assert_eq!(vocabulary.merges, ["a b"]);
    assert_eq!(vocabulary.eos, Some(3));
    assert_eq!(vocabulary.add_bos, Some(false));
    assert_eq!(vocabulary.add_space_prefix, None);
}

#[test]
fn both_versions_and_other_alignments_open() {
    for (version, alignment) in [(2, 32), (3, 32), (3, 64), (3, 8)] {
        let mut file = GgufFile::small("llama");
        file.version = version;
        file.alignment = alignment;
        file.set("general.alignment", Metadata::U32(alignment as u32));
        let tensors = open(&file).expect("a readable file").tensors;
        let info = tensors.info("model.norm.weight").expect("a norm");
        assert_eq!(
            (info.shape.as_slice(), info.encoding),
            (&[HIDDEN][..], TensorType::F32)
        );
        let mut out = vec![0.0; HIDDEN];
        tensors
            .read_f32("model.norm.weight", &mut out)
            .expect("a norm");
        assert_eq!(out[31], 31.0);
    }
}

#[test]
fn an_output_projection_unties_the_embedding() {
    let mut file = GgufFile::small("llama");
    file.add_f32("output.weight", &[HIDDEN, VOCABULARY]);
    let model = open(&file).expect("a readable file");
    assert_eq!(model.config["tie_word_embeddings"], false);
    assert!(model.tensors.info("lm_head.weight").is_some());
}

#[test]
fn reading_a_tensor_wrongly_is_an_error_that_names_it() {
    let tensors = open(&GgufFile::small("llama"))
        .expect("a readable file")
        .tensors;
    let LoadError(text) = tensors
        .read_f32("model.norm.weight", &mut [0.0; 3])
        .unwrap_err();
    assert!(
        text.contains("small.gguf: tensor `model.norm.weight`"),
        "{text}"
    );
    let LoadError(text) = tensors.bytes("lm_head.weight").unwrap_err();
    assert!(
        text.contains("small.gguf: tensor `lm_head.weight` is missing"),
        "{text}"
    );
}

#[test]
fn other_files_are_refused() {
    let mut file = GgufFile::small("llama");
    file.version = 1;
    refused(&file, &["GGUF version 1"]);
    file.version = 3_u32.swap_bytes();
    refused(&file, &["big-endian"]);
    refused(
        &GgufFile::small("mamba"),
        &["architecture `mamba`", "qwen3"],
    );
    let mut file = GgufFile::small("llama");
    file.set("llama.expert_count", Metadata::U32(8));
    refused(&file, &["mixture of 8 experts"]);
    let mut file = GgufFile::small("llama");
    file.set("split.count", Metadata::U32(3));
    refused(&file, &["one of 3 parts"]);
    let mut file = GgufFile::small("llama");
    file.set("general.type", Metadata::Text("adapter".to_owned()));
    refused(&file, &["`adapter`"]);
    let mut file = GgufFile::small("llama");
    file.add_f32("blk.0.ffn_gate_exps.weight", &[HIDDEN]);
    refused(&file, &["tensor `blk.0.ffn_gate_exps.weight` has no place"]);
}

#[test]
fn impossible_tensors_are_refused() {
    let name = "output_norm.weight";
    let with = |change: &dyn Fn(&mut super::gguf_writer::Tensor)| {
        let mut file = GgufFile::small("llama");
        change(file.tensor(name));
        file
    };
    let named = "tensor `output_norm.weight`";
    refused(
        &with(&|t| t.dimensions = vec![1 << 63]),
        &[named, "impossible shape"],
    );
    refused(
        &with(&|t| t.dimensions = vec![1 << 61]),
        &[named, "past the end"],
    );
    refused(
        &with(&|t| t.dimensions = vec![1 << 32, 1 << 32]),
        &[named, "impossible shape"],
    );
    refused(
        &with(&|t| t.dimensions = vec![0]),
        &[named, "impossible shape"],
    );
    refused(
        &with(&|t| t.dimensions = vec![1; 5]),
        &[named, "5 dimensions"],
    );
    refused(
        &with(&|t| t.dimensions = vec![1 << 20]),
        &[named, "past the end"],
    );
    refused(&with(&|t| t.kind = 23), &[named, "IQ4_XS"]);
    refused(&with(&|t| t.kind = 999), &[named, "type 999"]);
    refused(&with(&|t| t.kind = 12), &[named, "blocks of 256"]);
    refused(&with(&|t| t.offset = Some(1)), &[named, "alignment"]);
    refused(&with(&|t| t.offset = Some(!31)), &[named, "past the end"]);
    refused(&with(&|t| t.offset = Some(0)), &["overlaps"]);
    refused(
        &with(&|t| t.name = "token_embd.weight".to_owned()),
        &["appears twice"],
    );
}

#[test]
fn impossible_metadata_is_refused() {
    let cases = [
        ("general.alignment", Metadata::U32(0), "is 0, not a power"),
        ("general.alignment", Metadata::U32(33), "is 33, not a power"),
        ("llama.block_count", Metadata::U32(0), "is 0"),
        (
            "llama.block_count",
            Metadata::Bool(true),
            "not a whole number",
        ),
        (
            "llama.embedding_length",
            Metadata::U32(3),
            "4 heads cannot share",
        ),
        (
            "llama.attention.layer_norm_rms_epsilon",
            Metadata::F32(f32::NAN),
            "finite",
        ),
        (
            "llama.attention.value_length",
            Metadata::U32(9),
            "values of 9",
        ),
        (
            "llama.attention.head_count",
            Metadata::I32s(vec![4, 2]),
            "differs between layers",
        ),
        ("llama.rope.dimension_count", Metadata::U32(4), "rotates 4"),
        (
            "tokenizer.ggml.tokens",
            Metadata::Texts(vec!["t".into(); VOCABULARY + 1]),
            "5 tokens",
        ),
        (
            "tokenizer.ggml.token_type",
            Metadata::I32s(vec![1; 3]),
            "3 elements for 4 tokens",
        ),
        (
            "tokenizer.ggml.eos_token_id",
            Metadata::U32(4),
            "eos_token_id` is 4",
        ),
    ];
    for (key, value, words) in cases {
        let mut file = GgufFile::small("llama");
        file.set(key, value);
        refused(&file, &[words]);
    }
}

#[test]
fn missing_and_repeated_parts_are_refused() {
    for key in [
        "llama.context_length",
        "tokenizer.ggml.tokens",
        "general.architecture",
    ] {
        let mut file = GgufFile::small("llama");
        file.remove(key);
        refused(&file, &[key]);
    }
    let mut file = GgufFile::small("llama");
    file.tensors.remove(0);
    refused(&file, &["token_embd.weight", "missing"]);
    let mut file = GgufFile::small("llama");
    file.metadata.push(file.metadata[0].clone());
    refused(&file, &["general.architecture", "twice"]);
}
