//! `mistral`: Llama's shape with a sliding window over all layers, where `sliding_window` is set.

use crate::load::{LoadError, ModelFiles};

use super::{config::ConfigReader, llama_like, spec::DecoderSpec};

/// Describes a Mistral.
pub(super) fn describe(
    config: &ConfigReader<'_>,
    files: &ModelFiles,
) -> Result<DecoderSpec, LoadError> {
    let mut spec = llama_like::describe(config, files, llama_like::names())?;
    llama_like::set_windows(&mut spec, config, |_| true)?;
    Ok(spec)
}
