//! Folders in the Hugging Face layout.

use std::{collections::HashMap, fs, path::Path};

use safetensors::tensor::{Dtype, TensorView, serialize};
use serde_json::json;
use stemma::{
    load::{self, LoadError, TensorType},
    tokenizer::TokenizerSource,
};
use tempfile::TempDir;

/// A safetensors file's bytes with these tensors: name, type, shape, bytes.
fn tensors(list: &[(&str, Dtype, &[usize], &[u8])]) -> Vec<u8> {
    let views = list.iter().map(|(name, dtype, shape, bytes)| {
        (
            *name,
            TensorView::new(*dtype, shape.to_vec(), bytes).expect("a tensor"),
        )
    });
    serialize(views, None).expect("a file")
}

fn f32s(name: &str, values: &[f32]) -> Vec<u8> {
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    tensors(&[(name, Dtype::F32, &[values.len()], &bytes)])
}

/// A folder with the files every model has.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "config.json", br#"{"model_type":"llama"}"#);
    write(folder.path(), "tokenizer.json", b"{}");
    folder
}

fn write(folder: &Path, name: &str, bytes: &[u8]) {
    fs::write(folder.join(name), bytes).expect("a writable folder");
}

fn refused(folder: &Path, words: &[&str]) {
    let Err(LoadError(text)) = load::open(folder) else {
        panic!("opened, expected {words:?}")
    };
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}

#[test]
fn one_file_of_every_plain_type_is_read() {
    let folder = folder();
    let file = tensors(&[
        ("f32", Dtype::F32, &[2], &[0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0]),
        ("f16", Dtype::F16, &[2, 1], &[0, 0x3C, 0, 0xC0]),
        ("bf16", Dtype::BF16, &[1, 2], &[0x80, 0x3F, 0, 0xC0]),
        ("mask", Dtype::BOOL, &[1], &[1]),
    ]);
    write(folder.path(), "model.safetensors", &file);
    write(
        folder.path(),
        "generation_config.json",
        br#"{"temperature":0.6}"#,
    );
    let model = load::open(folder.path()).expect("a readable folder");
    assert_eq!(model.config["model_type"], "llama");
    assert_eq!(model.generation_config["temperature"], 0.6);
    assert_eq!(model.chat_template, None);
    let TokenizerSource::Json { tokenizer, config } = model.tokenizer else {
        panic!("not JSON")
    };
    assert_eq!(tokenizer, folder.path().join("tokenizer.json"));
    assert!(config.is_empty());
    for (name, encoding) in [
        ("f32", TensorType::F32),
        ("f16", TensorType::F16),
        ("bf16", TensorType::Bf16),
    ] {
        assert_eq!(model.tensors.info(name).expect(name).encoding, encoding);
        let mut out = [0.0; 2];
        model.tensors.read_f32(name, &mut out).expect(name);
        assert_eq!(out, [1.0, -2.0], "{name}");
    }
    assert!(model.tensors.info("mask").is_none());
}

#[test]
fn shards_are_read_by_their_index() {
    let folder = folder();
    write(
        folder.path(),
        "model-00001-of-00002.safetensors",
        &f32s("a", &[1.0]),
    );
    write(
        folder.path(),
        "model-00002-of-00002.safetensors",
        &f32s("b", &[2.0]),
    );
    let index = |a: &str, b: &str| {
        let index = json!({ "weight_map": { "a": a, "b": b } }).to_string();
        write(
            folder.path(),
            "model.safetensors.index.json",
            index.as_bytes(),
        );
    };
    let (first, second) = (
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    );
    index(first, second);
    let model = load::open(folder.path()).expect("a readable folder");
    let mut out = [0.0];
    model
        .tensors
        .read_f32("b", &mut out)
        .expect("the second shard");
    assert_eq!(out, [2.0]);

    index(first, first);
    refused(folder.path(), &[first, "tensor `b`"]);
    index(first, "model-00003-of-00002.safetensors");
    refused(folder.path(), &["model-00003-of-00002.safetensors"]);
    index(first, "../outside.safetensors");
    refused(folder.path(), &["index.json", "tensor `b`", "../outside"]);
    write(folder.path(), "model.safetensors.index.json", b"{}");
    refused(folder.path(), &["index.json", "weight_map"]);
}

