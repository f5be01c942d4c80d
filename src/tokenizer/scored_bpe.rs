//! SentencePiece's BPE. Of all adjacent pairs that form a piece, the one with the best score is
//! merged first, the leftmost among equals. GGUF files have these scores and no list of merges.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, HashMap},
};

use tokenizers::Token;

use crate::id::TokenId;

/// A vocabulary of pieces with scores, and bytes for other text.
pub(super) struct ScoredBpe {
    pieces: HashMap<Box<str>, Piece>,
    /// By byte: its token.
    bytes: Vec<Option<TokenId>>,
    /// For a byte without a token.
    unknown: TokenId,
}

struct Piece {
    id: TokenId,
    score: f32,
}

/// A run of characters on the way to a token; `len` is 0 once its left neighbour has merged it.
struct Symbol {
    start: usize,
    len: usize,
    left: Option<usize>,
    right: Option<usize>,
}

/// Two neighbours that form a piece.
#[derive(PartialEq)]
struct Merge {
    score: f32,
    left: usize,
    right: usize,
    /// Bytes of both: if they no longer add up, one of the two was merged elsewhere.
    len: usize,
}

impl Eq for Merge {}

impl Ord for Merge {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score
            .total_cmp(&other.score)
            .then_with(|| other.left.cmp(&self.left))
    }
}

impl PartialOrd for Merge {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl ScoredBpe {
    /// Builds the model. `pieces` are text, id and score; `bytes` are the ids of all 256 bytes, if
    /// they exist.
    pub(super) fn new<'a>(
        pieces: impl Iterator<Item = (&'a str, TokenId, f32)>,
        bytes: Vec<Option<TokenId>>,
        unknown: TokenId,
    ) -> Self {
        Self {
            pieces: pieces
                .map(|(text, id, score)| (text.into(), Piece { id, score }))
                .collect(),
            bytes,
            unknown,
        }
    }

    pub(super) fn token_id(&self, token_text: &str) -> Option<TokenId> {
        self.pieces.get(token_text).map(|piece| piece.id)
    }

    /// The tokens of a text, with the bytes of it that each covers.
    pub(super) fn tokenize(&self, text: &str) -> Vec<Token> {
        let mut symbols = characters(text);
        let mut merges = BinaryHeap::with_capacity(symbols.len());
        for left in 0..symbols.len() {
            merges.extend(self.merge(text, &symbols, Some(left)));
        }
        while let Some(Merge {
            left, right, len, ..
        }) = merges.pop()
        {
            let expired = symbols[left].len == 0 || symbols[right].len == 0;
            if expired || symbols[left].len + symbols[right].len != len {
                continue;
            }
            let beyond = symbols[right].right;
            symbols[right].len = 0;
            symbols[left].len = len;
            symbols[left].right = beyond;
            if let Some(beyond) = beyond {
                symbols[beyond].left = Some(left);
            }
            merges.extend(self.merge(text, &symbols, symbols[left].left));
            merges.extend(self.merge(text, &symbols, Some(left)));
        }
        let whole = symbols.iter().filter(|symbol| symbol.len > 0);
        whole.flat_map(|symbol| self.tokens(text, symbol)).collect()
    }

    /// Returns the merge of a symbol with its right neighbour, if they form a piece.
    fn merge(&self, text: &str, symbols: &[Symbol], left: Option<usize>) -> Option<Merge> {
        let left = left?;
        let right = symbols[left].right?;
        let (start, len) = (symbols[left].start, symbols[left].len + symbols[right].len);
        let piece = self.pieces.get(&text[start..start + len])?;
        Some(Merge {
            score: piece.score,
            left,
            right,
            len,
        })
    }

    fn tokens(&self, text: &str, symbol: &Symbol) -> Vec<Token> {
        let range = symbol.start..symbol.start + symbol.len;
        let token = |id, start, end| Token::new(id, String::new(), (start, end));
        if let Some(piece) = self.pieces.get(&text[range.clone()]) {
            return vec![token(piece.id, range.start, range.end)];
        }
        let bytes: Option<Vec<TokenId>> = text.as_bytes()[range.clone()]
            .iter()
            .map(|&byte| self.bytes[usize::from(byte)])
            .collect();
        let ids = bytes.unwrap_or_else(|| vec![self.unknown]);
        ids.into_iter()
            .map(|id| token(id, range.start, range.end))
            .collect()
    }
}

fn characters(text: &str) -> Vec<Symbol> {
    let last = text.chars().count().checked_sub(1);
    let symbol = |(index, (start, character)): (usize, (usize, char))| Symbol {
        start,
        len: character.len_utf8(),
        left: index.checked_sub(1),
        right: (Some(index) != last).then_some(index + 1),
    };
    text.char_indices().enumerate().map(symbol).collect()
}
