//! Reads `config.json` and checks every number that an executor relies on.

use std::{fmt::Display, path::PathBuf};

use serde_json::{Map, Value};

use crate::load::{LoadError, ModelFiles};

/// Largest width of any layer, and largest number of heads.
const WIDTH_MAX: usize = 1 << 20;
/// Largest number of layers.
const LAYERS_MAX: usize = 1 << 10;
/// Largest number of tokens in a vocabulary.
const VOCABULARY_MAX: usize = 1 << 24;
/// Largest number of tokens in a context.
const CONTEXT_MAX: usize = 1 << 28;

/// The quantity that a whole number counts, which bounds it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Count {
    /// A layer's width, or a number of heads.
    Width,
    /// Layers.
    Layers,
    /// Tokens of the vocabulary.
    Vocabulary,
    /// Positions.
    Positions,
}

impl Count {
    fn max(self) -> usize {
        match self {
            Self::Width => WIDTH_MAX,
            Self::Layers => LAYERS_MAX,
            Self::Vocabulary => VOCABULARY_MAX,
            Self::Positions => CONTEXT_MAX,
        }
    }
}

/// The keys of one JSON object of a configuration. An absent key and a null are the same.
pub(super) struct ConfigReader<'a> {
    keys: &'a Map<String, Value>,
    file: PathBuf,
    /// Keys of the enclosing objects, each with a dot behind.
    prefix: String,
}

impl<'a> ConfigReader<'a> {
    /// The whole configuration of a model.
    pub(super) fn of_files(files: &'a ModelFiles) -> Self {
        let file = if files.path.is_dir() {
            files.path.join("config.json")
        } else {
            files.path.clone()
        };
        Self {
            keys: &files.config,
            file,
            prefix: String::new(),
        }
    }

    /// These keys on top of `defaults`, a JSON object.
    pub(super) fn over(&self, mut defaults: Value) -> Map<String, Value> {
        let mut keys = defaults
            .as_object_mut()
            .map(std::mem::take)
            .unwrap_or_default();
        let given = self.keys.iter().filter(|(_, value)| !value.is_null());
        keys.extend(given.map(|(key, value)| (key.clone(), value.clone())));
        keys
    }

    /// Other keys at the same place.
    pub(super) fn with_keys<'b>(&self, keys: &'b Map<String, Value>) -> ConfigReader<'b> {
        ConfigReader {
            keys,
            file: self.file.clone(),
            prefix: self.prefix.clone(),
        }
    }

    /// Builds an error about one key: the file, the key, then `what`.
    pub(super) fn error(&self, key: &str, what: impl Display) -> LoadError {
        LoadError(format!(
            "{}: `{}{key}` {what}",
            self.file.display(),
            self.prefix
        ))
    }

    fn value(&self, key: &str) -> Option<&'a Value> {
        self.keys.get(key).filter(|value| !value.is_null())
    }

    fn required<T>(&self, key: &str, value: Option<T>) -> Result<T, LoadError> {
        value.ok_or_else(|| self.error(key, "is missing"))
    }

    /// Reads a whole number of at least 1; `None` if the key is missing.
    pub(super) fn optional_size(
        &self,
        key: &str,
        count: Count,
    ) -> Result<Option<usize>, LoadError> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let max = count.max();
        value
            .as_u64()
            .and_then(|number| usize::try_from(number).ok())
            .filter(|number| (1..=max).contains(number))
            .map(Some)
            .ok_or_else(|| {
                self.error(
                    key,
                    format_args!("is {value}, not a number from 1 to {max}"),
                )
            })
    }

    /// A whole number of at least 1.
    pub(super) fn size(&self, key: &str, count: Count) -> Result<usize, LoadError> {
        self.required(key, self.optional_size(key, count)?)
    }

    /// Reads a finite number above 0; `None` if the key is missing.
    pub(super) fn optional_positive(&self, key: &str) -> Result<Option<f32>, LoadError> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        value
            .as_f64()
            .map(|number| number as f32)
            .filter(|number| number.is_finite() && *number > 0.0)
            .map(Some)
            .ok_or_else(|| self.error(key, format_args!("is {value}, not a number above 0")))
    }

    /// A finite number above 0.
    pub(super) fn positive(&self, key: &str) -> Result<f32, LoadError> {
        self.required(key, self.optional_positive(key)?)
    }

    /// True or false, or `None` where there is neither.
    pub(super) fn optional_flag(&self, key: &str) -> Result<Option<bool>, LoadError> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let flag = value.as_bool();
        flag.map(Some)
            .ok_or_else(|| self.error(key, format_args!("is {value}, not true or false")))
    }

    /// True or false; false where there is neither.
    pub(super) fn flag(&self, key: &str) -> Result<bool, LoadError> {
        Ok(self.optional_flag(key)?.unwrap_or(false))
    }

    /// Reads a string; `None` if the key is missing.
    pub(super) fn optional_text(&self, key: &str) -> Result<Option<&'a str>, LoadError> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let text = value.as_str();
        text.map(Some)
            .ok_or_else(|| self.error(key, format_args!("is {value}, not a string")))
    }

    /// A string.
    pub(super) fn text(&self, key: &str) -> Result<&'a str, LoadError> {
        self.required(key, self.optional_text(key)?)
    }

    /// Reads a list of strings; `None` if the key is missing.
    pub(super) fn optional_texts(&self, key: &str) -> Result<Option<Vec<&'a str>>, LoadError> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let texts: Option<Vec<&str>> = value
            .as_array()
            .and_then(|list| list.iter().map(Value::as_str).collect());
        texts
            .map(Some)
            .ok_or_else(|| self.error(key, "is not a list of strings"))
    }

    /// Reads an object; `None` if the key is missing.
    pub(super) fn optional_section(&self, key: &str) -> Result<Option<Self>, LoadError> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let keys = value
            .as_object()
            .ok_or_else(|| self.error(key, "is not an object"))?;
        let prefix = format!("{}{key}.", self.prefix);
        Ok(Some(Self {
            keys,
            file: self.file.clone(),
            prefix,
        }))
    }

    /// An object.
    pub(super) fn section(&self, key: &str) -> Result<Self, LoadError> {
        self.required(key, self.optional_section(key)?)
    }
}
