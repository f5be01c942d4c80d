//! Whether the server is alive.

use axum::{Json, extract::State};
use serde_json::{Value, json};

use super::{AppState, error::ApiError};

/// `GET /health`: every model's engine runs.
pub(super) async fn health(State(state): State<AppState>) -> Result<Json<Value>, ApiError> {
    let mut models = state.service.models().iter();
    match models.find(|model| !model.engine.is_running()) {
        None => Ok(Json(json!({"status": "ok"}))),
        Some(model) => Err(ApiError::engine_stopped(&model.id)),
    }
}
