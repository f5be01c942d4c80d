//! The error object.

use serde::Serialize;
use utoipa::ToSchema;

/// Body of every answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ErrorBody {
    /// The only key.
    pub error: ErrorObject,
}

/// The error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ErrorObject {
    /// For people.
    pub message: String,
    /// The class, such as `invalid_request_error`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Path of the request field at fault, such as `input[2].content[0].type`.
    #[schema(required)]
    pub param: Option<String>,
    /// For programs, such as `unsupported_parameter`.
    #[schema(required)]
    pub code: Option<&'static str>,
}
