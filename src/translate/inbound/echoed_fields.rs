//! Fields that the response echoes.

use serde_json::{Map, Value};

use crate::{
    conversation::EchoedFields,
    limits::{METADATA_KEY_CHARS_MAX, METADATA_PAIRS_MAX, METADATA_VALUE_CHARS_MAX},
    translate::{Code, RequestError},
};

/// Checks `metadata`; the others may be any text.
pub(in crate::translate) fn echoed_fields(
    metadata: Option<Map<String, Value>>,
    user: Option<String>,
    safety_identifier: Option<String>,
    prompt_cache_key: Option<String>,
) -> Result<EchoedFields, RequestError> {
    let metadata = metadata.unwrap_or_default();
    if metadata.len() > METADATA_PAIRS_MAX {
        let count = metadata.len();
        let message = format!("`metadata` may hold {METADATA_PAIRS_MAX} pairs, not {count}.");
        return Err(RequestError::invalid("metadata", message));
    }
    for (key, value) in &metadata {
        check_pair(key, value)?;
    }
    Ok(EchoedFields {
        metadata,
        user,
        safety_identifier,
        prompt_cache_key,
    })
}

/// True if `prompt_cache_retention` asks for more than memory. Other values say nothing.
pub(in crate::translate) fn keeps_prefix(retention: Option<&str>) -> bool {
    retention == Some("24h")
}

fn check_pair(key: &str, value: &Value) -> Result<(), RequestError> {
    if key.chars().count() > METADATA_KEY_CHARS_MAX {
        let message =
            format!("A key of `metadata` may have at most {METADATA_KEY_CHARS_MAX} characters.");
        return Err(RequestError::invalid("metadata", message));
    }
    let param = format!("metadata.{key}");
    let Value::String(text) = value else {
        let message = format!("`{param}` has the wrong type: expected a string.");
        return Err(RequestError::of(Code::InvalidType, param, message));
    };
    if text.chars().count() > METADATA_VALUE_CHARS_MAX {
        let message = format!("`{param}` may have at most {METADATA_VALUE_CHARS_MAX} characters.");
        return Err(RequestError::invalid(param, message));
    }
    Ok(())
}
