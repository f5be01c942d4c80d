//! Small JSON and text files of a model's folder.

use std::{
    fs::File,
    io::{ErrorKind, Read},
    path::Path,
};

use serde_json::{Map, Value};

use super::LoadError;
use crate::limits::MODEL_CONFIG_BYTES_MAX;

/// The object in a JSON file, or `None` where there is no such file.
pub(super) fn read_object(path: &Path) -> Result<Option<Map<String, Value>>, LoadError> {
    let Some(text) = read_text(path)? else {
        return Ok(None);
    };
    let object = serde_json::from_str(&text)
        .map_err(|e| LoadError(format!("{}: is not a JSON object: {e}", path.display())))?;
    Ok(Some(object))
}

/// The text of a file, or `None` where there is no such file.
pub(super) fn read_text(path: &Path) -> Result<Option<String>, LoadError> {
    let fault = |e| LoadError(format!("{}: cannot be read: {e}", path.display()));
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(fault(e)),
    };
    let mut text = String::new();
    file.take(MODEL_CONFIG_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(fault)?;
    if text.len() as u64 > MODEL_CONFIG_BYTES_MAX {
        let fault = format!("is larger than {MODEL_CONFIG_BYTES_MAX} bytes");
        return Err(LoadError(fault).in_file(path));
    }
    Ok(Some(text))
}
