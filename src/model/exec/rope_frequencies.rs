//! Frequencies of rotary position embeddings, for any executor.

use std::f64::consts::TAU;

use crate::model::spec::{DecoderSpec, Rope, RopeScaling};

/// The angle, in radians, by which each of the `head_dim / 2` pairs turns from one position to the
/// next.
///
/// Sources: Su et al. 2021 (RoFormer); for Llama 3's scaling the reference code of Llama 3.1.
pub(super) fn frequencies(rope: &Rope, head_dim: usize) -> Vec<f64> {
    let theta = f64::from(rope.theta);
    (0..head_dim / 2)
        .map(|pair| theta.powf(-2.0 * pair as f64 / head_dim as f64))
        .map(|frequency| scale(&rope.scaling, frequency))
        .collect()
}

/// The rotary embeddings of a model's layers, each once.
pub(super) fn distinct_ropes(spec: &DecoderSpec) -> Vec<Rope> {
    let mut ropes: Vec<Rope> = Vec::new();
    for layer in &spec.layers {
        if !ropes.contains(&layer.rope) {
            ropes.push(layer.rope.clone());
        }
    }
    ropes
}

fn scale(scaling: &RopeScaling, frequency: f64) -> f64 {
    match *scaling {
        RopeScaling::None => frequency,
        RopeScaling::Linear { factor } => frequency / f64::from(factor),
        RopeScaling::Llama3 {
            factor,
            low_freq_factor,
            high_freq_factor,
            original_length,
        } => {
            let turns = original_length as f64 * frequency / TAU;
            let (low, high) = (f64::from(low_freq_factor), f64::from(high_freq_factor));
            let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
            frequency * (kept + (1.0 - kept) / f64::from(factor))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn llama3() -> Rope {
        let scaling = RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_length: 8192,
        };
        Rope {
            theta: 500_000.0,
            scaling,
        }
    }

    #[test]
    fn first_pair_turns_by_one_radian() {
        let rope = Rope {
            theta: 10_000.0,
            scaling: RopeScaling::None,
        };
        let all = frequencies(&rope, 64);
        assert_eq!(all.len(), 32);
        assert_eq!(all[0], 1.0);
        assert!((all[16] - 0.01).abs() < 1e-12);
    }

    #[test]
    fn linear_scaling_divides_every_frequency() {
        let rope = Rope {
            theta: 10_000.0,
            scaling: RopeScaling::Linear { factor: 4.0 },
        };
        assert_eq!(frequencies(&rope, 64)[0], 0.25);
    }

    #[test]
    fn llama3_keeps_high_frequencies_and_divides_low_ones() {
        let plain = frequencies(
            &Rope {
                scaling: RopeScaling::None,
                ..llama3()
            },
            128,
        );
        let scaled = frequencies(&llama3(), 128);
        assert_eq!(scaled[0], plain[0]);
        assert!((scaled[63] - plain[63] / 8.0).abs() < 1e-18);
        let between = (0..64).find(|&pair| TAU / plain[pair] > 2048.0).unwrap();
        assert!(scaled[between] < plain[between] && scaled[between] > plain[between] / 8.0);
    }
}
