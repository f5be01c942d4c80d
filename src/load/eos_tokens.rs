//! The tokens that a model's configuration files say end an answer.

use serde_json::{Map, Value};

use super::ModelFiles;
use crate::id::TokenId;

impl ModelFiles {
    /// The union of `eos_token_id`, a number or a list, in `config.json`, in its `text_config` and
    /// in `generation_config.json`. What is no token id is passed over.
    #[must_use]
    pub fn eos_tokens(&self) -> Vec<TokenId> {
        let text_config = self.config.get("text_config").and_then(Value::as_object);
        [
            Some(&self.config),
            text_config,
            Some(&self.generation_config),
        ]
        .into_iter()
        .flatten()
        .flat_map(named_in)
        .collect()
    }
}

fn named_in(config: &Map<String, Value>) -> Vec<TokenId> {
    let id = |value: &Value| TokenId::try_from(value.as_u64()?).ok();
    match config.get("eos_token_id") {
        Some(Value::Array(ids)) => ids.iter().filter_map(id).collect(),
        Some(value) => id(value).into_iter().collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_a_list_or_nothing() {
        for (value, expected) in [
            (json!({"eos_token_id": 2}), vec![2]),
            (json!({"eos_token_id": [1, 106]}), vec![1, 106]),
            (json!({"eos_token_id": null}), vec![]),
            (json!({"eos_token_id": [-1, "x", 3]}), vec![3]),
            (json!({}), vec![]),
        ] {
            let config = value.as_object().expect("an object");
            assert_eq!(named_in(config), expected, "{value}");
        }
    }
}
