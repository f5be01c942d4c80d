//! Export of a model to the Hugging Face layout, for mlx-lm to load.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result, bail};
use safetensors::{Dtype, tensor::TensorView};
use serde_json::{Value, json};
use stemma::{
    load::{ModelFiles, Tensors},
    tokenizer::{GgufVocabulary, TokenizerSource},
};

/// Token types of GGUF that are not plain text (`tokenizer.ggml.token_type`).
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

/// Writes the weights as 32-bit floats, with `config.json`, the tokenizer and the chat template.
pub(crate) fn export(files: &ModelFiles, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("config.json"), json!(files.config).to_string())?;
    weights(&*files.tensors, &folder.join("model.safetensors"))?;
    tokenizer(files, folder)
}

fn weights(tensors: &dyn Tensors, file: &Path) -> Result<()> {
    let mut weights = Vec::new();
    for name in tensors.names() {
        let info = tensors.info(name).context("a tensor has no description")?;
        let mut values = vec![0.0; info.elements()];
        tensors.read_f32(name, &mut values)?;
        let bytes: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
        weights.push((name, info.shape.clone(), bytes));
    }
    let views: Vec<(&str, TensorView<'_>)> = weights
        .iter()
        .map(|(name, shape, bytes)| {
            let view = TensorView::new(Dtype::F32, shape.clone(), bytes)?;
            Ok((*name, view))
        })
        .collect::<Result<_>>()?;
    safetensors::serialize_to_file(views, None, file)?;
    Ok(())
}

fn tokenizer(files: &ModelFiles, folder: &Path) -> Result<()> {
    match &files.tokenizer {
        TokenizerSource::Json { tokenizer, config } => {
            fs::copy(tokenizer, folder.join("tokenizer.json"))?;
            let config = json!(config).to_string();
            fs::write(folder.join("tokenizer_config.json"), config)?;
            if let Some(template) = &files.chat_template {
                fs::write(folder.join("chat_template.jinja"), template)?;
            }
        }
        TokenizerSource::Gguf(vocabulary) => {
            let token_text = |id: Option<u32>| vocabulary.tokens.get(id? as usize);
            let config = json!({
                "tokenizer_class": "PreTrainedTokenizerFast",
                "bos_token": token_text(vocabulary.bos),
                "eos_token": token_text(vocabulary.eos),
                "pad_token": token_text(vocabulary.padding),
                "clean_up_tokenization_spaces": false,
                "chat_template": files.chat_template,
            });
            fs::write(folder.join("tokenizer_config.json"), config.to_string())?;
            let text = byte_level(vocabulary)?.to_string();
            // Written last, because it marks a complete folder.
            fs::write(folder.join("tokenizer.json"), text)?;
        }
    }
    Ok(())
}

/// Returns the `tokenizer.json` of a byte-level BPE tokenizer from GGUF.
fn byte_level(vocabulary: &GgufVocabulary) -> Result<Value> {
    if vocabulary.model != "gpt2" {
        let model = &vocabulary.model;
        bail!("only byte-level BPE can be exported, not `{model}`: use --without-mlx-lm");
    }
    let bytes = |splits: bool| {
        json!({
            "type": "ByteLevel",
            "add_prefix_space": false,
            "trim_offsets": true,
            "use_regex": splits,
        })
    };
    let pre_tokenizer = match vocabulary.pre.as_deref() {
        Some("smollm") => {
            let digits = json!({ "type": "Digits", "individual_digits": true });
            json!({ "type": "Sequence", "pretokenizers": [digits, bytes(true)] })
        }
        Some("qwen2") => {
            let split = json!({
                "type": "Split",
                "pattern": { "Regex": QWEN2 },
                "behavior": "Isolated",
                "invert": false,
            });
            json!({ "type": "Sequence", "pretokenizers": [split, bytes(false)] })
        }
        pre => bail!("only the pre-tokenizers smollm and qwen2 can be exported, not {pre:?}"),
    };
    let tokens = || (0_u32..).zip(&vocabulary.tokens);
    let vocab: BTreeMap<&String, u32> = tokens().map(|(id, token)| (token, id)).collect();
    let added = tokens().zip(&vocabulary.token_types);
    let added = added.filter(|(_, kind)| [CONTROL, USER_DEFINED].contains(kind));
    let added: Vec<Value> = added
        .map(|((id, content), &kind)| {
            json!({
                "id": id,
                "content": content,
                "single_word": false,
                "lstrip": false,
                "rstrip": false,
                "normalized": false,
                "special": kind == CONTROL,
            })
        })
        .collect();
    Ok(json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": null,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": null,
        "decoder": bytes(true),
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "vocab": vocab,
            "merges": vocabulary.merges,
        },
    }))
}

/// The pre-tokenizer's pattern of Qwen2.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
