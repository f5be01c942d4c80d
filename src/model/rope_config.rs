//! `rope_theta`, `rope_scaling` and `rope_parameters` of `config.json` → [`Rope`].

use crate::load::LoadError;

use super::{
    config::{ConfigReader, Count},
    spec::{Rope, RopeScaling},
};

/// The base where a configuration names none, as in the reference implementations.
const THETA_DEFAULT: f32 = 10_000.0;

/// The rotary embedding that all layers share. Newer configurations keep its keys in
/// `rope_parameters`, older ones the base at the top and the rest in `rope_scaling`.
pub(super) fn read(config: &ConfigReader<'_>) -> Result<Rope, LoadError> {
    if let Some(parameters) = config.optional_section("rope_parameters")? {
        return read_parameters(&parameters, config);
    }
    let theta = config
        .optional_positive("rope_theta")?
        .unwrap_or(THETA_DEFAULT);
    let scaling = match config.optional_section("rope_scaling")? {
        Some(section) => read_scaling(&section)?,
        None => RopeScaling::None,
    };
    Ok(Rope { theta, scaling })
}

/// Reads a `rope_parameters` object; `config` is its enclosing object.
pub(super) fn read_parameters(
    parameters: &ConfigReader<'_>,
    config: &ConfigReader<'_>,
) -> Result<Rope, LoadError> {
    let theta = match parameters.optional_positive("rope_theta")? {
        Some(theta) => theta,
        None => config
            .optional_positive("rope_theta")?
            .unwrap_or(THETA_DEFAULT),
    };
    Ok(Rope {
        theta,
        scaling: read_scaling(parameters)?,
    })
}

/// The scaling scheme that an object names under `rope_type`, or `type` in old configurations.
pub(super) fn read_scaling(section: &ConfigReader<'_>) -> Result<RopeScaling, LoadError> {
    let key = if section.optional_text("rope_type")?.is_some() {
        "rope_type"
    } else {
        "type"
    };
    match section.optional_text(key)?.unwrap_or("default") {
        "default" => Ok(RopeScaling::None),
        "linear" => Ok(RopeScaling::Linear {
            factor: section.positive("factor")?,
        }),
        "llama3" => read_llama3(section),
        other => Err(section.error(
            key,
            format_args!("is `{other}`; supported are default, linear and llama3"),
        )),
    }
}

fn read_llama3(section: &ConfigReader<'_>) -> Result<RopeScaling, LoadError> {
    let low_freq_factor = section.optional_positive("low_freq_factor")?.unwrap_or(1.0);
    let high_freq_factor = section
        .optional_positive("high_freq_factor")?
        .unwrap_or(4.0);
    if high_freq_factor <= low_freq_factor {
        return Err(section.error("high_freq_factor", "is not above `low_freq_factor`"));
    }
    let original_length =
        section.optional_size("original_max_position_embeddings", Count::Positions)?;
    Ok(RopeScaling::Llama3 {
        factor: section.positive("factor")?,
        low_freq_factor,
        high_freq_factor,
        original_length: original_length.unwrap_or(8192),
    })
}
