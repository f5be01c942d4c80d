//! Answers about stored responses, besides the responses.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// A page of items.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ItemList {
    pub object: &'static str,
    #[schema(value_type = Vec<Object>)]
    pub data: Vec<Value>,
    #[schema(required)]
    pub first_id: Option<String>,
    #[schema(required)]
    pub last_id: Option<String>,
    pub has_more: bool,
}

/// A response that was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct Deleted {
    pub id: String,
    pub object: &'static str,
    pub deleted: bool,
}
