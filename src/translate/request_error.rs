//! Request errors, with the parameter at fault.

use crate::limits;

/// A request error. All its fields are for the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RequestError {
    /// The kind.
    pub code: Code,
    /// Path of the field at fault, such as `input[2].content[0].type`.
    pub param: Option<String>,
    /// The message.
    pub message: String,
}

/// Kinds of refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The body is not JSON, or goes beyond what JSON may hold here.
    InvalidJson,
    /// A value has the wrong JSON type.
    InvalidType,
    /// A value is out of range or not one of those allowed.
    InvalidValue,
    /// Something that must be there is not.
    MissingParameter,
    /// The API has this, the server does not.
    UnsupportedParameter,
    /// The API has tools of this type, the server does not.
    UnsupportedTool,
    /// The server cannot take this kind of input.
    UnsupportedInput,
    /// There is nothing to answer.
    EmptyInput,
    /// There is no response to continue.
    PreviousResponseNotFound,
    /// The response is not in progress any more.
    NotCancellable,
    /// The server keeps no responses.
    PersistenceDisabled,
    /// No such model is loaded.
    ModelNotFound,
    /// The key may not use this model.
    ModelNotAllowed,
    /// The model cannot do this.
    UnsupportedModel,
    /// The model's chat template refused the conversation.
    TemplateRefused,
    /// The prompt does not fit the model's context.
    ContextLengthExceeded,
}

impl Code {
    /// As it stands in the error object.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidJson => "invalid_json",
            Self::InvalidType => "invalid_type",
            Self::InvalidValue => "invalid_value",
            Self::MissingParameter => "missing_required_parameter",
            Self::UnsupportedParameter => "unsupported_parameter",
            Self::UnsupportedTool => "unsupported_tool",
            Self::UnsupportedInput => "unsupported_input",
            Self::EmptyInput => "empty_input",
            Self::PreviousResponseNotFound => "previous_response_not_found",
            Self::PersistenceDisabled => "persistence_disabled",
            Self::NotCancellable => "not_cancellable",
            Self::ModelNotFound => "model_not_found",
            Self::ModelNotAllowed => "model_not_allowed",
            Self::UnsupportedModel => "unsupported_model",
            Self::TemplateRefused => "template_refused",
            Self::ContextLengthExceeded => "context_length_exceeded",
        }
    }
}

impl RequestError {
    /// A refusal that names no parameter.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            param: None,
            message: clip(message.into()),
        }
    }

    /// A refusal because of the field at this path.
    pub fn of(code: Code, param: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            param: Some(clip(param.into())),
            ..Self::new(code, message)
        }
    }

    /// Rejects the first requested parameter that this server does not have.
    pub(super) fn of_unsupported(asked_for: &[(&str, bool)]) -> Result<(), Self> {
        match asked_for.iter().find(|(_, asked)| *asked) {
            Some((param, _)) => Err(Self::unsupported(param)),
            None => Ok(()),
        }
    }

    /// The same about a parameter that another API calls otherwise.
    #[must_use]
    pub fn renamed(mut self, from: &str, to: &str) -> Self {
        if self.param.as_deref() == Some(from) {
            self.param = Some(to.to_owned());
        }
        self
    }

    /// The key may not use this model.
    pub fn model_not_allowed(model: &str) -> Self {
        let message = format!("This key may not use the model `{model}`.");
        Self::of(Code::ModelNotAllowed, "model", message)
    }

    /// There is no response to continue, for whatever reason: all reasons look the same.
    pub fn previous_not_found() -> Self {
        Self::of(
            Code::PreviousResponseNotFound,
            "previous_response_id",
            "There is no response of that id to continue.",
        )
    }

    /// The error of a server that stores no responses.
    pub fn nothing_kept() -> Self {
        let message = "This server keeps no responses: it runs with \
                       --responses-store-max-entries 0.";
        Self::new(Code::PersistenceDisabled, message)
    }

    /// The API has this parameter, the server does not.
    pub(super) fn unsupported(param: &str) -> Self {
        let message = format!("`{param}` is not supported.");
        Self::of(Code::UnsupportedParameter, param, message)
    }

    /// The field at this path is not one of the values allowed.
    pub(super) fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of(Code::InvalidValue, param, message)
    }

    /// The field at this path is not there.
    pub(super) fn missing(param: impl Into<String>) -> Self {
        let param = param.into();
        let message = format!("`{param}` is required.");
        Self::of(Code::MissingParameter, param, message)
    }
}

/// Shortens a text that may quote what a client sent.
fn clip(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(limits::ERROR_CHARS_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The field at this path is of another JSON type than `expected`.
pub(super) fn wrong_type(path: String, expected: &str) -> RequestError {
    let message = format!("`{path}` has the wrong type: expected {expected}.");
    RequestError::of(Code::InvalidType, path, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_shortened_between_characters() {
        let refusal = RequestError::new(Code::InvalidValue, "é".repeat(1_000_000));
        assert_eq!(refusal.message.chars().count(), limits::ERROR_CHARS_MAX + 1);
    }
}
