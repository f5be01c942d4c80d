//! Decoding of token texts to bytes.

use serde_json::Value;

use super::TokenizerError;

/// SentencePiece's mark for a space.
pub(super) const SPACE: &str = "\u{2581}";

/// Decodes token texts to bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ByteDecoder {
    /// Each character stands for one byte, after GPT-2.
    byte_level: bool,
    /// Texts that stand for others, such as U+2581 for a space.
    replacements: Vec<(String, String)>,
    /// `<0x0A>` stands for that byte.
    byte_fallback: bool,
    /// The tokenizer puts a space before a text, which decoding takes away again.
    pub(super) strips_first_space: bool,
}

impl ByteDecoder {
    /// GPT-2's byte-level alphabet.
    pub(super) fn byte_level() -> Self {
        Self {
            byte_level: true,
            ..Self::default()
        }
    }

    /// SentencePiece with byte fallback.
    pub(super) fn sentencepiece(strips_first_space: bool) -> Self {
        let replacements = vec![(SPACE.to_owned(), " ".to_owned())];
        Self {
            replacements,
            byte_fallback: true,
            strips_first_space,
            ..Self::default()
        }
    }

    /// Reads the `decoder` of a `tokenizer.json`: one decoder or a sequence of them.
    pub(super) fn from_json(decoder: &Value) -> Result<Self, TokenizerError> {
        let mut decoding = Self::default();
        decoding.add(decoder)?;
        Ok(decoding)
    }

    fn add(&mut self, decoder: &Value) -> Result<(), TokenizerError> {
        let text = |key: &str| decoder[key].as_str().unwrap_or_default();
        match text("type") {
            "ByteLevel" => self.byte_level = true,
            "ByteFallback" => self.byte_fallback = true,
            "Fuse" => {}
            "Strip" if text("content") == " " && decoder["stop"] == 0 => {
                self.strips_first_space = decoder["start"] != 0;
            }
            "Replace" if decoder["pattern"]["String"].is_string() => {
                let pattern = decoder["pattern"]["String"].as_str().unwrap_or_default();
                self.replacements
                    .push((pattern.to_owned(), text("content").to_owned()));
            }
            "Metaspace" => {
                let space = " ".to_owned();
                self.replacements
                    .push((text("replacement").to_owned(), space));
                self.strips_first_space = text("prepend_scheme") != "never"
                    && decoder["add_prefix_space"] != Value::Bool(false);
            }
            "Sequence" => {
                for part in decoder["decoders"].as_array().into_iter().flatten() {
                    self.add(part)?;
                }
            }
            "" => return Err(TokenizerError::Unsupported("no decoder".to_owned())),
            other => return Err(TokenizerError::Unsupported(format!("a decoder `{other}`"))),
        }
        Ok(())
    }

    /// Returns the bytes of a token of the model.
    pub(super) fn model_token(&self, token_text: &str) -> Vec<u8> {
        if self.byte_level {
            let bytes: Option<Vec<u8>> = token_text.chars().map(byte_of).collect();
            return bytes.unwrap_or_else(|| token_text.as_bytes().to_vec());
        }
        self.plain_token(token_text)
    }

    /// Returns the bytes of an added token; byte-level models store its plain text.
    pub(super) fn added_token(&self, token_text: &str) -> Vec<u8> {
        if self.byte_level {
            token_text.as_bytes().to_vec()
        } else {
            self.plain_token(token_text)
        }
    }

    fn plain_token(&self, token_text: &str) -> Vec<u8> {
        if let Some(byte) = byte_token(token_text).filter(|_| self.byte_fallback) {
            return vec![byte];
        }
        let mut text = token_text.to_owned();
        for (pattern, content) in &self.replacements {
            text = text.replace(pattern, content);
        }
        text.into_bytes()
    }
}

/// Returns the byte of a text such as `<0x0A>`.
pub(super) fn byte_token(token_text: &str) -> Option<u8> {
    let digits = token_text.strip_prefix("<0x")?.strip_suffix('>')?;
    let is_byte = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u8::from_str_radix(digits, 16).ok().filter(|_| is_byte)
}

/// The byte that a character of GPT-2's alphabet stands for: printable ones for themselves, the
/// others moved up in order from U+0100.
fn byte_of(character: char) -> Option<u8> {
    let code = u32::from(character);
    let byte = match code {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => code,
        0x100..=0x120 => code - 0x100,
        0x121..=0x142 => code - 0x121 + 0x7F,
        0x143 => 0xAD,
        _ => return None,
    };
    u8::try_from(byte).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;
    use tokenizers::pre_tokenizers::byte_level::ByteLevel;

    use super::*;

    #[test]
    fn the_alphabet_names_every_byte_once() {
        let alphabet = ByteLevel::alphabet();
        let bytes: BTreeSet<u8> = alphabet.into_iter().filter_map(byte_of).collect();
        assert_eq!(bytes.len(), 256);
        assert_eq!(
            ByteDecoder::byte_level().model_token("ĠhÃ©Ċ"),
            " hé\n".as_bytes()
        );
        assert_eq!(ByteDecoder::byte_level().model_token("ä¸"), [0xE4, 0xB8]);
    }

    #[test]
    fn a_sequence_of_decoders_is_read_whole() {
        let decoder = json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]});
        assert_eq!(
            ByteDecoder::from_json(&decoder).unwrap(),
            ByteDecoder::sentencepiece(true)
        );
    }

    #[test]
    fn sentencepiece_spells_spaces_and_bytes() {
        let decoding = ByteDecoder::sentencepiece(false);
        assert_eq!(decoding.model_token("▁a▁"), b" a ");
        assert_eq!(decoding.model_token("<0xE2>"), [0xE2]);
        for text in ["<0x0>", "<0xZZ>", "<0x+1>", "<0x012>", "0x01"] {
            assert_eq!(decoding.model_token(text), text.as_bytes());
        }
    }

    #[test]
    fn an_unknown_decoder_is_named() {
        let error = ByteDecoder::from_json(&json!({"type": "WordPiece"})).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the tokenizer has a decoder `WordPiece`, which is not supported"
        );
        assert!(ByteDecoder::from_json(&Value::Null).is_err());
    }
}
