//! Folders in the Hugging Face or MLX layout.

use std::path::Path;

use serde_json::{Map, Value};

use super::{
    LoadError, ModelFiles, json,
    mlx::{self, MlxPacking},
    safetensors::SafeTensors,
};
use crate::tokenizer::TokenizerSource;

/// Opens a folder with `config.json`, `tokenizer.json` and safetensors files.
pub(super) fn open(folder: &Path) -> Result<ModelFiles, LoadError> {
    let config = json::read_object(&folder.join("config.json"))?
        .ok_or_else(|| LoadError::from("has no config.json").in_file(folder))?;
    let tokenizer = folder.join("tokenizer.json");
    if !tokenizer.is_file() {
        return Err(LoadError::from("has no tokenizer.json").in_file(folder));
    }
    let tokenizer_config = object_or_empty(folder, "tokenizer_config.json")?;
    let chat_template = chat_template(folder, &tokenizer_config)?;
    let packing =
        MlxPacking::of(&config).map_err(|fault| fault.in_file(&folder.join("config.json")))?;
    let tensors = mlx::unpacked(packing.as_ref(), Box::new(SafeTensors::open(folder)?))?;
    Ok(ModelFiles {
        path: folder.to_owned(),
        generation_config: object_or_empty(folder, "generation_config.json")?,
        tokenizer: TokenizerSource::Json {
            tokenizer,
            config: tokenizer_config,
        },
        chat_template,
        tensors,
        config,
    })
}

fn object_or_empty(folder: &Path, name: &str) -> Result<Map<String, Value>, LoadError> {
    Ok(json::read_object(&folder.join(name))?.unwrap_or_default())
}

/// The chat template, looked for in the order `transformers` does: `chat_template.jinja`, the older
/// `chat_template.json`, then `tokenizer_config.json`.
fn chat_template(
    folder: &Path,
    tokenizer_config: &Map<String, Value>,
) -> Result<Option<String>, LoadError> {
    if let Some(template) = json::read_text(&folder.join("chat_template.jinja"))? {
        return Ok(Some(template));
    }
    let file = object_or_empty(folder, "chat_template.json")?;
    let stored = file
        .get("chat_template")
        .or_else(|| tokenizer_config.get("chat_template"));
    match stored {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(template)) => Ok(Some(template.clone())),
        Some(named) => default_template(named).map(Some).ok_or_else(|| {
            let fault = "has a `chat_template` that is neither a text nor a list with `default`";
            LoadError::from(fault).in_file(folder)
        }),
    }
}

/// The template called `default` in a list of `{name, template}` or in an object by name.
fn default_template(named: &Value) -> Option<String> {
    let template = match named {
        Value::Array(list) => list
            .iter()
            .find(|one| one["name"] == "default")?
            .get("template"),
        Value::Object(by_name) => by_name.get("default"),
        _ => None,
    };
    template?.as_str().map(str::to_owned)
}
