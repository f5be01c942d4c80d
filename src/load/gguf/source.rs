//! Metadata and tensors of a GGUF file, as the source of configuration keys.

use serde_json::{Map, Value};

use super::{
    architecture::Architecture,
    header::StoredTensor,
    metadata::{self, Metadata},
};
use crate::load::{LoadError, MappedFile};

/// The metadata and tensors that the keys are made from.
pub(super) struct Source<'a> {
    pub(super) architecture: Architecture,
    pub(super) metadata: &'a Metadata,
    pub(super) tensors: &'a [StoredTensor],
    pub(super) file: &'a MappedFile,
}

impl Source<'_> {
    pub(super) fn tensor(&self, name: &str) -> Option<&StoredTensor> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }

    /// A count that must be there and not be zero.
    pub(super) fn required(&self, key: &str) -> Result<usize, LoadError> {
        self.count(key)?.ok_or_else(|| self.missing(key))
    }

    /// A count that must not be zero where it is there.
    pub(super) fn count(&self, key: &str) -> Result<Option<usize>, LoadError> {
        match self.optional(key)? {
            Some(0) => Err(format!("metadata `{}` is 0", self.key(key)).into()),
            other => Ok(other),
        }
    }

    /// A whole number, which some files give as an array with one for each layer.
    pub(super) fn optional(&self, key: &str) -> Result<Option<usize>, LoadError> {
        let key = self.key(key);
        let Some(metadata::Value::Array(layers)) = self.metadata.get(&key) else {
            return Ok(self
                .metadata
                .integer::<u32>(&key)?
                .map(|count| count as usize));
        };
        match layers.split_first() {
            Some((metadata::Value::Integer(first), rest))
                if rest
                    .iter()
                    .all(|other| *other == metadata::Value::Integer(*first)) =>
            {
                let first = u32::try_from(*first).map(|count| Some(count as usize));
                first.map_err(|_| format!("metadata `{key}` is out of range").into())
            }
            _ => {
                Err(format!("metadata `{key}` differs between layers, which cannot be run").into())
            }
        }
    }

    pub(super) fn float(&self, key: &str) -> Result<Option<f64>, LoadError> {
        self.metadata.float(&self.key(key))
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<String>, LoadError> {
        self.metadata.text(&self.key(key))
    }

    pub(super) fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture.name())
    }

    pub(super) fn missing(&self, key: &str) -> LoadError {
        format!("has no metadata `{}`", self.key(key)).into()
    }
}

/// The map inside a JSON object, without the keys whose value is null.
pub(super) fn into_map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .collect(),
        _ => Map::new(),
    }
}
