//! The one error of this module: a sentence with an address.

use std::{fmt::Display, path::Path};

/// A model that cannot be loaded; the text names the file and the tensor.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LoadError(pub String);

impl LoadError {
    /// A fault of one tensor; the caller's caller adds the file.
    pub(super) fn tensor(name: &str, fault: impl Display) -> Self {
        Self(format!("tensor `{name}` {fault}"))
    }

    /// The fault in front of which the file's path is put.
    pub(super) fn in_file(self, path: &Path) -> Self {
        Self(format!("{}: {}", path.display(), self.0))
    }
}

impl From<String> for LoadError {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for LoadError {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}
