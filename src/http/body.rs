//! JSON request bodies.

use std::{error::Error, io};

use axum::{
    body::{self, Bytes},
    extract::{FromRequest, Request},
    http::{HeaderMap, header},
};
use http_body_util::LengthLimitError;

use super::{AppState, error::ApiError};

/// The whole body of a request with a JSON content type. Does not check that it is valid JSON.
pub(super) struct JsonBody(pub(super) Bytes);

impl FromRequest<AppState> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        if !says_json(request.headers()) {
            return Err(ApiError::unsupported_media_type());
        }
        let bytes_max = state.options.max_body_bytes;
        match body::to_bytes(request.into_body(), bytes_max).await {
            Ok(bytes) => Ok(Self(bytes)),
            Err(error) => Err(refuse(&error, bytes_max)),
        }
    }
}

fn says_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE);
    let Some(value) = value.and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let essence = value.split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"))
}

fn refuse(error: &axum::Error, bytes_max: usize) -> ApiError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if current.is::<LengthLimitError>() {
            return ApiError::too_large(bytes_max);
        }
        // The decoders' errors wrap those of the inner body without exposing them as their source.
        cause = match current.downcast_ref::<io::Error>() {
            Some(error) => error.get_ref().map(|inner| inner as _),
            None => current.source(),
        };
    }
    ApiError::unreadable_body("it ends early or is not compressed as its Content-Encoding says")
}
