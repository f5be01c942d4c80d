//! Escapes control token texts in user values, so that they stay text.
//!
//! Before rendering, each character of such a text inside a value is replaced by a private-use
//! character, its sentinel. Sentinels are no white space, have no case, and pass through slices. So
//! they reach the rendered text wherever the template puts the value, and lengths stay right. After
//! rendering they become the characters again, and each control token text with a sentinel is user
//! text.

mod fragments;

use std::{borrow::Cow, collections::BTreeSet, fmt, ops::Range, sync::Arc};

use aho_corasick::{AhoCorasick, MatchKind};
use minijinja::value::{Object, ObjectRepr};

use crate::tokenizer::{PromptSegment, SpecialTokens};

use super::{TemplateError, preprocess};

use self::fragments::Fragments;

/// The private-use planes, without the two noncharacters at the end of each.
const PRIVATE_USE: [Range<u32>; 2] = [0xF_0000..0xF_FFFE, 0x10_0000..0x10_FFFE];

/// The texts of a model's control tokens, prepared for search.
pub(super) struct ControlTokenTexts {
    matcher: AhoCorasick,
    /// Ends and starts of control token texts: two values, or a value and the template, could join
    /// to one.
    fragments: Fragments,
    /// True for each text that the template itself searches for in the model's output.
    parsed: Vec<bool>,
    /// The characters of the texts; a sentinel is an index into it above a base.
    alphabet: Arc<[char]>,
    /// Private-use characters in the template.
    taken: BTreeSet<u32>,
}

impl ControlTokenTexts {
    /// Prepares the texts for one template.
    pub(super) fn new(
        token_texts: &[String],
        template: &str,
        special: &SpecialTokens,
    ) -> Result<Self, TemplateError> {
        let token_texts: Vec<&str> = token_texts
            .iter()
            .map(String::as_str)
            .filter(|text| !text.is_empty())
            .collect();
        let matcher = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&token_texts)
            .map_err(|error| TemplateError::Broken(format!("control tokens: {error}")))?;
        let ends = [special.bos.as_deref(), special.eos.as_deref()];
        let mut parsed = vec![false; token_texts.len()];
        for found in matcher.find_iter(template) {
            let text = token_texts[found.pattern()];
            parsed[found.pattern()] =
                !ends.contains(&Some(text)) && preprocess::parses(template, text);
        }
        let alphabet: BTreeSet<char> = token_texts.iter().flat_map(|text| text.chars()).collect();
        Ok(Self {
            matcher,
            fragments: Fragments::new(&token_texts),
            parsed,
            alphabet: alphabet.into_iter().collect(),
            taken: private_use(template).collect(),
        })
    }

    /// Chooses sentinels that occur neither in the template nor in `texts`.
    pub(super) fn escape<'t>(
        &self,
        texts: impl IntoIterator<Item = &'t str>,
    ) -> Result<EscapedValues<'_>, TemplateError> {
        let mut taken = self.taken.clone();
        // No shorter encoding than four bytes starting with F3 reaches the private-use planes.
        for text in texts
            .into_iter()
            .filter(|text| text.bytes().any(|byte| byte >= 0xF3))
        {
            taken.extend(private_use(text));
        }
        let count = u32::try_from(self.alphabet.len())
            .unwrap_or(u32::MAX)
            .max(1);
        let free = |base: &u32| taken.range(*base..*base + count).next().is_none();
        PRIVATE_USE
            .into_iter()
            .flat_map(|plane| plane.start..plane.end.saturating_sub(count))
            .step_by(count as usize)
            .find(free)
            .map(|base| EscapedValues {
                token_texts: self,
                sentinels: Sentinels {
                    base,
                    alphabet: Arc::clone(&self.alphabet),
                },
            })
            .ok_or_else(|| {
                TemplateError::Refused(
                    "the conversation has too many private-use characters".into(),
                )
            })
    }
}

fn private_use(text: &str) -> impl Iterator<Item = u32> + '_ {
    text.chars()
        .map(u32::from)
        .filter(|c| PRIVATE_USE.iter().any(|plane| plane.contains(c)))
}

/// The mapping of sentinels to characters, for one rendering.
#[derive(Debug, Clone)]
pub(super) struct Sentinels {
    base: u32,
    alphabet: Arc<[char]>,
}

