//! Parts of control tokens at the ends of values.

use std::{collections::HashSet, ops::Range};

/// Fragments of control token texts, which could become whole beside a template's text: a property
/// named `|im_end|` that a template writes between `<` and `>`.
pub(super) struct Fragments {
    starts: HashSet<String>,
    ends: HashSet<String>,
    /// All texts, each between two null characters.
    joined: String,
    bytes_max: usize,
}

impl Fragments {
    /// Splits the texts into fragments.
    pub(super) fn new(token_texts: &[&str]) -> Self {
        let mut fragments = Self {
            starts: HashSet::new(),
            ends: HashSet::new(),
            joined: format!("\0{}\0", token_texts.join("\0")),
            bytes_max: token_texts.iter().map(|text| text.len()).max().unwrap_or(0),
        };
        let whole: HashSet<&str> = token_texts.iter().copied().collect();
        let insert = |parts: &mut HashSet<String>, part: &str| {
            if is_fragment(part) && !whole.contains(part) {
                parts.insert(part.to_owned());
            }
        };
        for token_text in token_texts {
            for (cut, _) in token_text.char_indices().skip(1) {
                let (start, end) = token_text.split_at(cut);
                insert(&mut fragments.starts, start);
                insert(&mut fragments.ends, end);
            }
        }
        fragments
    }

    /// Returns the ranges where the text starts with the end of a control token text, or ends with
    /// the start of one. White space around the text is ignored. If the text is a part of a control
    /// token text, returns all of it.
    pub(super) fn at_ends_of(&self, text: &str) -> impl Iterator<Item = Range<usize>> + use<> {
        let trimmed = text.trim();
        let first = text.len() - text.trim_start().len();
        let last = first + trimmed.len();
        let within = trimmed.len() < self.bytes_max
            && is_fragment(trimmed)
            && self.joined.contains(trimmed)
            && !self.joined.contains(&format!("\0{trimmed}\0"));
        let start = cuts(trimmed)
            .take_while(|cut| *cut < self.bytes_max)
            .filter(|cut| self.ends.contains(&trimmed[..*cut]))
            .last()
            .map(|cut| first..first + cut);
        let end = cuts(trimmed)
            .rev()
            .take_while(|cut| trimmed.len() - cut < self.bytes_max)
            .filter(|cut| self.starts.contains(&trimmed[*cut..]))
            .last()
            .map(|cut| first + cut..last);
        [within.then_some(first..last), start, end]
            .into_iter()
            .flatten()
    }
}

/// The places between characters, and the end.
fn cuts(text: &str) -> impl DoubleEndedIterator<Item = usize> + '_ {
    text.char_indices().map(|(at, c)| at + c.len_utf8())
}

/// True if the part is more than a letter or a word, which any text may have.
fn is_fragment(part: &str) -> bool {
    part.chars().nth(1).is_some()
        && part
            .chars()
            .any(|c| !c.is_alphanumeric() && c != '_' && !c.is_whitespace())
}
