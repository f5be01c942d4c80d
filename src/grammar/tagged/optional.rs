//! Things in their order, of which some may be left out → rules.

use crate::grammar::builder::GrammarBuilder;

/// Notation of an empty text in rules.
pub(super) const NOTHING: &str = "\"\"";

/// A sequence with optional entries: separators, and what may follow.
pub(super) struct OptionalSequence<'a> {
    /// Between two of them.
    pub(super) between: &'a str,
    /// A thing of which there may be any number after the others.
    pub(super) any: Option<&'a str>,
}

impl OptionalSequence<'_> {
    /// Adds the rules of these things, each with whether it must be there; returns how others name them.
    pub(super) fn of(&self, things: &[(String, bool)], rules: &mut GrammarBuilder<'_>) -> String {
        let between = self.between;
        let (mut first, mut more) = (NOTHING.to_owned(), NOTHING.to_owned());
        if let Some(any) = self.any {
            more = rules.add("more", &format!("({between} {any})*"));
            first = rules.add("first", &format!("({any} {more})?"));
        }
        // From the last entry to the first, with the entries behind each.
        for (thing, is_required) in things.iter().rev() {
            let (or_first, or_more) = match is_required {
                true => (String::new(), String::new()),
                false => (format!(" | {first}"), format!(" | {more}")),
            };
            first = rules.add("first", &format!("{thing} {more}{or_first}"));
            more = rules.add("more", &format!("{between} {thing} {more}{or_more}"));
        }
        first
    }
}
