//! GGUF architectures that can be read, and their tensors' names in Hugging Face's layout.

use super::metadata::Metadata;
use crate::load::LoadError;

/// `general.architecture` of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Architecture {
    /// Llama, and models that were converted as Llama, Mistral included.
    Llama,
    Qwen2,
    Qwen3,
    Gemma3,
}

impl Architecture {
    const ALL: [Self; 4] = [Self::Llama, Self::Qwen2, Self::Qwen3, Self::Gemma3];

    pub(super) fn of(metadata: &Metadata) -> Result<Self, LoadError> {
        let name = metadata
            .text("general.architecture")?
            .ok_or("has no metadata `general.architecture`: it is not a model")?;
        Self::ALL
            .into_iter()
            .find(|known| known.name() == name)
            .ok_or_else(|| {
                let known = Self::ALL.map(Self::name).join(", ");
                format!("has architecture `{name}`; {known} can be read").into()
            })
    }

    /// Its name in GGUF, which is also the first part of its metadata keys.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::Gemma3 => "gemma3",
        }
    }

    /// Its name in `config.json`.
    pub(super) fn model_type(self) -> &'static str {
        match self {
            Self::Gemma3 => "gemma3_text",
            other => other.name(),
        }
    }

    /// Returns the Hugging Face name of a tensor; `None` if the architecture has no such tensor.
    pub(super) fn hugging_face_name(self, name: &str) -> Option<String> {
        match name {
            "token_embd.weight" => return Some("model.embed_tokens.weight".into()),
            "output_norm.weight" => return Some("model.norm.weight".into()),
            "output.weight" => return Some("lm_head.weight".into()),
            _ => {}
        }
        let (layer, rest) = name.strip_prefix("blk.")?.split_once('.')?;
        let layer: usize = layer.parse().ok()?;
        let (part, kind) = rest.rsplit_once('.')?;
        let part = self.layer_part(part)?;
        matches!(kind, "weight" | "bias").then(|| format!("model.layers.{layer}.{part}.{kind}"))
    }

    fn layer_part(self, part: &str) -> Option<&'static str> {
        let gemma = self == Self::Gemma3;
        Some(match part {
            "attn_norm" => "input_layernorm",
            "attn_q" => "self_attn.q_proj",
            "attn_k" => "self_attn.k_proj",
            "attn_v" => "self_attn.v_proj",
            "attn_output" => "self_attn.o_proj",
            "attn_q_norm" if self.has_query_key_norms() => "self_attn.q_norm",
            "attn_k_norm" if self.has_query_key_norms() => "self_attn.k_norm",
            "post_attention_norm" if gemma => "post_attention_layernorm",
            "ffn_norm" if gemma => "pre_feedforward_layernorm",
            "post_ffw_norm" if gemma => "post_feedforward_layernorm",
            "ffn_norm" => "post_attention_layernorm",
            "ffn_gate" => "mlp.gate_proj",
            "ffn_up" => "mlp.up_proj",
            "ffn_down" => "mlp.down_proj",
            _ => return None,
        })
    }

    fn has_query_key_norms(self) -> bool {
        matches!(self, Self::Qwen3 | Self::Gemma3)
    }

    /// True if the rows of q and k are in the order of interleaved rotary embeddings: the converter
    /// reorders them for this architecture only.
    pub(super) fn interleaves_rotary_rows(self) -> bool {
        self == Self::Llama
    }

    /// True if norm weights are stored with 1 added, as the converter does for Gemma.
    pub(super) fn adds_one_to_norms(self) -> bool {
        self == Self::Gemma3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_architecture() {
        let cases = [
            (
                Architecture::Llama,
                "token_embd.weight",
                Some("model.embed_tokens.weight"),
            ),
            (Architecture::Llama, "output.weight", Some("lm_head.weight")),
            (
                Architecture::Llama,
                "blk.12.ffn_norm.weight",
                Some("model.layers.12.post_attention_layernorm.weight"),
            ),
            (
                Architecture::Gemma3,
                "blk.12.ffn_norm.weight",
                Some("model.layers.12.pre_feedforward_layernorm.weight"),
            ),
            (
                Architecture::Qwen2,
                "blk.0.attn_q.bias",
                Some("model.layers.0.self_attn.q_proj.bias"),
            ),
            (Architecture::Qwen2, "blk.0.attn_q_norm.weight", None),
            (Architecture::Llama, "blk.0.ffn_gate_exps.weight", None),
            (Architecture::Llama, "blk.x.attn_q.weight", None),
            (Architecture::Llama, "blk.0.attn_q.scale", None),
        ];
        for (architecture, name, expected) in cases {
            assert_eq!(
                architecture.hugging_face_name(name).as_deref(),
                expected,
                "{name}"
            );
        }
    }
}
