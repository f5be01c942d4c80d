//! `quantization` of `config.json`: how MLX packed which layers.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::MlxQuantization;
use crate::load::LoadError;

/// Packing of a folder's layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MlxPacking {
    /// Layers that are not named.
    default: MlxQuantization,
    /// Layers that are packed in another way, or not at all.
    layers: HashMap<String, Option<MlxQuantization>>,
}

impl MlxPacking {
    /// Reads `config.json`; `None` for a folder that is not quantised.
    ///
    /// # Errors
    /// Names the key, for quantisations of other programs and modes that cannot be read.
    pub fn of(config: &Map<String, Value>) -> Result<Option<Self>, LoadError> {
        if let Some(quantization) = object(config, "quantization")? {
            return Self::parse(quantization).map(Some);
        }
        // Where other programs say how they quantised; mlx-lm repeats its own there.
        match object(config, "quantization_config")? {
            None => Ok(None),
            Some(theirs) => match theirs.get("quant_method") {
                None => Self::parse(theirs).map(Some),
                Some(method) => Err(format!(
                    "`quantization_config` names {method}, which cannot be read"
                )
                .into()),
            },
        }
    }

    fn parse(quantization: &Map<String, Value>) -> Result<Self, LoadError> {
        let default = parse_one("quantization", quantization)?;
        let mut layers = HashMap::new();
        for (layer, how) in quantization {
            let how = match how {
                Value::Object(how) => Some(parse_one(layer, how)?),
                Value::Bool(true) => Some(default),
                Value::Bool(false) => None,
                _ => continue,
            };
            layers.insert(layer.clone(), how);
        }
        Ok(Self { default, layers })
    }

    /// Returns the packing of a layer such as `model.layers.0.mlp.down_proj`.
    pub(super) fn of_layer(&self, layer: &str) -> Option<MlxQuantization> {
        self.layers
            .get(layer)
            .copied()
            .unwrap_or(Some(self.default))
    }
}

fn object<'a>(
    config: &'a Map<String, Value>,
    key: &str,
) -> Result<Option<&'a Map<String, Value>>, LoadError> {
    match config.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(_) => Err(format!("`{key}` is not an object").into()),
    }
}

fn parse_one(key: &str, how: &Map<String, Value>) -> Result<MlxQuantization, LoadError> {
    match how.get("mode") {
        None | Some(Value::Null) => {}
        Some(mode) if mode == "affine" => {}
        Some(mode) => {
            let fault = format!("`{key}` has mode {mode}; only \"affine\" can be read");
            return Err(fault.into());
        }
    }
    let group_size = one_of(key, how, "group_size", &[32, 64, 128])?;
    let bits = one_of(key, how, "bits", &[2, 3, 4, 5, 6, 8])?;
    Ok(MlxQuantization { group_size, bits })
}

fn one_of(
    key: &str,
    how: &Map<String, Value>,
    name: &str,
    allowed: &[usize],
) -> Result<usize, LoadError> {
    let value = how.get(name).unwrap_or(&Value::Null);
    let number = value
        .as_u64()
        .and_then(|number| usize::try_from(number).ok());
    number
        .filter(|number| allowed.contains(number))
        .ok_or_else(|| format!("`{key}` has {name} {value}; {allowed:?} can be read").into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(config: Value) -> Result<Option<MlxPacking>, String> {
        let Value::Object(config) = config else {
            panic!("not an object")
        };
        MlxPacking::of(&config).map_err(|error| error.0)
    }

    #[test]
    fn layers_can_differ_from_the_rest() {
        let config = json!({ "quantization": {
            "group_size": 64, "bits": 4, "mode": "affine",
            "model.embed_tokens": false,
            "lm_head": { "group_size": 32, "bits": 8 },
            "model.layers.0.mlp.up_proj": true,
        }});
        let packing = parse(config).unwrap().unwrap();
        let default = MlxQuantization {
            group_size: 64,
            bits: 4,
        };
        assert_eq!(packing.of_layer("model.embed_tokens"), None);
        assert_eq!(
            packing.of_layer("lm_head"),
            Some(MlxQuantization {
                group_size: 32,
                bits: 8
            })
        );
        assert_eq!(
            packing.of_layer("model.layers.0.mlp.up_proj"),
            Some(default)
        );
        assert_eq!(
            packing.of_layer("model.layers.1.mlp.up_proj"),
            Some(default)
        );
    }

    #[test]
    fn plain_folders_and_repeated_keys_are_told_apart() {
        assert_eq!(parse(json!({})), Ok(None));
        assert_eq!(parse(json!({ "quantization": null })), Ok(None));
        let repeated = json!({ "quantization_config": { "group_size": 64, "bits": 4 } });
        assert!(parse(repeated).unwrap().is_some());
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_key() {
        for (config, words) in [
            (
                json!({ "quantization": 4 }),
                "`quantization` is not an object",
            ),
            (json!({ "quantization": { "bits": 4 } }), "group_size null"),
            (
                json!({ "quantization": { "group_size": 64, "bits": 7 } }),
                "bits 7",
            ),
            (
                json!({ "quantization": { "group_size": 32, "bits": 4, "mode": "mxfp4" } }),
                "`quantization` has mode \"mxfp4\"",
            ),
            (
                json!({ "quantization": { "group_size": 64, "bits": 4,
                    "lm_head": { "group_size": 16, "bits": 4, "mode": "nvfp4" } } }),
                "`lm_head` has mode \"nvfp4\"",
            ),
            (
                json!({ "quantization_config": { "quant_method": "gptq" } }),
                "\"gptq\"",
            ),
        ] {
            let text = parse(config).unwrap_err();
            assert!(text.contains(words), "`{words}` is not in: {text}");
        }
    }
}
