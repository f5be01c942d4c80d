//! `mistral`: Llama's shape with a sliding window over all layers, where `sliding_window` is set.

use crate::load::{LoadError, ModelFiles};

use super::{config::ConfigReader, dense, spec::DecoderSpec};

/// Describes a Mistral.
pub(super) fn describe(
    config: &ConfigReader<'_>,
    files: &ModelFiles,
) -> Result<DecoderSpec, LoadError> {
    let mut spec = dense::describe(config, files, dense::names())?;
    dense::set_windows(&mut spec, config, |_| true)?;
    Ok(spec)
}
