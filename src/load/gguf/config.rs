//! Metadata of a GGUF file → the keys of Hugging Face's `config.json`.

use serde_json::{Map, Value, json};

use super::{
    architecture::Architecture,
    metadata::{self, Metadata},
    rope,
    source::{Source, into_map},
};
use crate::load::LoadError;

impl Source<'_> {
    /// The equivalent of `config.json`.
    pub(super) fn config(&self) -> Result<Map<String, Value>, LoadError> {
        self.refuse_mixtures()?;
        let mut config = self.sizes()?;
        config.insert("model_type".into(), self.architecture.model_type().into());
        config.insert(
            "tie_word_embeddings".into(),
            self.tensor("output.weight").is_none().into(),
        );
        let attention_bias = self.tensor("blk.0.attn_q.bias").is_some();
        config.insert("attention_bias".into(), attention_bias.into());
        let activation = self.activation();
        config.insert(activation.0.into(), activation.1.into());
        let head_dim = self.head_dim()?;
        config.append(&mut rope::config(self, head_dim)?);
        if self.architecture == Architecture::Gemma3 {
            config.append(&mut self.gemma3(head_dim)?);
        }
        config.append(&mut self.token_ids()?);
        Ok(config)
    }

    fn sizes(&self) -> Result<Map<String, Value>, LoadError> {
        let heads = self.required("attention.head_count")?;
        let epsilon = self.float("attention.layer_norm_rms_epsilon")?;
        let epsilon = epsilon.ok_or_else(|| self.missing("attention.layer_norm_rms_epsilon"))?;
        let sizes = json!({
            "hidden_size": self.required("embedding_length")?,
            "num_hidden_layers": self.required("block_count")?,
            "num_attention_heads": heads,
            "num_key_value_heads": self.count("attention.head_count_kv")?.unwrap_or(heads),
            "head_dim": self.head_dim()?,
            "intermediate_size": self.required("feed_forward_length")?,
            "rms_norm_eps": epsilon,
            "max_position_embeddings": self.required("context_length")?,
            "vocab_size": self.vocabulary_size()?,
        });
        Ok(into_map(sizes))
    }

    /// Rows of the embedding, which can be more than there are tokens.
    pub(super) fn vocabulary_size(&self) -> Result<usize, LoadError> {
        let embedding = self.tensor("token_embd.weight");
        let embedding =
            embedding.ok_or_else(|| LoadError::tensor("token_embd.weight", "is missing"))?;
        Ok(embedding.info.shape[0])
    }

    pub(super) fn head_dim(&self) -> Result<usize, LoadError> {
        let heads = self.required("attention.head_count")?;
        let head_dim = match self.count("attention.key_length")? {
            Some(length) => length,
            None => share(self.required("embedding_length")?, heads)?,
        };
        let value_length = self.count("attention.value_length")?.unwrap_or(head_dim);
        if value_length != head_dim {
            let fault = format!(
                "has keys of {head_dim} and values of {value_length} elements per head; only equal \
                 lengths can be run"
            );
            return Err(fault.into());
        }
        Ok(head_dim)
    }

    fn activation(&self) -> (&'static str, &'static str) {
        match self.architecture {
            Architecture::Gemma3 => ("hidden_activation", "gelu_pytorch_tanh"),
            _ => ("hidden_act", "silu"),
        }
    }

    fn refuse_mixtures(&self) -> Result<(), LoadError> {
        match self.optional("expert_count")? {
            None | Some(0) => Ok(()),
            Some(experts) => Err(format!(
                "is a mixture of {experts} experts, which this server cannot run yet"
            )
            .into()),
        }
    }

    /// Returns the keys that only Gemma 3 has. Converters leave out values that are the same for
    /// all sizes. They are those of `Gemma3TextConfig` in `transformers` and of
    /// `llama_model_gemma3` in llama.cpp. One layer of six has full attention; the others have a
    /// RoPE base of 10,000.
    fn gemma3(&self, head_dim: usize) -> Result<Map<String, Value>, LoadError> {
        const PATTERN: usize = 6;
        const LOCAL_ROTARY_BASE: f64 = 10_000.0;
        const LAYERS_OF_27B: usize = 62;
        let layers = self.required("block_count")?;
        // All sizes scale queries by their head's width, but 27B by hidden_size / heads.
        let scalar = match layers {
            LAYERS_OF_27B => share(
                self.required("embedding_length")?,
                self.required("attention.head_count")?,
            )?,
            _ => head_dim,
        };
        let pattern = self
            .count("attention.sliding_window_pattern")?
            .unwrap_or(PATTERN);
        let local_base = self
            .float("rope.freq_base_swa")?
            .unwrap_or(LOCAL_ROTARY_BASE);
        Ok(into_map(json!({
            "sliding_window": self.required("attention.sliding_window")?,
            "sliding_window_pattern": pattern,
            "rope_local_base_freq": local_base,
            "query_pre_attn_scalar": scalar,
            "attn_logit_softcapping": self.float("attn_logit_softcapping")?,
            "final_logit_softcapping": self.float("final_logit_softcapping")?,
        })))
    }

    /// The ids that mark a text's beginning and its ends, all of them.
    fn token_ids(&self) -> Result<Map<String, Value>, LoadError> {
        let mut ends: Vec<u32> = Vec::new();
        for key in ["eos_token_id", "eot_token_id", "eom_token_id"] {
            let id = self.metadata.integer(&format!("tokenizer.ggml.{key}"))?;
            ends.extend(id.filter(|id| !ends.contains(id)));
        }
        let mut ids = Map::new();
        if let Some(bos) = self
            .metadata
            .integer::<u32>("tokenizer.ggml.bos_token_id")?
        {
            ids.insert("bos_token_id".into(), bos.into());
        }
        match ends[..] {
            [] => {}
            [only] => drop(ids.insert("eos_token_id".into(), only.into())),
            _ => drop(ids.insert("eos_token_id".into(), ends.into())),
        }
        Ok(ids)
    }
}

/// The part of a layer's width that falls to each head.
fn share(width: usize, heads: usize) -> Result<usize, LoadError> {
    match width.checked_div(heads) {
        Some(share) if share * heads == width && share > 0 => Ok(share),
        _ => Err(format!("has a width of {width}, which {heads} heads cannot share").into()),
    }
}

/// `general.sampling.*` → the keys of `generation_config.json`.
pub(super) fn generation_config(metadata: &Metadata) -> Result<Map<String, Value>, LoadError> {
    const KEYS: [(&str, &str); 5] = [
        ("temp", "temperature"),
        ("top_p", "top_p"),
        ("min_p", "min_p"),
        ("top_k", "top_k"),
        ("penalty_repeat", "repetition_penalty"),
    ];
    let mut config = Map::new();
    for (theirs, ours) in KEYS {
        let key = format!("general.sampling.{theirs}");
        match metadata.get(&key) {
            Some(metadata::Value::Integer(_)) => {
                config.insert(ours.into(), metadata.integer::<i64>(&key)?.into());
            }
            _ => {
                let value = metadata.float(&key)?;
                config.extend(value.map(|value| (ours.to_owned(), value.into())));
            }
        }
    }
    Ok(config)
}
