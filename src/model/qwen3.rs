//! `qwen3`: the dense Qwen 3: q/k norms, and biases only where `attention_bias` says so.

use crate::load::{LoadError, ModelFiles};

use super::{config::ConfigReader, llama_like, qwen2, spec::DecoderSpec};

/// Describes a dense Qwen 3.
pub(super) fn describe(
    config: &ConfigReader<'_>,
    files: &ModelFiles,
) -> Result<DecoderSpec, LoadError> {
    let mut spec = llama_like::describe(config, files, llama_like::names())?;
    spec.qk_norm = true;
    spec.qkv_bias = config.flag("attention_bias")?;
    spec.output_bias = spec.qkv_bias;
    qwen2::set_windows(&mut spec, config)?;
    Ok(spec)
}
