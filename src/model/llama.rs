//! `llama`: Llama 2 and 3, SmolLM2 and the many others that share the architecture.

use crate::load::{LoadError, ModelFiles};

use super::{config::ConfigReader, llama_like, spec::DecoderSpec};

/// Describes a Llama.
pub(super) fn describe(
    config: &ConfigReader<'_>,
    files: &ModelFiles,
) -> Result<DecoderSpec, LoadError> {
    let mut spec = llama_like::describe(config, files, llama_like::names())?;
    spec.qkv_bias = config.flag("attention_bias")?;
    spec.output_bias = spec.qkv_bias;
    spec.mlp_bias = config.flag("mlp_bias")?;
    llama_like::set_windows(&mut spec, config, |_| false)?;
    Ok(spec)
}
