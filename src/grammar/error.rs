//! Errors of grammars.

/// The reason why a grammar cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// It cannot be enforced; for the client.
    #[error("{reason}")]
    Unsupported {
        /// Path of the faulty keyword in the schema, by keys and indices; empty for the whole.
        path: Vec<String>,
        /// Description for the client.
        reason: String,
    },
    /// The server's own fault; for the operator.
    #[error("{0}")]
    Broken(String),
}

impl GrammarError {
    /// The same about the whole.
    #[must_use]
    pub fn as_whole(self) -> Self {
        match self {
            Self::Unsupported { reason, .. } => Self::whole(reason),
            broken @ Self::Broken(_) => broken,
        }
    }

    /// About the grammar as a whole.
    pub(super) fn whole(reason: impl Into<String>) -> Self {
        Self::Unsupported {
            path: Vec::new(),
            reason: reason.into(),
        }
    }
}
