//! Shared parts of dense decoders: Llama's architecture, from which the others differ in a few
//! fields.

use crate::load::{LoadError, ModelFiles};

use super::{
    config::{ConfigReader, Count},
    rope_config,
    spec::{Activation, DecoderSpec, LayerSpec, NormSpec, WeightNames},
};

/// Describes a decoder of Llama's shape: no biases, no q/k norms, full attention.
///
/// # Errors
/// See [`super::describe`].
pub(super) fn describe(
    config: &ConfigReader<'_>,
    files: &ModelFiles,
    names: WeightNames,
) -> Result<DecoderSpec, LoadError> {
    let hidden_size = config.size("hidden_size", Count::Width)?;
    let heads = Heads::read(config, hidden_size)?;
    let layer_count = config.size("num_hidden_layers", Count::Layers)?;
    let layer = LayerSpec {
        window: None,
        rope: rope_config::read(config)?,
    };
    Ok(DecoderSpec {
        model_type: config.text("model_type")?.into(),
        vocab_size: config.size("vocab_size", Count::Vocabulary)?,
        hidden_size,
        intermediate_size: config.size("intermediate_size", Count::Width)?,
        head_count: heads.count,
        kv_head_count: heads.kv_count,
        head_dim: heads.dim,
        layers: vec![layer; layer_count],
        norm: NormSpec {
            eps: config.optional_positive("rms_norm_eps")?.unwrap_or(1e-6),
            unit_offset: false,
        },
        tied_embeddings: tied_embeddings(config, files, &names)?,
        names,
        qkv_bias: false,
        output_bias: false,
        mlp_bias: false,
        qk_norm: false,
        activation: activation(config, "hidden_act")?.unwrap_or(Activation::Silu),
        embedding_scale: 1.0,
        attention_scale: (heads.dim as f32).sqrt().recip(),
        attention_soft_cap: None,
        logit_soft_cap: None,
        context_length: config.size("max_position_embeddings", Count::Positions)?,
    })
}

/// Returns Llama's tensor names.
pub(super) fn names() -> WeightNames {
    WeightNames {
        decoder: "model.".into(),
        head: "lm_head".into(),
        feed_forward_norm: "post_attention_layernorm",
        post_norms: None,
    }
}

/// The heads of attention.
struct Heads {
    count: usize,
    kv_count: usize,
    dim: usize,
}

impl Heads {
    fn read(config: &ConfigReader<'_>, hidden_size: usize) -> Result<Self, LoadError> {
        let count = config.size("num_attention_heads", Count::Width)?;
        let kv_count = config
            .optional_size("num_key_value_heads", Count::Width)?
            .unwrap_or(count);
        if !count.is_multiple_of(kv_count) {
            return Err(config.error(
                "num_key_value_heads",
                format_args!("is {kv_count}, which does not divide {count} attention heads"),
            ));
        }
        let dim = match config.optional_size("head_dim", Count::Width)? {
            Some(dim) => dim,
            None if hidden_size.is_multiple_of(count) => hidden_size / count,
            None => {
                return Err(config.error(
                    "num_attention_heads",
                    format_args!("is {count}, which does not divide a width of {hidden_size}"),
                ));
            }
        };
        if !dim.is_multiple_of(2) {
            return Err(config.error("head_dim", format_args!("is {dim}, an odd number")));
        }
        Ok(Self {
            count,
            kv_count,
            dim,
        })
    }
}

/// Checks if the output projection is the embedding matrix. The configuration says so, or else the
/// files hold no other matrix.
fn tied_embeddings(
    config: &ConfigReader<'_>,
    files: &ModelFiles,
    names: &WeightNames,
) -> Result<bool, LoadError> {
    let named = config.optional_flag("tie_word_embeddings")?;
    let head = format!("{}.weight", names.head);
    Ok(named.unwrap_or_else(|| files.tensors.info(&head).is_none()))
}

/// The non-linearity that a key names, or `None` where there is no such key.
pub(super) fn activation(
    config: &ConfigReader<'_>,
    key: &str,
) -> Result<Option<Activation>, LoadError> {
    match config.optional_text(key)? {
        None => Ok(None),
        Some("silu" | "swish") => Ok(Some(Activation::Silu)),
        Some("gelu_pytorch_tanh" | "gelu_new") => Ok(Some(Activation::GeluTanh)),
        Some(other) => Err(config.error(
            key,
            format_args!("is `{other}`; supported are silu and gelu_pytorch_tanh"),
        )),
    }
}

/// Returns the layers with a sliding window, by `layer_types`, or by `by_index` if that list is
/// missing.
pub(super) fn sliding_layers(
    config: &ConfigReader<'_>,
    layer_count: usize,
    by_index: impl Fn(usize) -> bool,
) -> Result<Vec<bool>, LoadError> {
    let Some(types) = config.optional_texts("layer_types")? else {
        return Ok((0..layer_count).map(by_index).collect());
    };
    if types.len() != layer_count {
        let what = format_args!("has {} entries for {layer_count} layers", types.len());
        return Err(config.error("layer_types", what));
    }
    let is_sliding = |kind| match kind {
        "sliding_attention" => Ok(true),
        "full_attention" => Ok(false),
        other => Err(config.error(
            "layer_types",
            format_args!("names `{other}`; supported are full_attention and sliding_attention"),
        )),
    };
    types.into_iter().map(is_sliding).collect()
}

/// Gives the layers that slide the window of the key `sliding_window`.
pub(super) fn set_windows(
    spec: &mut DecoderSpec,
    config: &ConfigReader<'_>,
    by_index: impl Fn(usize) -> bool,
) -> Result<(), LoadError> {
    let sliding = sliding_layers(config, spec.layers.len(), by_index)?;
    let window = config.optional_size("sliding_window", Count::Positions)?;
    for (layer, sliding) in spec.layers.iter_mut().zip(sliding) {
        layer.window = window.filter(|_| sliding);
    }
    Ok(())
}
