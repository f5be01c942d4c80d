//! Added tokens, which are searched in a text before the model tokenises its words.

use std::{collections::HashMap, ops::Range, sync::Arc};

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};
use serde::Deserialize;

use super::TokenizerError;
use crate::id::TokenId;

/// A token that the vocabulary lists beside the model's own, in the layout of `tokenizer.json`.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct AddedToken {
    #[serde(default)]
    pub(super) id: TokenId,
    pub(super) content: String,
    /// Only where no letter or digit touches it.
    #[serde(default)]
    pub(super) single_word: bool,
    /// Takes the white space before it along.
    #[serde(default)]
    pub(super) lstrip: bool,
    /// Takes the white space after it along.
    #[serde(default)]
    pub(super) rstrip: bool,
    /// Looked for in the normalised text instead of the text as it came.
    #[serde(default)]
    pub(super) normalized: bool,
    /// The token's text after normalisation.
    #[serde(skip)]
    pub(super) normalized_form: String,
    /// Never shown in a decoded text.
    #[serde(default)]
    pub(super) special: bool,
}

/// HTML elements that vocabularies (Gemma's) list as single tokens of ordinary text.
const HTML_ELEMENTS: &str = "a b bbox blockquote body br caption code div em footer h1 h2 h3 h4 h5 \
    h6 html i iframe img li p s span strong sub sup table tbody td tfoot th thead tr u ul";

impl AddedToken {
    pub(super) fn new(id: TokenId, content: &str, special: bool) -> Self {
        let content = content.to_owned();
        Self {
            id,
            content,
            special,
            ..Self::default()
        }
    }

    /// True if the token structures a prompt, so that no user text may produce it.
    ///
    /// Special tokens do. So do some tokens that model files list as ordinary ones and that only
    /// their brackets give away: `<tool_call>` of Qwen, `<｜User｜>` of DeepSeek, `[TOOL_CALLS]` of
    /// Mistral. Empty brackets are code.
    pub(super) fn is_control(&self) -> bool {
        let bracketed = |open: char, close: char| {
            let inner = self.content.strip_prefix(open);
            let inner = inner.and_then(|rest| rest.strip_suffix(close));
            inner.is_some_and(|name| !name.is_empty())
        };
        self.special || bracketed('[', ']') || bracketed('<', '>') && !self.is_html_element()
    }

    fn is_html_element(&self) -> bool {
        let name = self
            .content
            .trim_start_matches('<')
            .trim_start_matches('/')
            .trim_end_matches('>');
        HTML_ELEMENTS
            .split_ascii_whitespace()
            .any(|element| element == name)
    }
}

/// An added token found in a text, with the white space it takes along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) range: Range<usize>,
    pub(super) id: TokenId,
}

/// All added tokens of a tokenizer.
pub(super) struct AddedTokens {
    control: Finder,
    plain: Finder,
    normalized: Finder,
    ids: HashMap<String, TokenId>,
}

impl AddedTokens {
    pub(super) fn new(tokens: Vec<AddedToken>) -> Result<Self, TokenizerError> {
        let ids = tokens
            .iter()
            .map(|token| (token.content.clone(), token.id))
            .collect();
        let tokens = tokens.into_iter().filter(|token| !token.content.is_empty());
        let (control, plain): (Vec<_>, Vec<_>) = tokens.partition(AddedToken::is_control);
        let (normalized, plain) = plain.into_iter().partition(|token| token.normalized);
        Ok(Self {
            control: Finder::new(control, |token| &token.content)?,
            plain: Finder::new(plain, |token| &token.content)?,
            normalized: Finder::new(normalized, |token| &token.normalized_form)?,
            ids,
        })
    }

    pub(super) fn id(&self, token_text: &str) -> Option<TokenId> {
        self.ids.get(token_text).copied()
    }

    pub(super) fn control_token_texts(&self) -> Arc<[String]> {
        self.control
            .tokens
            .iter()
            .map(|token| token.content.clone())
            .collect()
    }

    /// The added tokens of a text as it came, in order: control tokens within the ranges of
    /// `markup` only.
    pub(super) fn find(&self, text: &str, markup: &[Range<usize>]) -> Vec<Found> {
        let mut control = Vec::new();
        for range in markup {
            self.control
                .find(text, range.clone(), text.len(), &mut control);
        }
        let mut all = Vec::new();
        let mut start = 0;
        for found in control {
            let end = found.range.start;
            self.plain.find(text, start..end, end, &mut all);
            start = found.range.end;
            all.push(found);
        }
        self.plain
            .find(text, start..text.len(), text.len(), &mut all);
        all
    }

    /// The added tokens of a normalised text without control tokens.
    pub(super) fn find_normalized(&self, text: &str) -> Vec<Found> {
        let mut found = Vec::new();
        self.normalized
            .find(text, 0..text.len(), text.len(), &mut found);
        found
    }
}

/// Finds the leftmost longest of its tokens.
struct Finder {
    automaton: AhoCorasick,
    tokens: Vec<AddedToken>,
}

