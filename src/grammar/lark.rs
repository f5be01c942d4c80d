//! Grammars of clients: what must not be reached by them is refused before they are compiled.

use super::GrammarError;

/// The directives that are taken.
const DIRECTIVES: [&str; 2] = ["%ignore", "%import"];

/// Refuses options of the compiler, other grammars and control tokens.
pub(super) fn refuse_forbidden(definition: &str) -> Result<(), GrammarError> {
    let mut rest = definition;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => closing(rest, '"').ok_or_else(|| refused("a text is not closed by `\"`"))?,
            '#' => line(rest).len(),
            '/' if rest.starts_with("//") => line(rest).len(),
            '/' => {
                closing(rest, '/').ok_or_else(|| refused("an expression is not closed by `/`"))?
            }
            '@' => return Err(refused("a grammar may not refer to others by `@`")),
            '<' => return Err(refused("a grammar may not have tokens in `<` and `>`")),
            '%' => {
                let word = line(rest).split_whitespace().next().unwrap_or_default();
                if !DIRECTIVES.contains(&word) {
                    return Err(refused(format!("`{word}` is not taken in grammars")));
                }
                word.len()
            }
            other => other.len_utf8(),
        };
        rest = &rest[length..];
    }
    Ok(())
}

fn refused(reason: impl Into<String>) -> GrammarError {
    GrammarError::whole(reason)
}

fn line(text: &str) -> &str {
    text.split('\n').next().unwrap_or_default()
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
