//! Template arguments of a request: `chat_template_kwargs` and reasoning effort.

use serde_json::{Map, Value};

use crate::{template::ChatTemplate, translate::RequestError};

/// Checks template arguments that a client or the server's operator gives; `param` is what they are
/// called.
///
/// # Errors
/// If one has the name of a variable that is the server's.
pub fn template_args(
    param: &str,
    args: Option<Map<String, Value>>,
) -> Result<Map<String, Value>, RequestError> {
    let args = args.unwrap_or_default();
    match args.keys().find(|name| ChatTemplate::is_reserved(name)) {
        None => Ok(args),
        Some(name) => {
            let message = format!("`{param}` may not set `{name}`, which comes from the request.");
            Err(RequestError::invalid(format!("{param}.{name}"), message))
        }
    }
}

/// Checks how much a model is asked to think: any word, since templates know different ones.
pub(in crate::translate) fn effort(
    param: &str,
    effort: Option<String>,
) -> Result<Option<String>, RequestError> {
    match effort {
        Some(effort) if effort.trim().is_empty() => {
            let message = format!("`{param}` may not be blank.");
            Err(RequestError::invalid(param, message))
        }
        effort => Ok(effort),
    }
}