impl Finder {
    /// Builds a search; `form` returns a token's text in the searched texts.
    fn new(
        tokens: Vec<AddedToken>,
        form: impl Fn(&AddedToken) -> &String,
    ) -> Result<Self, TokenizerError> {
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(tokens.iter().map(form))
            .map_err(|error| TokenizerError::Broken(format!("its added tokens: {error}")))?;
        Ok(Self { automaton, tokens })
    }

    /// Appends the tokens found in `range`. White space around them belongs to them up to `limit`,
    /// unless `found` has it already.
    fn find(&self, text: &str, range: Range<usize>, limit: usize, found: &mut Vec<Found>) {
        if range.is_empty() || self.tokens.is_empty() {
            return;
        }
        for matched in self.automaton.find_iter(Input::new(text).range(range)) {
            let token = &self.tokens[matched.pattern().as_usize()];
            let (before, after) = (&text[..matched.start()], &text[matched.end()..]);
            let taken = found.last().map_or(0, |last| last.range.end);
            if matched.start() < taken || token.single_word && touches_word(before, after) {
                continue;
            }
            let mut range = matched.range();
            if token.lstrip {
                range.start = before.trim_end().len().max(taken);
            }
            if token.rstrip {
                range.end = (text.len() - after.trim_start().len()).min(limit);
            }
            found.push(Found {
                range,
                id: token.id,
            });
        }
    }
}

fn touches_word(before: &str, after: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    before.chars().next_back().is_some_and(is_word) || after.chars().next().is_some_and(is_word)
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;

    fn token(id: TokenId, content: &str, special: bool) -> AddedToken {
        AddedToken::new(id, content, special)
    }

    fn find(tokens: Vec<AddedToken>, text: &str, markup_end: usize) -> Vec<(TokenId, String)> {
        let added = AddedTokens::new(tokens).unwrap();
        let found = added.find(text, slice::from_ref(&(0..markup_end)));
        found
            .into_iter()
            .map(|found| (found.id, text[found.range].to_owned()))
            .collect()
    }

    #[test]
    fn control_tokens_are_found_in_markup_only() {
        let tokens = vec![token(7, "<|end|>", true), token(8, "<tool>", false)];
        let text = "<|end|><tool><|end|><tool>";
        let expected = [(7, "<|end|>".to_owned()), (8, "<tool>".to_owned())];
        assert_eq!(find(tokens.clone(), text, 13), expected);
        assert_eq!(find(tokens.clone(), text, 8), expected[..1]);
        assert_eq!(find(tokens, text, 0), []);
    }

    #[test]
    fn plain_tokens_are_found_everywhere_and_the_longest_wins() {
        let tokens = vec![
            token(1, "\n", false),
            token(2, "\n\n", false),
            token(3, "<b>", false),
        ];
        let expected = [
            (2, "\n\n".to_owned()),
            (1, "\n".to_owned()),
            (3, "<b>".to_owned()),
        ];
        assert_eq!(find(tokens, "a\n\n\nb<b>", 0), expected);
    }

    #[test]
    fn normalized_tokens_are_found_in_their_normalised_form() {
        let spaces = AddedToken {
            normalized: true,
            normalized_form: "▁▁".to_owned(),
            ..token(1, "  ", false)
        };
        let added = AddedTokens::new(vec![spaces]).unwrap();
        assert_eq!(added.find("a  b", &[]), []);
        assert_eq!(
            added.find_normalized("a▁▁b"),
            [Found { range: 1..7, id: 1 }]
        );
    }

    #[test]
    fn stripping_takes_white_space_along_once() {
        let strip = |id, content, special| AddedToken {
            lstrip: true,
            rstrip: true,
            ..token(id, content, special)
        };
        let tokens = vec![strip(1, "<a>", true), strip(2, "<z>", true)];
        let expected = [(1, " <a> \n".to_owned()), (2, "<z> ".to_owned())];
        assert_eq!(find(tokens, "x <a> \n<z> y", 12), expected);
        let tokens = vec![strip(1, "word", false), strip(2, "<z>", true)];
        let expected = [(1, "word".to_owned()), (2, "  <z>".to_owned())];
        assert_eq!(find(tokens, "word  <z>", 9), expected);
    }

    #[test]
    fn single_words_stand_alone() {
        let tokens = vec![AddedToken {
            single_word: true,
            ..token(1, "<a>", true)
        }];
        assert_eq!(find(tokens, "x<a> <a>y <a>.", 14).len(), 1);
    }

    #[test]
    fn brackets_make_a_control_token_unless_they_are_html() {
        let control = |content| token(0, content, false).is_control();
        for content in [
            "<tool_call>",
            "</think>",
            "<｜User｜>",
            "[INST]",
            "<|fim_prefix|>",
        ] {
            assert!(control(content), "{content}");
        }
        for content in ["<table>", "</h1>", "[]", "<>", "\n\n", "    ", "word", "▁▁"] {
            assert!(!control(content), "{content}");
        }
    }
}
