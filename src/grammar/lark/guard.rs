//! Grammars of clients: what must not be reached by them is refused before they are compiled.

use super::super::GrammarError;

/// The directives that are taken.
const DIRECTIVES: [&str; 2] = ["%ignore", "%import"];

/// A part of a grammar, as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LarkToken<'a> {
    /// A text in double quotes, with the flag behind it.
    Text(&'a str),
    /// A regular expression in slashes, with the flags behind it.
    Expression(&'a str),
    /// A comment, up to the end of its line.
    Comment(&'a str),
    /// `%` and a word.
    Directive(&'a str),
    /// One character of anything else.
    Other(&'a str),
}

impl<'a> LarkToken<'a> {
    /// The first part of a grammar or of its rest; `None` behind the last.
    ///
    /// # Errors
    /// When a text or an expression does not end.
    pub(crate) fn first(rest: &'a str) -> Result<Option<Self>, GrammarError> {
        let Some(first) = rest.chars().next() else {
            return Ok(None);
        };
        Ok(Some(match first {
            '"' => {
                let unclosed = || GrammarError::whole("a text is not closed by `\"`");
                Self::Text(flagged(rest, closing(rest, '"').ok_or_else(unclosed)?, "i"))
            }
            '#' => Self::Comment(line(rest)),
            '/' if rest.starts_with("//") => Self::Comment(line(rest)),
            '/' => {
                let unclosed = || GrammarError::whole("an expression is not closed by `/`");
                let end = closing(rest, '/').ok_or_else(unclosed)?;
                Self::Expression(flagged(rest, end, "imslux"))
            }
            '%' => {
                let word = line(rest).split_whitespace().next();
                Self::Directive(word.unwrap_or_default())
            }
            other => Self::Other(&rest[..other.len_utf8()]),
        }))
    }

    /// As it is written.
    pub(crate) fn source(self) -> &'a str {
        match self {
            Self::Text(source)
            | Self::Expression(source)
            | Self::Comment(source)
            | Self::Directive(source)
            | Self::Other(source) => source,
        }
    }
}

/// Refuses options of the compiler, other grammars and control tokens.
pub(crate) fn refuse_forbidden(definition: &str) -> Result<(), GrammarError> {
    let mut rest = definition;
    while let Some(part) = LarkToken::first(rest)? {
        match part {
            LarkToken::Other("@") => {
                return Err(GrammarError::whole(
                    "a grammar may not refer to others by `@`",
                ));
            }
            LarkToken::Other("<") => {
                return Err(GrammarError::whole(
                    "a grammar may not have tokens in `<` and `>`",
                ));
            }
            LarkToken::Directive(word) if !DIRECTIVES.contains(&word) => {
                return Err(GrammarError::whole(format!(
                    "`{word}` is not taken in grammars"
                )));
            }
            _ => {}
        }
        rest = &rest[part.source().len()..];
    }
    Ok(())
}

/// The rest of the first line.
pub(crate) fn line(text: &str) -> &str {
    text.split('\n').next().unwrap_or_default()
}

/// Returns the text that ends at `end`, with the flags that follow.
fn flagged<'a>(text: &'a str, end: usize, flags: &str) -> &'a str {
    let rest = text[end..].trim_start_matches(|c| flags.contains(c));
    &text[..text.len() - rest.len()]
}

/// The end of what such a mark opens and closes.
fn closing(text: &str, mark: char) -> Option<usize> {
    let mut is_escaped = true;
    for (at, c) in text.char_indices() {
        if c == mark && !is_escaped {
            return Some(at + c.len_utf8());
        }
        // The first mark opens.
        is_escaped = c == '\\' && !is_escaped && at > 0;
    }
    None
}
