//! Errors of the session log.

use super::store::StorageError;

/// An error of an operation on the session log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// No such response for this reader: unknown, deleted, expired, not stored, or of another
    /// owner.
    #[error("there is no such response")]
    NotFound,
    /// The session to continue or to fork does not exist, is deleted, or belongs to another owner.
    #[error("the session to continue is not there")]
    ParentGone,
    /// Responses are not stored: the limit on their number is 0.
    #[error("responses are not kept: the server runs with --responses-store-max-entries 0")]
    PersistenceDisabled,
    /// The caller broke a rule. The text names the rule.
    #[error("{0}")]
    Invalid(String),
    /// Writes fail, either for now (full disk) or until a restart (failed sync). Reads still work.
    #[error("{0}")]
    Unavailable(String),
    /// The store must not be opened. The sentence gives the reason and what to do.
    #[error("{0}")]
    Refused(String),
    /// Stored data is damaged or inconsistent.
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
