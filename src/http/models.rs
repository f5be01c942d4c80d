//! `/v1/models`.

use axum::{
    Extension, Json,
    extract::{Path, State, rejection::PathRejection},
};

use super::{
    AppState,
    error::ApiError,
    openapi::{Guarded, Named},
};
use crate::{
    auth::Caller,
    responses::ServedModel,
    translate::RequestError,
    wire::{Model, ModelList},
};

/// `GET /v1/models`: the models that the key may use.
#[utoipa::path(
    get,
    path = "/v1/models",
    tag = "models",
    operation_id = "listModels",
    summary = "The loaded models",
    description = "Lists the models that the key may use.",
    responses((status = 200, description = "The models", body = ModelList), Guarded),
)]
pub(super) async fn list(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
) -> Json<ModelList> {
    let models = state.service.models().iter();
    let models = models.filter(|model| caller.may_use(&model.id));
    Json(ModelList {
        object: "list",
        data: models.map(|model| object(model)).collect(),
    })
}

/// `GET /v1/models/{id}`; ids may contain slashes.
#[utoipa::path(
    get,
    path = "/v1/models/{id}",
    tag = "models",
    operation_id = "getModel",
    summary = "A loaded model",
    description = "Answers with one model. Slashes of its id may be escaped or not.",
    params(("id" = String, Path, description = "The model's id")),
    responses((status = 200, description = "The model", body = Model), Guarded, Named),
)]
pub(super) async fn retrieve(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Model>, ApiError> {
    let Path(id) = id.map_err(|_| ApiError::bad_path())?;
    let model = state.service.models().get(&id)?;
    match caller.may_use(&model.id) {
        true => Ok(Json(object(model))),
        false => Err(RequestError::model_not_allowed(&model.id).into()),
    }
}

fn object(model: &ServedModel) -> Model {
    Model {
        id: model.id.clone(),
        object: "model",
        created: model.created_at.as_second(),
        owned_by: "stemma",
    }
}
