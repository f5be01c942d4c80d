//! Special tokens: those that templates name, and EOS tokens.

use serde_json::{Map, Value};

use super::added::AddedToken;
use crate::id::TokenId;

/// Token texts that chat templates name `bos_token`, `eos_token` and so on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpecialTokens {
    /// Begins a sequence.
    pub bos: Option<String>,
    /// Ends a sequence.
    pub eos: Option<String>,
    /// Stands for what the vocabulary lacks.
    pub unk: Option<String>,
    /// Fills a batch.
    pub pad: Option<String>,
}

impl SpecialTokens {
    /// Reads `tokenizer_config.json`, where a token is a string or an object with `content`.
    pub(super) fn from_config(config: &Map<String, Value>) -> Self {
        let token_text = |key: &str| {
            let value = config.get(key)?;
            let text = value.as_str().or_else(|| value.get("content")?.as_str())?;
            Some(text.to_owned())
        };
        Self {
            bos: token_text("bos_token"),
            eos: token_text("eos_token"),
            unk: token_text("unk_token"),
            pad: token_text("pad_token"),
        }
    }

    pub(super) fn token_texts(&self) -> impl Iterator<Item = &str> {
        [&self.bos, &self.eos, &self.unk, &self.pad]
            .into_iter()
            .filter_map(Option::as_deref)
    }
}

/// Texts of EOS tokens in known families.
const EOS_TEXTS: [&str; 20] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end_of_turn|>",
    "<|END_OF_TURN_TOKEN|>",
    "<|eot|>",
    "<end_of_turn>",
    "<turn|>",
    "<end_of_utterance>",
    "<｜end▁of▁sentence｜>",
    "<eos>",
    "</s>",
    "<EOT>",
    "[EOT]",
    "[EOS]",
];

/// Returns the EOS tokens: those that the files name, and those known by their text.
pub(super) fn eos_tokens(added: &[AddedToken], named: Vec<TokenId>) -> Vec<TokenId> {
    let has = |token_text: &str| added.iter().any(|token| token.content == token_text);
    // Harmony (gpt-oss) ends each of a turn's messages with <|end|>, and the turn with these two.
    let messages_end_inside_the_turn = has("<|return|>") && has("<|call|>");
    let ends_turn = |token: &&AddedToken| {
        token.is_control()
            && EOS_TEXTS.contains(&token.content.as_str())
            && !(messages_end_inside_the_turn && token.content == "<|end|>")
    };
    let mut ends = named;
    ends.extend(added.iter().filter(ends_turn).map(|token| token.id));
    ends.sort_unstable();
    ends.dedup();
    ends
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn added(token_texts: &[&str]) -> Vec<AddedToken> {
        (0..)
            .zip(token_texts)
            .map(|(id, token_text)| AddedToken::new(id, token_text, true))
            .collect()
    }

    #[test]
    fn eos_tokens_are_named_by_files_or_known_by_text() {
        let chatml = added(&["<|endoftext|>", "<|im_start|>", "<|im_end|>"]);
        assert_eq!(eos_tokens(&chatml, vec![]), [0, 2]);
        assert_eq!(eos_tokens(&chatml, vec![2, 1]), [0, 1, 2]);
    }

    #[test]
    fn a_message_of_harmony_does_not_end_its_turn() {
        assert_eq!(
            eos_tokens(&added(&["<|end|>", "<|return|>", "<|call|>"]), vec![]),
            [1, 2]
        );
        assert_eq!(eos_tokens(&added(&["<|end|>", "<|user|>"]), vec![]), [0]);
    }

    #[test]
    fn an_element_of_html_ends_nothing() {
        let gemma = [
            AddedToken::new(1, "<eos>", true),
            AddedToken::new(2, "</s>", false),
            AddedToken::new(3, "<end_of_turn>", false),
        ];
        assert_eq!(eos_tokens(&gemma, vec![]), [1, 3]);
    }

    #[test]
    fn config_names_tokens_as_text_or_object() {
        let Value::Object(config) = json!({
            "bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "pad_token": null,
        }) else {
            panic!("an object")
        };
        let special = SpecialTokens::from_config(&config);
        assert_eq!(special.bos.as_deref(), Some("<s>"));
        assert_eq!(special.eos.as_deref(), Some("</s>"));
        assert_eq!((special.pad, special.unk), (None, None));
    }
}
