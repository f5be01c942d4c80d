//! Why the log refuses or fails.

use super::store::StorageError;

/// Why an operation on the log did not happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// There is no such response for this reader: unknown, deleted, not stored or another owner's.
    #[error("there is no such response")]
    NotFound,
    /// The session to continue or to fork cannot be, or can no longer be.
    #[error("the session to continue is not there")]
    ParentGone,
    /// Responses are not kept: the bound on their number is 0.
    #[error("responses are not kept: the server runs with --responses-store-max-entries 0")]
    PersistenceDisabled,
    /// The caller broke a rule; the text says which.
    #[error("{0}")]
    Invalid(String),
    /// Nothing can be written at present, or ever again before a restart; reads go on.
    #[error("{0}")]
    Unavailable(String),
    /// The store must not be opened; the sentence says why and what to do.
    #[error("{0}")]
    Refused(String),
    /// What is stored cannot be right.
    #[error("{0}")]
    Corrupt(String),
}

impl From<StorageError> for LogError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Full(_) | StorageError::Failed(_) => Self::Unavailable(error.to_string()),
            StorageError::Damaged(_) => Self::Corrupt(error.to_string()),
            StorageError::Refused(sentence) => Self::Refused(sentence),
        }
    }
}
