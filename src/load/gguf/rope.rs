//! Rotary embeddings of GGUF files: their parameters, and the order of q and k rows.

use serde_json::{Map, Value, json};

use super::source::{Source, into_map};
use crate::load::{LoadError, tensor_type::decode};

/// `rope_theta` and `rope_scaling` of `config.json`.
pub(super) fn config(
    source: &Source<'_>,
    head_dim: usize,
) -> Result<Map<String, Value>, LoadError> {
    const BASE_DEFAULT: f64 = 10_000.0;
    let rotated = source.count("rope.dimension_count")?.unwrap_or(head_dim);
    if rotated != head_dim {
        let fault =
            format!("rotates {rotated} of a head's {head_dim} elements; only all can be run");
        return Err(fault.into());
    }
    let base = source.float("rope.freq_base")?.unwrap_or(BASE_DEFAULT);
    let scaling = match factors(source, head_dim)? {
        Some(factors) => Some(llama3_scaling(&factors, base)?),
        None => declared_scaling(source)?,
    };
    Ok(into_map(
        json!({ "rope_theta": base, "rope_scaling": scaling }),
    ))
}

/// The scaling that metadata names, in the words of today's converters or of the first ones.
fn declared_scaling(source: &Source<'_>) -> Result<Option<Value>, LoadError> {
    let old = source
        .float("rope.scale_linear")?
        .filter(|factor| *factor != 1.0);
    let kind = match source.text("rope.scaling.type")? {
        Some(kind) => Some(kind).filter(|kind| kind != "none"),
        None => old.map(|_| "linear".to_owned()),
    };
    let Some(kind) = kind else {
        return Ok(None);
    };
    let original = source.count("rope.scaling.original_context_length")?;
    Ok(Some(Value::Object(into_map(json!({
        "rope_type": kind,
        "factor": source.float("rope.scaling.factor")?.or(old),
        "original_max_position_embeddings": original,
    })))))
}

/// The divisors of frequencies that converters store for Llama 3.1 and later.
fn factors(source: &Source<'_>, head_dim: usize) -> Result<Option<Vec<f32>>, LoadError> {
    const NAME: &str = "rope_freqs.weight";
    let Some(tensor) = source.tensor(NAME) else {
        return Ok(None);
    };
    if tensor.info.shape != [head_dim / 2] {
        let fault = format!(
            "has shape {:?}, expected [{}]",
            tensor.info.shape,
            head_dim / 2
        );
        return Err(LoadError::tensor(NAME, fault));
    }
    let mut factors = vec![0.0; head_dim / 2];
    decode(
        tensor.info.encoding,
        source.file.range(NAME, &tensor.bytes)?,
        &mut factors,
    );
    Ok(Some(factors))
}

/// Llama 3's scheme (`_compute_llama3_parameters` in `transformers`' `modeling_rope_utils.py`).
#[derive(Debug, Clone, Copy)]
struct Llama3 {
    factor: f64,
    low_freq_factor: f64,
    high_freq_factor: f64,
    original_length: f64,
}

impl Llama3 {
    /// The divisor of the frequency of pair `index`.
    fn divisor(self, index: usize, pairs: usize, base: f64) -> f64 {
        let frequency = base.powf(-(index as f64) / pairs as f64);
        let turns = self.original_length * frequency / std::f64::consts::TAU;
        let smooth =
            (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor);
        let smooth = smooth.clamp(0.0, 1.0);
        1.0 / ((1.0 - smooth) / self.factor + smooth)
    }
}

/// A file stores the outcome of Llama 3's scheme, not its parameters. All models of that family
/// share them but for the factor, which the lowest frequency shows; anything else is refused.
fn llama3_scaling(factors: &[f32], base: f64) -> Result<Value, LoadError> {
    const TOLERANCE: f64 = 1e-3;
    let scheme = Llama3 {
        factor: factors.last().copied().unwrap_or(1.0).into(),
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_length: 8192.0,
    };
    let agrees = factors.iter().enumerate().all(|(index, stored)| {
        let divisor = scheme.divisor(index, factors.len(), base);
        (f64::from(*stored) - divisor).abs() <= TOLERANCE * divisor
    });
    if !agrees {
        let fault = "holds frequency factors that are not those of Llama 3's rotary scaling";
        return Err(LoadError::tensor("rope_freqs.weight", fault));
    }
    Ok(json!({
        "rope_type": "llama3",
        "factor": scheme.factor,
        "low_freq_factor": scheme.low_freq_factor,
        "high_freq_factor": scheme.high_freq_factor,
        "original_max_position_embeddings": 8192,
    }))
}

/// Returns the position in the file of a row that Hugging Face's order has at `row`. Heads in
/// Hugging Face's order have the first elements of all RoPE pairs, then the second ones. The file
/// has the two of each pair side by side.
pub(super) fn interleaved_row(row: usize, head_dim: usize) -> usize {
    let (head, within) = (row / head_dim, row % head_dim);
    let (half, pair) = (within / (head_dim / 2), within % (head_dim / 2));
    head * head_dim + 2 * pair + half
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_a_permutation_within_each_head() {
        let order: Vec<_> = (0..8).map(|row| interleaved_row(row, 4)).collect();
        assert_eq!(order, [0, 2, 1, 3, 4, 6, 5, 7]);
    }

    #[test]
    fn the_factor_of_llama_3_is_found_and_other_factors_are_refused() {
        let scheme = Llama3 {
            factor: 32.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_length: 8192.0,
        };
        let mut factors: Vec<_> = (0..32)
            .map(|i| scheme.divisor(i, 32, 500_000.0) as f32)
            .collect();
        assert_eq!((factors[0], factors[31]), (1.0, 32.0));
        let found = llama3_scaling(&factors, 500_000.0).unwrap();
        assert_eq!(found["factor"], 32.0);
        assert_eq!(found["rope_type"], "llama3");
        factors[16] *= 1.1;
        assert!(llama3_scaling(&factors, 500_000.0).is_err());
    }
}
