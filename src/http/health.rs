//! `/health`: liveness.

use axum::{Json, extract::State};

use super::{
    AppState,
    error::ApiError,
    openapi::{Open, Served},
};
use crate::wire::Health;

/// `GET /health`: 200 while every model's engine runs.
#[utoipa::path(
    get,
    path = "/health",
    tag = "operations",
    operation_id = "getHealth",
    summary = "Whether the server works",
    description = "Says that every model's engine runs.",
    security(()),
    responses((status = 200, description = "All is well", body = Health), Open, Served),
)]
pub(super) async fn health(State(state): State<AppState>) -> Result<Json<Health>, ApiError> {
    let mut models = state.service.models().iter();
    match models.find(|model| !model.engine.is_running()) {
        None => Ok(Json(Health { status: "ok" })),
        Some(model) => Err(ApiError::engine_stopped(&model.id)),
    }
}
