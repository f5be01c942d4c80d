//! The bytes of every token, in one block of memory.

use super::{TokenizerError, added::AddedToken, byte_decoder::ByteDecoder};
use crate::{id::TokenId, limits::TOKENIZER_UNUSED_IDS_MAX};

/// The bytes of each id.
pub(super) struct Vocabulary {
    bytes: Vec<u8>,
    /// End of each id's bytes; they start at the end of the id before.
    ends: Vec<usize>,
    /// True for ids that decoded text leaves out.
    hidden: Vec<bool>,
    pub(super) strips_first_space: bool,
}

impl Vocabulary {
    pub(super) fn new(
        token_texts: &[Option<String>],
        added: &[AddedToken],
        decoding: &ByteDecoder,
    ) -> Result<Self, TokenizerError> {
        let len = length(token_texts.len(), added)?;
        let mut by_id: Vec<Option<&AddedToken>> = vec![None; len];
        for token in added {
            by_id[token.id as usize] = Some(token);
        }
        let mut vocabulary = Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(len),
            hidden: Vec::with_capacity(len),
            strips_first_space: decoding.strips_first_space,
        };
        for (id, token) in by_id.into_iter().enumerate() {
            let bytes = match (token, token_texts.get(id)) {
                (Some(token), _) => decoding.added_token(&token.content),
                (None, Some(Some(token_text))) => decoding.model_token(token_text),
                (None, _) => Vec::new(),
            };
            vocabulary.bytes.extend(bytes);
            vocabulary.ends.push(vocabulary.bytes.len());
            vocabulary
                .hidden
                .push(token.is_some_and(|token| token.special));
        }
        Ok(vocabulary)
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of an id, none where there is no such id.
    pub(super) fn bytes(&self, id: TokenId) -> &[u8] {
        let id = id as usize;
        let Some(&end) = self.ends.get(id) else {
            return &[];
        };
        let start = id.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..end]
    }

    /// Returns the bytes that an id adds to a text; empty for a control token.
    pub(super) fn shown_bytes(&self, id: TokenId) -> &[u8] {
        if self.hidden.get(id as usize) == Some(&true) {
            &[]
        } else {
            self.bytes(id)
        }
    }
}

fn length(model: usize, added: &[AddedToken]) -> Result<usize, TokenizerError> {
    let Some(last) = added.iter().max_by_key(|token| token.id) else {
        return Ok(model);
    };
    let id = last.id as usize;
    if id > model + added.len() + TOKENIZER_UNUSED_IDS_MAX {
        let content = &last.content;
        return Err(TokenizerError::Broken(format!(
            "token `{content}` has id {id}, but the model has {model} tokens"
        )));
    }
    Ok(model.max(id + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_write_their_bytes_and_unknown_ones_nothing() {
        let token_texts = [Some("Ġa".to_owned()), None, Some("b".to_owned())];
        let added = [
            AddedToken::new(5, "<|é|>", true),
            AddedToken::new(6, "Ġ", false),
        ];
        let vocabulary = Vocabulary::new(&token_texts, &added, &ByteDecoder::byte_level()).unwrap();
        let shown: Vec<&[u8]> = (0..9).map(|id| vocabulary.shown_bytes(id)).collect();
        assert_eq!(
            shown,
            [
                b" a" as &[u8],
                b"",
                b"b",
                b"",
                b"",
                b"",
                "Ġ".as_bytes(),
                b"",
                b""
            ]
        );
        assert_eq!(vocabulary.bytes(5), "<|é|>".as_bytes());
        assert_eq!(vocabulary.bytes(u32::MAX), b"");
        assert_eq!(vocabulary.len(), 7);
    }

    #[test]
    fn an_absurd_id_is_refused() {
        let added = [AddedToken::new(u32::MAX, "<x>", true)];
        let error = Vocabulary::new(&[], &added, &ByteDecoder::byte_level())
            .err()
            .unwrap();
        assert!(
            error.to_string().contains("`<x>` has id 4294967295"),
            "{error}"
        );
    }
}
