//! Texts, ranges and expressions in a Lark grammar → what they match.

use regex_syntax::{escape, hir::Hir};

use crate::grammar::{GrammarError, json::escape::parsed, lark::guard::LarkToken};

/// The end of a range of characters, if this is the rest of one, and the bytes up to there.
pub(crate) fn range_end(rest: &str) -> Result<Option<(&str, usize)>, GrammarError> {
    let blank = [' ', '\t'];
    let Some(after) = rest.trim_start_matches(blank).strip_prefix("..") else {
        return Ok(None);
    };
    let end = after.trim_start_matches(blank);
    Ok(match LarkToken::first(end)? {
        Some(LarkToken::Text(to)) => Some((to, rest.len() - end.len() + to.len())),
        _ => None,
    })
}

/// Any character from one to another.
pub(crate) fn range(from: &str, to: &str) -> Result<Hir, GrammarError> {
    let character = |source: &str| {
        let value = value_of(source)?;
        let mut characters = value.chars();
        match (characters.next(), characters.next()) {
            (Some(only), None) => Ok(u32::from(only)),
            _ => Err(GrammarError::whole(format!(
                "{source} is not one character"
            ))),
        }
    };
    let (from, to) = (character(from)?, character(to)?);
    parsed(&format!("[\\x{{{from:x}}}-\\x{{{to:x}}}]"))
}

/// A text in double quotes, perhaps with the flag that lets case be anything.
pub(crate) fn text(source: &str) -> Result<Hir, GrammarError> {
    match source.strip_suffix('i') {
        Some(source) => parsed(&format!("(?i:{})", escape(&value_of(source)?))),
        None => Ok(Hir::literal(value_of(source)?.into_bytes())),
    }
}

/// Decodes a text in double quotes.
fn value_of(source: &str) -> Result<String, GrammarError> {
    let mut json = String::new();
    let mut characters = source.chars();
    while let Some(character) = characters.next() {
        json.push(character);
        if character == '\\' {
            match characters.next() {
                // Lark's own.
                Some('x') => json.push_str("u00"),
                other => json.extend(other),
            }
        }
    }
    serde_json::from_str(&json).map_err(|_| GrammarError::whole(format!("{source} is no text")))
}

/// An expression in slashes with its flags.
pub(crate) fn slashed(source: &str) -> Result<Hir, GrammarError> {
    let end = source.rfind('/').unwrap_or_default();
    let (pattern, flags) = (source.get(1..end).unwrap_or_default(), &source[end + 1..]);
    if flags.contains('l') {
        return Err(GrammarError::whole(
            "an expression may not depend on a locale",
        ));
    }
    // The last of it may be a comment.
    let end = if flags.contains('x') { "\n" } else { "" };
    parsed(&format!("(?{flags}:{pattern}{end})"))
}