impl Sentinels {
    /// Returns the character of a sentinel; `None` for any other character.
    pub(super) fn reveal(&self, sentinel: char) -> Option<char> {
        let index = u32::from(sentinel).checked_sub(self.base)?;
        self.alphabet.get(usize::try_from(index).ok()?).copied()
    }

    fn conceal(&self, text: &str, into: &mut String) {
        into.extend(text.chars().map(|c| {
            let index = self
                .alphabet
                .binary_search(&c)
                .ok()
                .and_then(|i| u32::try_from(i).ok());
            index
                .and_then(|index| char::from_u32(self.base + index))
                .unwrap_or(c)
        }));
    }
}

/// Lets filters find the sentinels among the template's variables.
impl Object for Sentinels {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

/// Escapes control token texts in the values of one rendering, and finds them again in its output.
pub(super) struct EscapedValues<'a> {
    token_texts: &'a ControlTokenTexts,
    sentinels: Sentinels,
}

impl EscapedValues<'_> {
    /// The sentinels in use.
    pub(super) fn sentinels(&self) -> &Sentinels {
        &self.sentinels
    }

    /// Returns a value's text with every control token text escaped.
    pub(super) fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.hide_unless(text, |_| false)
    }

    /// The same for what the model said: markers that the template looks for stay.
    pub(super) fn hide_in_answer<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.hide_unless(text, |token_text| self.token_texts.parsed[token_text])
    }

    fn hide_unless<'t>(&self, text: &'t str, stays: impl Fn(usize) -> bool) -> Cow<'t, str> {
        let whole = self.token_texts.matcher.find_iter(text);
        let whole = whole.filter(|found| !stays(found.pattern().as_usize()));
        let mut hidden: Vec<Range<usize>> = whole.map(|found| found.range()).collect();
        hidden.extend(self.token_texts.fragments.at_ends_of(text));
        if hidden.is_empty() {
            return Cow::Borrowed(text);
        }
        hidden.sort_by_key(|range| range.start);
        let mut result = String::with_capacity(text.len() + 16 * hidden.len());
        let mut done = 0;
        for range in hidden {
            let start = range.start.max(done);
            result.push_str(&text[done..start]);
            self.sentinels
                .conceal(&text[start..range.end.max(start)], &mut result);
            done = range.end.max(start);
        }
        result.push_str(&text[done..]);
        Cow::Owned(result)
    }

    /// Takes a rendered text apart.
    pub(super) fn pieces(&self, rendered: &str) -> Vec<PromptSegment> {
        let (text, hidden) = self.revealed(rendered);
        let mut pieces = Pieces::default();
        if hidden.is_empty() {
            pieces.markup(&text);
            return pieces.0;
        }
        let mut done = 0;
        let mut next = hidden.iter().peekable();
        for token_text in self.token_texts.matcher.find_iter(&text) {
            while next
                .next_if(|range| range.end <= token_text.start())
                .is_some()
            {}
            if next
                .peek()
                .is_some_and(|range| range.start < token_text.end())
            {
                pieces.markup(&text[done..token_text.start()]);
                pieces.literal(&text[token_text.range()]);
                done = token_text.end();
            }
        }
        pieces.markup(&text[done..]);
        pieces.0
    }

    /// The text without sentinels, and where they were.
    fn revealed(&self, rendered: &str) -> (String, Vec<Range<usize>>) {
        let mut text = String::with_capacity(rendered.len());
        let mut hidden: Vec<Range<usize>> = Vec::new();
        for c in rendered.chars() {
            let start = text.len();
            let Some(original) = self.sentinels.reveal(c) else {
                text.push(c);
                continue;
            };
            text.push(original);
            match hidden.last_mut().filter(|last| last.end == start) {
                Some(last) => last.end = text.len(),
                None => hidden.push(start..text.len()),
            }
        }
        (text, hidden)
    }
}

/// Pieces without empty ones, neighbours of a kind joined.
#[derive(Default)]
struct Pieces(Vec<PromptSegment>);

impl Pieces {
    fn markup(&mut self, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(PromptSegment::Template(last)) => last.push_str(text),
            _ => self.0.push(PromptSegment::Template(text.to_owned())),
        }
    }

    fn literal(&mut self, text: &str) {
        match self.0.last_mut() {
            Some(PromptSegment::UserText(last)) => last.push_str(text),
            _ => self.0.push(PromptSegment::UserText(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests;
