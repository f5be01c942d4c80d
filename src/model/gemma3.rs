//! `gemma3_text` and `gemma3`: Gemma 3, text only. Norms after attention and feed-forward too,
//! q/k norms, `1 + w` norms, scaled embeddings, and a sliding window on five layers of six.

use half::bf16;
use serde_json::{Map, Value, json};

use crate::load::{LoadError, ModelFiles};

use super::{
    config::{ConfigReader, Count},
    llama_like, rope_config,
    spec::{Activation, DecoderSpec, PostNorms, Rope, RopeScaling, WeightNames},
};

/// Returns the reference implementation's defaults for keys that a file leaves out.
fn defaults() -> Value {
    json!({
        "vocab_size": 262_208,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh",
        "max_position_embeddings": 131_072,
        "query_pre_attn_scalar": 256,
        "sliding_window": 4096,
        "sliding_window_pattern": 6,
        "rope_theta": 1_000_000.0,
        "rope_local_base_freq": 10_000.0,
    })
}

/// Tensor name prefixes of the decoder in multimodal layouts, newest last.
const MULTIMODAL_PREFIXES: [(&str, &str); 2] = [
    ("language_model.model.", "language_model.lm_head"),
    ("model.language_model.", "lm_head"),
];

/// Describes a text-only Gemma 3.
pub(super) fn describe_text(
    config: &ConfigReader<'_>,
    files: &ModelFiles,
) -> Result<DecoderSpec, LoadError> {
    describe_decoder(config, files, names("model.", "lm_head"))
}

/// Describes the decoder of a multimodal Gemma 3.
pub(super) fn describe(
    config: &ConfigReader<'_>,
    files: &ModelFiles,
) -> Result<DecoderSpec, LoadError> {
    let has_embeddings = |prefix: &str| {
        files
            .tensors
            .info(&format!("{prefix}embed_tokens.weight"))
            .is_some()
    };
    let (decoder, head) = MULTIMODAL_PREFIXES
        .into_iter()
        .find(|(prefix, _)| has_embeddings(prefix))
        .unwrap_or(MULTIMODAL_PREFIXES[0]);
    let text = config.section("text_config")?;
    let mut spec = describe_decoder(&text, files, names(decoder, head))?;
    spec.model_type = config.text("model_type")?.into();
    Ok(spec)
}

fn names(decoder: &str, head: &str) -> WeightNames {
    WeightNames {
        decoder: decoder.into(),
        head: head.into(),
        feed_forward_norm: "pre_feedforward_layernorm",
        post_norms: Some(PostNorms {
            attention: "post_attention_layernorm",
            feed_forward: "post_feedforward_layernorm",
        }),
    }
}

fn describe_decoder(
    given: &ConfigReader<'_>,
    files: &ModelFiles,
    names: WeightNames,
) -> Result<DecoderSpec, LoadError> {
    let keys: Map<String, Value> = given.over(defaults());
    let config = &given.with_keys(&keys);
    let mut spec = llama_like::describe(config, files, names)?;
    spec.norm.unit_offset = true;
    spec.qk_norm = true;
    spec.activation =
        llama_like::activation(config, "hidden_activation")?.unwrap_or(Activation::GeluTanh);
    // The reference multiplies by a bf16 number whatever the type of the embeddings.
    spec.embedding_scale = bf16::from_f32((spec.hidden_size as f32).sqrt()).to_f32();
    spec.attention_scale = config.positive("query_pre_attn_scalar")?.sqrt().recip();
    spec.attention_soft_cap = config.optional_positive("attn_logit_softcapping")?;
    spec.logit_soft_cap = config.optional_positive("final_logit_softcapping")?;
    set_layers(&mut spec, config)?;
    Ok(spec)
}

/// Gives sliding layers their window and their own rotary embedding.
fn set_layers(spec: &mut DecoderSpec, config: &ConfigReader<'_>) -> Result<(), LoadError> {
    let pattern = config.size("sliding_window_pattern", Count::Layers)?;
    llama_like::set_windows(spec, config, |index| !(index + 1).is_multiple_of(pattern))?;
    let (global, local) = ropes(config)?;
    for layer in &mut spec.layers {
        layer.rope = if layer.window.is_some() {
            local.clone()
        } else {
            global.clone()
        };
    }
    Ok(())
}

/// Returns the RoPE parameters of full attention layers, and of sliding window layers.
fn ropes(config: &ConfigReader<'_>) -> Result<(Rope, Rope), LoadError> {
    if let Some(parameters) = config.optional_section("rope_parameters")? {
        let global = parameters.section("full_attention")?;
        let local = parameters.section("sliding_attention")?;
        return Ok((
            Rope {
                theta: global.positive("rope_theta")?,
                scaling: rope_config::read_scaling(&global)?,
            },
            Rope {
                theta: local.positive("rope_theta")?,
                scaling: rope_config::read_scaling(&local)?,
            },
        ));
    }
    let scaling = match config.optional_section("rope_scaling")? {
        Some(section) => rope_config::read_scaling(&section)?,
        None => RopeScaling::None,
    };
    let global = Rope {
        theta: config.positive("rope_theta")?,
        scaling,
    };
    let local = Rope {
        theta: config.positive("rope_local_base_freq")?,
        scaling: RopeScaling::None,
    };
    Ok((global, local))
}
