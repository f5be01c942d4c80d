//! The `tokenizer.ggml.*` metadata of a GGUF file, checked for agreement.

use super::metadata::{Metadata, Value};
use crate::{load::LoadError, tokenizer::GgufVocabulary};

/// Reads the vocabulary of a model whose embedding has `rows` rows.
pub(super) fn read(metadata: &Metadata, rows: usize) -> Result<GgufVocabulary, LoadError> {
    let reader = Reader(metadata);
    let tokens = reader.list("tokens", text)?;
    if tokens.is_empty() {
        return Err("has no metadata `tokenizer.ggml.tokens`".into());
    }
    if tokens.len() > rows {
        let count = tokens.len();
        let fault = format!("has only {rows} rows for the {count} tokens of the file");
        return Err(LoadError::tensor("token_embd.weight", fault));
    }
    let model = metadata.text("tokenizer.ggml.model")?;
    let vocabulary = GgufVocabulary {
        model: model.ok_or("has no metadata `tokenizer.ggml.model`")?,
        pre: metadata.text("tokenizer.ggml.pre")?,
        scores: reader.list_per_token("scores", tokens.len(), float)?,
        token_types: reader.list_per_token("token_type", tokens.len(), integer)?,
        merges: reader.list("merges", text)?,
        bos: reader.id("bos", tokens.len())?,
        eos: reader.id("eos", tokens.len())?,
        eot: reader.id("eot", tokens.len())?,
        unknown: reader.id("unknown", tokens.len())?,
        padding: reader.id("padding", tokens.len())?,
        add_bos: metadata.bool("tokenizer.ggml.add_bos_token")?,
        add_space_prefix: metadata.bool("tokenizer.ggml.add_space_prefix")?,
        tokens,
    };
    Ok(vocabulary)
}

struct Reader<'a>(&'a Metadata);

impl Reader<'_> {
    /// An array; empty where the key is missing.
    fn list<T>(
        &self,
        key: &str,
        convert: impl Fn(&Value) -> Option<T>,
    ) -> Result<Vec<T>, LoadError> {
        let list = self.0.list(&format!("tokenizer.ggml.{key}"), convert)?;
        Ok(list.unwrap_or_default())
    }

    /// An array with one element for each token; empty where the key is missing.
    fn list_per_token<T>(
        &self,
        key: &str,
        tokens: usize,
        convert: impl Fn(&Value) -> Option<T>,
    ) -> Result<Vec<T>, LoadError> {
        let list = self.list(key, convert)?;
        if !list.is_empty() && list.len() != tokens {
            let fault = format!(
                "metadata `tokenizer.ggml.{key}` has {} elements for {tokens} tokens",
                list.len()
            );
            return Err(fault.into());
        }
        Ok(list)
    }

    fn id(&self, name: &str, tokens: usize) -> Result<Option<u32>, LoadError> {
        let key = format!("tokenizer.ggml.{name}_token_id");
        let id = self.0.integer::<u32>(&key)?;
        match id {
            Some(id) if id as usize >= tokens => {
                Err(format!("metadata `{key}` is {id}, but there are {tokens} tokens").into())
            }
            other => Ok(other),
        }
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    }
}

fn float(value: &Value) -> Option<f32> {
    match value {
        Value::Float(number) => Some(*number as f32),
        _ => None,
    }
}

fn integer(value: &Value) -> Option<i32> {
    match value {
        Value::Integer(number) => i32::try_from(*number).ok(),
        _ => None,
    }
}