#[test]
fn without_an_index_all_model_files_are_read() {
    let folder = folder();
    refused(folder.path(), &["model*.safetensors"]);
    write(folder.path(), "model-1.safetensors", &f32s("a", &[1.0]));
    write(folder.path(), "model-2.safetensors", &f32s("b", &[2.0]));
    write(folder.path(), "consolidated.safetensors", b"not read");
    let model = load::open(folder.path()).expect("a readable folder");
    assert_eq!(model.tensors.names(), ["a", "b"]);
    write(folder.path(), "model-2.safetensors", &f32s("a", &[2.0]));
    refused(
        folder.path(),
        &[
            "model-2.safetensors",
            "tensor `a`",
            "model-1.safetensors as well",
        ],
    );
}

#[test]
fn damaged_files_are_refused_by_name() {
    let folder = folder();
    let whole = f32s("norm", &[1.0; 64]);
    let file = |bytes: &[u8], words: &[&str]| {
        write(folder.path(), "model.safetensors", bytes);
        let words: Vec<_> = words.iter().copied().chain(["model.safetensors"]).collect();
        refused(folder.path(), &words);
    };
    file(&[], &["is empty"]);
    file(&whole[..5], &["cut short"]);
    file(&whole[..20], &["cut short"]);
    file(
        &whole[..whole.len() - 1],
        &["tensor `norm`", "past the end"],
    );
    let mut huge = whole.clone();
    huge[..8].copy_from_slice(&(1_u64 << 63).to_le_bytes());
    file(&huge, &["header of 9223372036854775808 bytes"]);
    let fp8 = tensors(&[("w", Dtype::F8_E4M3, &[4], &[0; 4])]);
    file(&fp8, &["tensor `w`", "F8_E4M3"]);
    let header = br#"{"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,16]}}"#;
    let mut overflow = (header.len() as u64).to_le_bytes().to_vec();
    overflow.extend(header);
    file(&overflow, &["does not describe its tensors"]);
}

#[test]
fn missing_and_broken_files_are_named() {
    let empty = tempfile::tempdir().expect("a temporary folder");
    refused(empty.path(), &["no config.json"]);
    write(empty.path(), "config.json", b"[]");
    refused(empty.path(), &["config.json", "JSON object"]);
    write(empty.path(), "config.json", b"{}");
    refused(empty.path(), &["no tokenizer.json"]);
    refused(
        &empty.path().join("nothing"),
        &["nothing: cannot be opened"],
    );
}

#[test]
fn chat_templates_are_found_wherever_they_lie() {
    let folder = folder();
    write(folder.path(), "model.safetensors", &f32s("a", &[1.0]));
    let found = || {
        load::open(folder.path())
            .expect("a readable folder")
            .chat_template
    };
    let named =
        json!([{ "name": "tool_use", "template": "T" }, { "name": "default", "template": "D" }]);
    let in_config: HashMap<&str, serde_json::Value> = HashMap::from([("chat_template", named)]);
    let in_config = serde_json::to_vec(&in_config).expect("JSON");
    write(folder.path(), "tokenizer_config.json", &in_config);
    assert_eq!(found().as_deref(), Some("D"));
    write(
        folder.path(),
        "tokenizer_config.json",
        br#"{"chat_template":"S"}"#,
    );
    assert_eq!(found().as_deref(), Some("S"));
    write(
        folder.path(),
        "chat_template.json",
        br#"{"chat_template":"J"}"#,
    );
    assert_eq!(found().as_deref(), Some("J"));
    write(folder.path(), "chat_template.jinja", b"F");
    assert_eq!(found().as_deref(), Some("F"));
    fs::remove_file(folder.path().join("chat_template.jinja")).expect("removed");
    write(
        folder.path(),
        "chat_template.json",
        br#"{"chat_template":[{"name":"x"}]}"#,
    );
    refused(folder.path(), &["chat_template", "default"]);
}
