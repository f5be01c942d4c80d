//! Request ids, which connect an answer, its log lines and a user's report.

use std::sync::Arc;

use axum::{
    extract::Request,
    http::{self, HeaderValue},
};
use tower_http::request_id::{MakeRequestId, RequestId as IdHeader};
use tracing::Span;

use crate::{clock::Entropy, id::RequestId, limits::REQUEST_ID_BYTES_MAX};

const HEADER: &str = "x-request-id";

/// Removes a client's request id that is too long for the log or has other characters.
pub(super) async fn drop_unfit(mut request: Request) -> Request {
    let fits = |value: &HeaderValue| {
        value.len() <= REQUEST_ID_BYTES_MAX
            && !value.is_empty()
            && value.as_bytes().iter().all(u8::is_ascii_graphic)
    };
    if !request.headers().get(HEADER).is_none_or(fits) {
        request.headers_mut().remove(HEADER);
    }
    request
}

/// Generates ids for requests without one.
#[derive(Clone)]
pub(super) struct NewRequestId(Arc<dyn Entropy>);

impl NewRequestId {
    pub(super) fn new(entropy: Arc<dyn Entropy>) -> Self {
        Self(entropy)
    }
}

impl MakeRequestId for NewRequestId {
    fn make_request_id<B>(&mut self, _request: &http::Request<B>) -> Option<IdHeader> {
        let id = RequestId::from_bits(self.0.draw()).to_string();
        HeaderValue::try_from(id).ok().map(IdHeader::new)
    }
}

/// Returns the span of all log lines of a request.
pub(super) fn span<B>(request: &http::Request<B>) -> Span {
    let id = request.headers().get(HEADER);
    let id = id.and_then(|id| id.to_str().ok()).unwrap_or_default();
    tracing::info_span!("request", id, method = %request.method(), path = request.uri().path())
}
