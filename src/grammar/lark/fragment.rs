//! Parts of an expression, as terminals write them.

use crate::grammar::GrammarError;

/// Most terminals of an expression, repeated uses included.
const TERMINALS_MAX: usize = 100_000;

/// Notation of an empty text.
const NO_TEXT: &str = "\"\"";

/// A part of an expression, as it is written.
#[derive(Debug, Clone)]
pub(crate) struct RegexFragment {
    pub(crate) source: String,
    /// Terminals in it.
    pub(crate) terminals: usize,
}

impl RegexFragment {
    /// Joins fragments in sequence, or with `|` as alternatives.
    ///
    /// # Errors
    /// If the result is too large.
    pub(crate) fn joined(parts: Vec<Self>, by: &str) -> Result<Self, GrammarError> {
        let terminals = parts.iter().map(|part| part.terminals);
        let terminals = terminals.fold(0, usize::saturating_add);
        if terminals > TERMINALS_MAX {
            return Err(GrammarError::whole(
                "the grammar is too large for one expression",
            ));
        }
        let sources: Vec<String> = parts.into_iter().map(|part| part.source).collect();
        let source = match sources.is_empty() {
            true => NO_TEXT.to_owned(),
            false => format!("({})", sources.join(by)),
        };
        Ok(Self { source, terminals })
    }

    pub(crate) fn repeated(self, min: u32, max: Option<u32>) -> Self {
        if max == Some(0) {
            let source = NO_TEXT.to_owned();
            return Self { source, ..self };
        }
        let times = match (min, max) {
            (0, None) => "*".to_owned(),
            (1, None) => "+".to_owned(),
            (0, Some(1)) => "?".to_owned(),
            (min, Some(max)) => format!("{{{min},{max}}}"),
            (min, None) => format!("{{{min},}}"),
        };
        Self {
            source: format!("({}){times}", self.source),
            ..self
        }
    }
}
