//! The error object.

use serde::Serialize;

/// Body of every answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorBody {
    /// The only key.
    pub error: ErrorObject,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorObject {
    /// For people.
    pub message: String,
    /// The class, such as `invalid_request_error`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Path of the request field at fault, such as `input[2].content[0].type`.
    pub param: Option<String>,
    /// For programs, such as `unsupported_parameter`.
    pub code: Option<&'static str>,
}
