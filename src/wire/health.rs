//! Answer of a health check.

use serde::Serialize;
use utoipa::ToSchema;

/// Answer of `GET /health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Health {
    /// Always `ok`; anything else is an error.
    pub status: &'static str,
}
