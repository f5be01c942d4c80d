//! `qwen2`: Qwen 2 and 2.5: biases on q, k and v.

use crate::load::{LoadError, ModelFiles};

use super::{
    config::{ConfigReader, Count},
    llama_like,
    spec::DecoderSpec,
};

/// Describes a Qwen 2.
pub(super) fn describe(
    config: &ConfigReader<'_>,
    files: &ModelFiles,
) -> Result<DecoderSpec, LoadError> {
    let mut spec = llama_like::describe(config, files, llama_like::names())?;
    spec.qkv_bias = true;
    set_windows(&mut spec, config)?;
    Ok(spec)
}

/// Qwen's files name a `sliding_window` that counts only if `use_sliding_window` says so, and then
/// from layer `max_window_layers` on.
pub(super) fn set_windows(
    spec: &mut DecoderSpec,
    config: &ConfigReader<'_>,
) -> Result<(), LoadError> {
    if !config.flag("use_sliding_window")? {
        return Ok(());
    }
    let first = config
        .optional_size("max_window_layers", Count::Layers)?
        .unwrap_or(0);
    llama_like::set_windows(spec, config, |index| index >= first)
}
