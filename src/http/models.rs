//! `/v1/models`.

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
};

use super::{AppState, error::ApiError};
use crate::{
    responses::ServedModel,
    wire::{Model, ModelList},
};

/// `GET /v1/models`.
pub(super) async fn list(State(state): State<AppState>) -> Json<ModelList> {
    let models = state.service.models().iter();
    Json(ModelList {
        object: "list",
        data: models.map(|model| object(model)).collect(),
    })
}

/// `GET /v1/models/{id}`; ids may hold slashes.
pub(super) async fn retrieve(
    State(state): State<AppState>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Model>, ApiError> {
    let Path(id) = id.map_err(|_| ApiError::bad_path())?;
    Ok(Json(object(state.service.models().get(&id)?)))
}

fn object(model: &ServedModel) -> Model {
    Model {
        id: model.id.clone(),
        object: "model",
        created: model.created_at.as_second(),
        owned_by: "stemma",
    }
}
