//! Resolves a turn's sampling parameters from the request and the model's defaults.

use std::{ops::RangeInclusive, sync::Arc};

use serde_json::{Map, Value};

use crate::{
    conversation::{EffectiveSampling, SamplingRequest},
    sampling::SamplingParams,
};

/// Sampling defaults for fields that a request leaves out.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "see `SamplingWishes`")]
pub struct SamplingDefaults {
    pub temperature: f64,
    pub top_p: f64,
    pub top_k: u32,
    pub min_p: f64,
    pub repetition_penalty: f64,
}

impl Default for SamplingDefaults {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            repetition_penalty: 1.0,
        }
    }
}

impl SamplingDefaults {
    /// Reads the defaults in a model's `generation_config.json`. Values out of range are logged and
    /// ignored: a broken hint is no reason not to serve a model.
    pub fn from_generation_config(config: &Map<String, Value>) -> Self {
        let usual = Self::default();
        let number = |key: &str, range: RangeInclusive<f64>, usual: f64| {
            named(config, key, &range).unwrap_or(usual)
        };
        let top_k = named(config, "top_k", &(0.0..=f64::from(u32::MAX)));
        Self {
            temperature: number("temperature", 0.0..=2.0, usual.temperature),
            top_p: number("top_p", f64::from(f32::MIN_POSITIVE)..=1.0, usual.top_p),
            // The fraction is cut off on purpose; no file has one.
            top_k: top_k.map_or(usual.top_k, |top_k| top_k as u32),
            min_p: number("min_p", 0.0..=1.0, usual.min_p),
            repetition_penalty: number("repetition_penalty", 0.1..=10.0, usual.repetition_penalty),
        }
    }
}

fn named(config: &Map<String, Value>, key: &str, range: &RangeInclusive<f64>) -> Option<f64> {
    let value = config.get(key).filter(|value| !value.is_null())?;
    let number = value.as_f64().filter(|number| range.contains(number));
    if number.is_none() {
        tracing::warn!(key, %value, "passing over a value of generation_config.json");
    }
    number
}

/// Resolves a turn's sampling parameters: as the response echoes them, and as the sampler takes
/// them.
///
/// `seed` is used if the request has none.
pub fn settle(
    wishes: &SamplingRequest,
    defaults: &SamplingDefaults,
    seed: u64,
) -> (EffectiveSampling, SamplingParams) {
    let settings = EffectiveSampling {
        temperature: wishes.temperature.unwrap_or(defaults.temperature),
        top_p: wishes.top_p.unwrap_or(defaults.top_p),
        presence_penalty: wishes.presence_penalty.unwrap_or(0.0),
        frequency_penalty: wishes.frequency_penalty.unwrap_or(0.0),
    };
    let biases = wishes.logit_bias.iter();
    let repetition_penalty = wishes.repetition_penalty;
    let params = SamplingParams {
        temperature: settings.temperature as f32,
        // A probability too small for the type still keeps the most likely token.
        top_p: (settings.top_p as f32).max(f32::MIN_POSITIVE),
        top_k: wishes.top_k.unwrap_or(defaults.top_k),
        min_p: wishes.min_p.unwrap_or(defaults.min_p) as f32,
        repetition_penalty: repetition_penalty.unwrap_or(defaults.repetition_penalty) as f32,
        presence_penalty: settings.presence_penalty as f32,
        frequency_penalty: settings.frequency_penalty as f32,
        logit_bias: biases
            .map(|&(id, bias)| (id, bias as f32))
            .collect::<Arc<[_]>>(),
        seed: wishes.seed.unwrap_or(seed),
        logprobs: wishes.logprobs,
    };
    (settings, params)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn defaults(config: &Value) -> SamplingDefaults {
        let config = config.as_object().expect("an object");
        SamplingDefaults::from_generation_config(config)
    }

    #[test]
    fn a_generation_config_sets_what_it_names() {
        let found = defaults(&json!({"temperature": 0.6, "top_k": 20, "min_p": null, "eos": 1}));
        let expected = SamplingDefaults {
            temperature: 0.6,
            top_k: 20,
            ..SamplingDefaults::default()
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn values_out_of_range_are_passed_over() {
        let broken = json!({
            "temperature": -1, "top_p": 0, "top_k": -1, "min_p": "x", "repetition_penalty": 0,
        });
        assert_eq!(defaults(&broken), SamplingDefaults::default());
    }

    #[test]
    fn wishes_win_over_defaults() {
        let defaults = SamplingDefaults {
            temperature: 0.6,
            top_p: 0.9,
            ..SamplingDefaults::default()
        };
        let wishes = SamplingRequest {
            temperature: Some(0.0),
            seed: Some(3),
            logit_bias: vec![(7, -1.5)],
            ..SamplingRequest::default()
        };
        let (settings, params) = settle(&wishes, &defaults, 9);
        assert_eq!((settings.temperature, settings.top_p), (0.0, 0.9));
        assert_eq!((params.temperature, params.top_p), (0.0, 0.9));
        assert_eq!((params.seed, &*params.logit_bias), (3, &[(7, -1.5)][..]));
        let (_, params) = settle(&SamplingRequest::default(), &defaults, 9);
        assert_eq!(params.seed, 9);
    }

    #[test]
    fn a_tiny_top_p_stays_above_zero() {
        let wishes = SamplingRequest {
            top_p: Some(1e-300),
            ..SamplingRequest::default()
        };
        let (_, params) = settle(&wishes, &SamplingDefaults::default(), 0);
        assert!(params.top_p > 0.0);
    }
}
