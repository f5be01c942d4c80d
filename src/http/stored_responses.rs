//! `/v1/responses/{id}`: stored responses.

use axum::{
    Extension, Json,
    extract::{
        Path, Query, State,
        rejection::{PathRejection, QueryRejection},
    },
    http::header,
    response::{IntoResponse, Response},
};
use serde_json::Value;

use super::{
    AppState,
    error::ApiError,
    openapi::{Guarded, Named, Served},
    responses::blocking,
};
use crate::{
    auth::Caller,
    id::ResponseId,
    responses::Service,
    session::LogError,
    translate::{Code, RequestError, outbound, pagination::Page},
    wire::{self, Deleted, ItemList, values::PageQuery},
};

type IdPath = Result<Path<String>, PathRejection>;
/// The pairs of a query.
pub(super) type Pairs = Result<Query<Vec<(String, String)>>, QueryRejection>;

/// `GET /v1/responses/{id}`.
#[utoipa::path(
    get,
    path = "/v1/responses/{id}",
    tag = "responses",
    operation_id = "getResponse",
    summary = "A stored response",
    description = "Answers with a stored response, as it was answered. `stream` may only be `false`.",
    params(("id" = String, Path, description = "The response's id")),
    responses(
        (status = 200, description = "The response", body = wire::Response),
        Guarded, Named, Served,
    ),
)]
pub(super) async fn retrieve(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    id: IdPath,
    query: Pairs,
) -> Result<Response, ApiError> {
    let id = parse_id(id)?;
    refuse_replay(&pairs(query)?)?;
    let body = read(&state, move |service| service.response(&caller, id)).await??;
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// `DELETE /v1/responses/{id}`.
#[utoipa::path(
    delete,
    path = "/v1/responses/{id}",
    tag = "responses",
    operation_id = "deleteResponse",
    summary = "Delete a stored response",
    description = "Deletes a response. What continues it stays, with its conversation.",
    params(("id" = String, Path, description = "The response's id")),
    responses(
        (status = 200, description = "It is deleted", body = Deleted),
        Guarded, Named, Served,
    ),
)]
pub(super) async fn delete(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    id: IdPath,
) -> Result<Json<Deleted>, ApiError> {
    let id = parse_id(id)?;
    state.service.delete(&caller, id).await?;
    Ok(Json(Deleted {
        id: id.to_string(),
        object: "response",
        deleted: true,
    }))
}

/// `POST /v1/responses/{id}/cancel`.
#[utoipa::path(
    post,
    path = "/v1/responses/{id}/cancel",
    tag = "responses",
    operation_id = "cancelResponse",
    summary = "Cancel a response",
    description = "Ends a response that is in progress, and answers with what there is of it.",
    params(("id" = String, Path, description = "The response's id")),
    responses(
        (status = 200, description = "The response, cancelled", body = wire::Response),
        Guarded, Named, Served,
    ),
)]
pub(super) async fn cancel(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    id: IdPath,
) -> Result<Response, ApiError> {
    let id = parse_id(id)?;
    match state.service.cancel(&caller, id).await? {
        Some(record) => Ok(Json(outbound::response(&record)).into_response()),
        None => Err(RequestError::new(
            Code::NotCancellable,
            "The response has ended; only one that is in progress can be cancelled.",
        )
        .into()),
    }
}

/// `GET /v1/responses/{id}/input_items`.
#[utoipa::path(
    get,
    path = "/v1/responses/{id}/input_items",
    tag = "responses",
    operation_id = "listInputItems",
    summary = "The input of a response",
    description = "Lists the items of a stored response's own `input`, page by page.",
    params(("id" = String, Path, description = "The response's id"), PageQuery),
    responses(
        (status = 200, description = "A page of items", body = ItemList),
        Guarded, Named, Served,
    ),
)]
pub(super) async fn input_items(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    id: IdPath,
    query: Pairs,
) -> Result<Json<ItemList>, ApiError> {
    let id = parse_id(id)?;
    let page = Page::of_query(&pairs(query)?)?;
    let texts = read(&state, move |service| service.input_items(&caller, id)).await??;
    let items: Result<Vec<Value>, _> = texts
        .iter()
        .map(|text| serde_json::from_str(text))
        .collect();
    let items = items.map_err(|error| LogError::Corrupt(format!("an item of {id}: {error}")))?;
    Ok(Json(page.of_items(items)?))
}

/// Parses an id; an invalid id gets the answer of an unknown one.
fn parse_id(id: IdPath) -> Result<ResponseId, ApiError> {
    let Path(id) = id.map_err(|_| ApiError::bad_path())?;
    id.parse().map_err(|_| ApiError::no_response())
}

pub(super) fn pairs(query: Pairs) -> Result<Vec<(String, String)>, ApiError> {
    query
        .map(|Query(pairs)| pairs)
        .map_err(|_| ApiError::bad_query())
}

fn refuse_replay(query: &[(String, String)]) -> Result<(), RequestError> {
    match query
        .iter()
        .any(|(name, value)| name == "stream" && value != "false")
    {
        true => Err(RequestError::of(
            Code::UnsupportedParameter,
            "stream",
            "Stored responses cannot be streamed.",
        )),
        false => Ok(()),
    }
}

/// Runs work that reads from the disk on a blocking thread.
pub(super) async fn read<T: Send + 'static>(
    state: &AppState,
    work: impl FnOnce(&Service) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let service = state.service.clone();
    let done = blocking(move || work(&service)).await;
    done.ok_or_else(ApiError::shutting_down)
}
