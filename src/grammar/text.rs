//! Grammars of plain texts, in JSON strings or bare.

use super::{
    GrammarError,
    json::escape::{self, Writing},
    lark::{self, Terminals},
};

/// A grammar of a text.
#[derive(Debug, Clone, PartialEq)]
pub enum TextGrammar {
    /// Text that this regular expression matches as a whole.
    Regex(String),
    /// Text of this grammar, in llguidance's variant of Lark; recursive rules nest to a bounded
    /// depth.
    Lark(String),
}

impl TextGrammar {
    /// The grammar of such texts as JSON writes them.
    pub(super) fn quoted(&self) -> Result<String, GrammarError> {
        let Terminals { lines, whole } = self.terminals(Writing::Json, "T")?;
        Ok(format!("start: {whole}\n{lines}"))
    }

    /// Returns the terminal of such texts, and the terminals that it consists of, whose names have
    /// this prefix.
    pub(super) fn terminals(
        &self,
        writing: Writing,
        prefix: &str,
    ) -> Result<Terminals, GrammarError> {
        match self {
            Self::Regex(expression) => Ok(Terminals {
                lines: String::new(),
                whole: escape::source(escape::parsed(expression)?, writing)?,
            }),
            Self::Lark(definition) => lark::terminals(definition, writing, prefix),
        }
    }

    pub(super) fn source(&self) -> &str {
        match self {
            Self::Regex(source) | Self::Lark(source) => source,
        }
    }
}
