//! Sampling parameters and their ranges.

use std::{collections::BTreeMap, ops::RangeInclusive};

use crate::{conversation::SamplingRequest, translate::RequestError, wire::CreateRequest};

/// The fields of a request that are about sampling; all APIs have them under the same names.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::translate) struct SamplingFields<'a> {
    pub(in crate::translate) temperature: Option<f64>,
    pub(in crate::translate) top_p: Option<f64>,
    pub(in crate::translate) top_k: Option<i64>,
    pub(in crate::translate) min_p: Option<f64>,
    pub(in crate::translate) repetition_penalty: Option<f64>,
    pub(in crate::translate) presence_penalty: Option<f64>,
    pub(in crate::translate) frequency_penalty: Option<f64>,
    pub(in crate::translate) logit_bias: Option<&'a BTreeMap<String, f64>>,
    pub(in crate::translate) seed: Option<i64>,
}

impl<'a> From<&'a CreateRequest> for SamplingFields<'a> {
    fn from(request: &'a CreateRequest) -> Self {
        Self {
            temperature: request.temperature,
            top_p: request.top_p,
            top_k: request.top_k,
            min_p: request.min_p,
            repetition_penalty: request.repetition_penalty,
            presence_penalty: request.presence_penalty,
            frequency_penalty: request.frequency_penalty,
            logit_bias: request.logit_bias.as_ref(),
            seed: request.seed,
        }
    }
}

/// Checks every number that reaches the sampler.
pub(in crate::translate) fn sampling_request(
    request: &SamplingFields<'_>,
) -> Result<SamplingRequest, RequestError> {
    Ok(SamplingRequest {
        temperature: within("temperature", request.temperature, 0.0..=2.0)?,
        top_p: top_p(request.top_p)?,
        top_k: top_k(request.top_k)?,
        min_p: within("min_p", request.min_p, 0.0..=1.0)?,
        repetition_penalty: within("repetition_penalty", request.repetition_penalty, 0.1..=10.0)?,
        presence_penalty: within("presence_penalty", request.presence_penalty, -2.0..=2.0)?,
        frequency_penalty: within("frequency_penalty", request.frequency_penalty, -2.0..=2.0)?,
        logit_bias: logit_bias(request.logit_bias)?,
        seed: request.seed.map(i64::cast_unsigned),
        logprobs: None,
    })
}

fn within(
    param: &str,
    value: Option<f64>,
    range: RangeInclusive<f64>,
) -> Result<Option<f64>, RequestError> {
    match value {
        Some(value) if !range.contains(&value) => {
            let (low, high) = range.into_inner();
            let message = format!("`{param}` must be between {low} and {high}, not {value}.");
            Err(RequestError::invalid(param, message))
        }
        other => Ok(other),
    }
}

fn top_p(value: Option<f64>) -> Result<Option<f64>, RequestError> {
    match value {
        Some(0.0) => Err(RequestError::invalid(
            "top_p",
            "`top_p` must be above 0 and at most 1.",
        )),
        other => within("top_p", other, 0.0..=1.0),
    }
}

/// Both 0 and -1 are in use for "keep all".
fn top_k(value: Option<i64>) -> Result<Option<u32>, RequestError> {
    let checked = |value: i64| match value {
        -1 => Ok(0),
        _ => u32::try_from(value).map_err(|_| {
            let most = u32::MAX;
            let message = format!("`top_k` must be between 0 and {most}, not {value}.");
            RequestError::invalid("top_k", message)
        }),
    };
    value.map(checked).transpose()
}

fn logit_bias(biases: Option<&BTreeMap<String, f64>>) -> Result<Vec<(u32, f64)>, RequestError> {
    let checked = |(key, &bias): (&String, &f64)| {
        let param = format!("logit_bias.{key}");
        let Ok(token) = key.parse() else {
            let message = format!("The keys of `logit_bias` are token ids, which `{key}` is not.");
            return Err(RequestError::invalid(param, message));
        };
        within(&param, Some(bias), -100.0..=100.0)?;
        Ok((token, bias))
    };
    biases.into_iter().flatten().map(checked).collect()
}
