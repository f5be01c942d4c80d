//! Unknown request fields, logged once each.

use std::{collections::HashSet, sync::Mutex};

use crate::{
    limits::{UNKNOWN_FIELD_CHARS_MAX, UNKNOWN_FIELDS_NAMED_MAX},
    lock::IgnorePoison as _,
};

/// The unknown fields that were logged.
#[derive(Debug, Default)]
pub(super) struct UnknownFields(Mutex<HashSet<String>>);

impl UnknownFields {
    /// Logs the fields that were not logged yet.
    pub(super) fn log(&self, fields: &[String]) {
        for field in fields {
            if let Some(field) = self.first_time(field) {
                tracing::warn!(field, "unknown request field ignored");
            }
        }
    }

    /// Returns the name to log; `None` if it was logged before.
    fn first_time(&self, field: &str) -> Option<String> {
        let name: String = field.chars().take(UNKNOWN_FIELD_CHARS_MAX).collect();
        let mut named = self.0.lock().ignore_poison();
        let is_new = named.len() < UNKNOWN_FIELDS_NAMED_MAX && named.insert(name.clone());
        is_new.then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_comes_once_and_not_without_end() {
        let fields = UnknownFields::default();
        assert_eq!(fields.first_time("a").as_deref(), Some("a"));
        assert_eq!(fields.first_time("a"), None);
        let long = fields.first_time(&"x".repeat(1000)).expect("new");
        assert_eq!(long.len(), UNKNOWN_FIELD_CHARS_MAX);
        let new = (0..1000).filter(|n| fields.first_time(&n.to_string()).is_some());
        assert_eq!(new.count(), UNKNOWN_FIELDS_NAMED_MAX - 2);
    }
}
