//! Checks of a request before its body is read.

use std::time::Duration;

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http_body_util::{BodyExt, Limited};

use super::{AppState, error::ApiError};

/// Longest time that a refused body is still read.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// Rejects bodies whose headers announce too many bytes or an unknown encoding.
pub(super) async fn check(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let bytes_max = state.options.max_body_bytes;
    if !says_known_encoding(request.headers()) {
        return ApiError::unsupported_encoding().into_response();
    }
    if says_more_than(request.headers(), bytes_max) {
        drain(request, bytes_max).await;
        return ApiError::too_large(bytes_max).into_response();
    }
    next.run(request).await
}

fn says_known_encoding(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::CONTENT_ENCODING).iter();
    match (values.next(), values.next()) {
        (None, _) => true,
        (Some(only), None) => {
            matches!(
                only.as_bytes(),
                b"gzip" | b"deflate" | b"zstd" | b"identity"
            )
        }
        (Some(_), Some(_)) => false,
    }
}

fn says_more_than(headers: &HeaderMap, bytes_max: usize) -> bool {
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    length.is_some_and(|length| length > bytes_max as u64)
}

/// Reads the body for a while: many clients look for an answer only after they have sent
/// everything, and would see a broken connection instead of the error. Clients with `Expect:
/// 100-continue` look first.
async fn drain(request: Request, bytes_max: usize) {
    if request.headers().contains_key(header::EXPECT) {
        return;
    }
    let mut body = Limited::new(request.into_body(), bytes_max.saturating_mul(2));
    let read = async { while let Some(Ok(_)) = Limited::<Body>::frame(&mut body).await {} };
    let _ = tokio::time::timeout(DRAIN_TIME, read).await;
}
