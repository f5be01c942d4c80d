//! The objects of `/v1/models`.

use serde::Serialize;
use utoipa::ToSchema;

/// Answer of `GET /v1/models`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ModelList {
    /// Always `list`.
    pub object: &'static str,
    /// The loaded models.
    pub data: Vec<Model>,
}

/// One loaded model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Model {
    /// Id for requests.
    pub id: String,
    /// Always `model`.
    pub object: &'static str,
    /// When it was loaded, in seconds since 1970.
    pub created: i64,
    /// Always `stemma`.
    pub owned_by: &'static str,
}
