//! Errors for clients: the only place that names status codes.

use std::{any::Any, time::Duration};

use axum::{
    Json,
    http::{HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};

use crate::{
    auth::{AuthError, LimitExceeded},
    conversation::Failure,
    responses::CreateError,
    session::LogError,
    translate::{Code, RequestError, outbound},
    wire::{ErrorBody, ErrorObject},
};

/// `Retry-After` of a full server, where slots may be free at any time.
const CROWDED_RETRY_AFTER: Duration = Duration::from_secs(1);

/// An error object and its status.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    error: ErrorObject,
    retry_after: Option<Duration>,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let kind = match status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        Self {
            status,
            error: ErrorObject {
                message: message.into(),
                kind,
                param: None,
                code: Some(code),
            },
            retry_after: None,
        }
    }

    /// Converts the error of a turn that was not started.
    pub(super) fn of_create(error: CreateError, retry_after: Duration) -> Self {
        match error {
            CreateError::Refused(refusal) => refusal.into(),
            CreateError::Busy => Self {
                retry_after: Some(retry_after),
                ..Self::new(
                    StatusCode::TOO_MANY_REQUESTS,
                    "concurrency_limit_exceeded",
                    "The server has as many requests as it takes; try again later.",
                )
            },
            CreateError::Log(error) => error.into(),
            CreateError::ShuttingDown => Self::shutting_down(),
            CreateError::Broken(reason) => {
                tracing::error!(reason, "a turn could not begin");
                Self::internal()
            }
        }
    }

    /// Converts an authentication error.
    pub(super) fn denied(denied: AuthError) -> Self {
        let message = match denied {
            AuthError::Missing => {
                "This server needs a key: send it as `Authorization: Bearer KEY` or `x-api-key: KEY`."
            }
            AuthError::Wrong => "The key is not one of this server's.",
            AuthError::Expired => "The key has expired.",
            AuthError::Disabled => "The key is disabled.",
            AuthError::Crowded => {
                return Self {
                    retry_after: Some(CROWDED_RETRY_AFTER),
                    ..Self::new(
                        StatusCode::TOO_MANY_REQUESTS,
                        "rate_limit_exceeded",
                        "Too many secrets are being checked for this key; try again later.",
                    )
                };
            }
        };
        Self::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message)
    }

    /// The error for callers that are no operators.
    pub(super) fn admin_required() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "admin_required",
            "This route needs the key of an administrator.",
        )
    }

    /// The error for a request to another host.
    pub(super) fn foreign_host() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "host_not_allowed",
            "The Host header names a host that this server does not serve; see --allowed-host.",
        )
    }

    /// The error for a request from a page of another origin.
    pub(super) fn foreign_origin() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "origin_not_allowed",
            "Pages of this origin may not use the server; see --cors-origin.",
        )
    }

    /// Converts the failure of a turn that has sent nothing yet.
    pub(super) fn of_failure(failure: Failure) -> Self {
        let status = match failure {
            Failure::Server => StatusCode::INTERNAL_SERVER_ERROR,
            Failure::ShuttingDown | Failure::Storage => StatusCode::SERVICE_UNAVAILABLE,
            Failure::QueueTimeout => StatusCode::TOO_MANY_REQUESTS,
        };
        Self {
            status,
            error: outbound::failure(failure),
            retry_after: (failure == Failure::QueueTimeout).then_some(CROWDED_RETRY_AFTER),
        }
    }

    /// The error of a server that is shutting down.
    pub(super) fn shutting_down() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "overloaded",
            "The server is shutting down.",
        )
    }

    /// The error for an unknown, deleted or unstored response.
    pub(super) fn no_response() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "not_found",
            "There is no response of that id.",
        )
    }

    /// The error for internal faults; the log has the details.
    pub(super) fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "server_error",
            "The server had an error. Its log says more under this answer's x-request-id.",
        )
    }

    /// The error for a model whose engine has stopped.
    pub(super) fn engine_stopped(model: &str) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "engine_stopped",
            format!("The engine of `{model}` has stopped."),
        )
    }

    /// The error for a body beyond the limit.
    pub(super) fn too_large(bytes_max: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "request_too_large",
            format!("The body is larger than {bytes_max} bytes, after decompression."),
        )
    }

    /// The error for a body that does not match its headers.
    pub(super) fn unreadable_body(reason: &str) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "invalid_body",
            format!("The body could not be read: {reason}."),
        )
    }

    /// The error for a content type other than JSON.
    pub(super) fn unsupported_media_type() -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "The Content-Type must be application/json.",
        )
    }

    /// The error for an unknown content encoding.
    pub(super) fn unsupported_encoding() -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_encoding",
            "The Content-Encoding must be one of gzip, deflate and zstd.",
        )
    }

    /// The error for a query with invalid escapes.
    pub(super) fn bad_query() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "invalid_query",
            "The query is not valid.",
        )
    }

    /// The error for a path with invalid escapes.
    pub(super) fn bad_path() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "invalid_path",
            "The path is not valid.",
        )
    }
}

