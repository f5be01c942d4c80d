//! `/v1/admin`: the responses of all owners, for operators.

use axum::{Json, extract::State};
use serde_json::json;

use super::{
    AppState,
    error::ApiError,
    openapi::{BadRequest, Guarded, Served},
    stored_responses::{self, Pairs},
};
use crate::{
    responses::Summary,
    session::LogError,
    translate::{Code, RequestError, pagination::Page},
    wire::{ItemList, values::PageQuery},
};

/// `GET /v1/admin/responses`: the responses of the key `owner`, or those without an owner; newest
/// first.
#[utoipa::path(
    get,
    path = "/v1/admin/responses",
    tag = "operations",
    operation_id = "listResponses",
    summary = "Everybody's responses",
    description = "For administrators: the responses of one key, or of none, newest first. `order` may only be `desc`.",
    params(("owner" = Option<String>, Query, description = "The id of the key that created them"), PageQuery),
    responses(
        (status = 200, description = "A page of responses, in few words each", body = ItemList),
        Guarded, BadRequest, Served,
    ),
)]
pub(super) async fn responses(
    State(state): State<AppState>,
    query: Pairs,
) -> Result<Json<ItemList>, ApiError> {
    let query = stored_responses::pairs(query)?;
    let page = Page::of_query(&query)?;
    if page.ascending {
        return Err(RequestError::of(
            Code::InvalidValue,
            "order",
            "Only `desc` is supported here.",
        )
        .into());
    }
    let owner = query.into_iter().find(|(name, _)| name == "owner");
    let owner = owner
        .map(|(_, owner)| owner)
        .filter(|owner| !owner.is_empty());
    let after = page.after.as_ref().map(|after| after.parse());
    let after = after.transpose().map_err(|_| no_such_after())?;
    let limit = page.limit;
    let listed = stored_responses::read(&state, move |service| {
        // One more entry shows if there are more.
        service.list(owner.as_deref(), after, limit + 1)
    });
    let mut summaries = match listed.await? {
        Err(LogError::NotFound) => return Err(no_such_after().into()),
        listed => listed?,
    };
    let has_more = summaries.len() > limit;
    summaries.truncate(limit);
    let id = |summary: Option<&Summary>| summary.map(|summary| summary.id.to_string());
    Ok(Json(ItemList {
        object: "list",
        first_id: id(summaries.first()),
        last_id: id(summaries.last()),
        data: summaries.iter().map(object).collect(),
        has_more,
    }))
}

fn no_such_after() -> RequestError {
    let message = "`after` is the id of no response of this list.";
    RequestError::of(Code::InvalidValue, "after", message)
}

fn object(summary: &Summary) -> serde_json::Value {
    json!({
        "id": summary.id.to_string(),
        "object": "response.summary",
        "owner": summary.owner,
        "model": summary.model,
        "created_at": summary.created_at_ms.div_euclid(1000),
        "bytes": summary.bytes,
    })
}
