//! Authentication: turns headers into a [`Caller`] that handlers find in the request.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use super::{AppState, error::ApiError};
use crate::auth::{AuthError, Caller, Secret};

/// Authenticates a request and adds its caller, or answers with an error.
pub(super) async fn authenticate(
    State(state): State<AppState>,
    mut request: Request,
    next: Next,
) -> Response {
    match caller(&state, request.headers()).await {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(denied) => ApiError::denied(denied).into_response(),
    }
}

/// Rejects callers that are no operators. Runs after [`authenticate`].
pub(super) async fn require_admin(request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Caller>();
    match caller.is_some_and(|caller| caller.is_admin) {
        true => next.run(request).await,
        false => ApiError::admin_required().into_response(),
    }
}

async fn caller(state: &AppState, headers: &HeaderMap) -> Result<Caller, AuthError> {
    // An open server ignores the secrets that clients send.
    let secret = match presented(headers) {
        Err(_) if state.gate.is_open() => None,
        presented => presented?,
    };
    state.gate.authenticate(secret).await
}

/// Returns the secret in the headers, if there is one.
fn presented(headers: &HeaderMap) -> Result<Option<Secret>, AuthError> {
    let secret = |name, read: fn(&[u8]) -> Option<Secret>| {
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(only), None) => read(only.as_bytes()).map(Some).ok_or(AuthError::Wrong),
            (Some(_), Some(_)) => Err(AuthError::Wrong),
        }
    };
    match secret(header::AUTHORIZATION.as_str(), Secret::of_authorization)? {
        Some(found) => Ok(Some(found)),
        None => secret("x-api-key", Secret::of_header),
    }
}