impl From<LimitExceeded> for ApiError {
    fn from(denial: LimitExceeded) -> Self {
        let (code, message, after) = match denial {
            LimitExceeded::Requests(limit, after) => (
                "rate_limit_exceeded",
                format!("The key may make {limit} requests a minute."),
                after,
            ),
            LimitExceeded::Tokens(limit, after) => (
                "rate_limit_exceeded",
                format!("The key may use {limit} tokens a minute."),
                after,
            ),
            LimitExceeded::Concurrent(limit) => (
                "concurrency_limit_exceeded",
                format!("The key may make {limit} requests at once."),
                CROWDED_RETRY_AFTER,
            ),
        };
        Self {
            retry_after: Some(after),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, code, message)
        }
    }
}

impl From<RequestError> for ApiError {
    fn from(refusal: RequestError) -> Self {
        let status = match refusal.code {
            Code::ModelNotFound => StatusCode::NOT_FOUND,
            Code::ModelNotAllowed => StatusCode::FORBIDDEN,
            _ => StatusCode::BAD_REQUEST,
        };
        let mut error = Self::new(status, refusal.code.as_str(), refusal.message);
        error.error.param = refusal.param;
        error
    }
}

impl From<LogError> for ApiError {
    fn from(error: LogError) -> Self {
        let (status, code, message) = match error {
            LogError::NotFound | LogError::ParentGone => return Self::no_response(),
            LogError::PersistenceDisabled => return RequestError::nothing_kept().into(),
            LogError::Unavailable(_) | LogError::Refused(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "storage_unavailable",
                "The session log cannot be written at present.",
            ),
            LogError::Corrupt(_) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "storage_corrupt",
                "What is stored is damaged; the server's log says more.",
            ),
            LogError::Invalid(_) => {
                tracing::error!(%error, "the session log refuses");
                return Self::internal();
            }
        };
        tracing::error!(%error, "the session log failed");
        Self::new(status, code, message)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = Json(ErrorBody { error: self.error });
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        if let Some(after) = self.retry_after {
            let seconds = after.as_secs_f64().ceil().max(1.0);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds as u64));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Answers requests to unknown routes.
pub(super) async fn unknown_route(method: Method, uri: Uri) -> ApiError {
    let message = format!("There is no route {method} {}.", uri.path());
    ApiError::new(StatusCode::NOT_FOUND, "not_found", message)
}

/// Answers requests with a method that the route does not have.
pub(super) async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("The route {} does not take {method}.", uri.path());
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        message,
    )
}

/// Answers after a handler's panic; the panic's message stays in the log.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the layer hands over the box"
)]
pub(super) fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    tracing::error!(panic = text.unwrap_or("no text"), "a handler panicked");
    ApiError::internal().into_response()
}
