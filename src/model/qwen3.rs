//! `qwen3`: the dense Qwen 3: q/k norms, and biases only where `attention_bias` says so.

use crate::load::{LoadError, ModelFiles};

use super::{config::ConfigReader, dense, qwen2, spec::DecoderSpec};

/// Describes a dense Qwen 3.
pub(super) fn describe(
    config: &ConfigReader<'_>,
    files: &ModelFiles,
) -> Result<DecoderSpec, LoadError> {
    let mut spec = dense::describe(config, files, dense::names())?;
    spec.qk_norm = true;
    spec.qkv_bias = config.flag("attention_bias")?;
    spec.output_bias = spec.qkv_bias;
    qwen2::set_windows(&mut spec, config)?;
    Ok(spec)
}
