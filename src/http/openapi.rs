//! `/openapi.json`: the contract for programs, generated from the handlers and the mirrors of JSON.

use std::collections::BTreeMap;

use axum::Json;
use utoipa::{
    IntoResponses, Modify, OpenApi, ToSchema as _,
    openapi::{
        Components, Content, OpenApi as Document, Ref, RefOr, Response, ResponseBuilder, Schema,
        schema::AnyOf,
        security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme},
    },
};

use super::{admin, chat, completions, health, metrics, models, responses, stored_responses};
use crate::wire::{ErrorBody, EventBody};

/// `GET /openapi.json`, without authentication.
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "operations",
    operation_id = "getContract",
    summary = "This document",
    description = "The contract in the OpenAPI format.",
    security(()),
    responses((status = 200, description = "The document", body = Object), Open),
)]
pub(super) async fn document() -> Json<Document> {
    Json(Contract::openapi())
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "stemma",
        description = "OpenAI's Responses API, chat completions and completions over local models. Every \
            path under `/v1` is there without it, too. `null` always means absent, unknown fields are \
            ignored. Paths that are not here answer 404 and other methods 405, each with the same object as \
            all errors. Every answer has an `x-request-id`. A server without keys needs none.",
    ),
    paths(
        responses::create,
        responses::input_tokens,
        stored_responses::retrieve,
        stored_responses::delete,
        stored_responses::cancel,
        stored_responses::input_items,
        chat::create,
        completions::create,
        models::list,
        models::retrieve,
        admin::responses,
        metrics::metrics,
        health::health,
        document,
    ),
    tags(
        (name = "responses", description = "The Responses API"),
        (name = "chat", description = "Chat completions"),
        (name = "completions", description = "Texts without a chat template"),
        (name = "models", description = "What answers"),
        (name = "operations", description = "For those who run the server"),
    ),
    components(schemas(ErrorBody)),
    security((), ("bearer" = []), ("x-api-key" = [])),
    modifiers(&Shared),
)]
struct Contract;

/// Shared parts of several operations.
struct Shared;

impl Modify for Shared {
    fn modify(&self, document: &mut Document) {
        let components = document.components.get_or_insert_default();
        let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        components.add_security_scheme("bearer", bearer);
        let header = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new("x-api-key")));
        components.add_security_scheme("x-api-key", header);
        for (_, name, when) in ERRORS {
            components
                .responses
                .insert(name.to_owned(), error(when).into());
        }
        admit_overlaps(components);
    }
}

/// Allows an event to match several schemas, because the keys of one kind may be a subset of
/// another's.
fn admit_overlaps(components: &mut Components) {
    let name = EventBody::name();
    if let Some(RefOr::T(schema)) = components.schemas.get_mut(&*name)
        && let Schema::OneOf(kinds) = schema
    {
        let mut any = AnyOf::new();
        any.items = std::mem::take(&mut kinds.items);
        any.description = kinds.description.take();
        *schema = Schema::AnyOf(any);
    }
}

/// All error responses: status, name, and cause.
const ERRORS: [(u16, &str, &str); 10] = [
    (
        400,
        "BadRequest",
        "The request cannot be read, or a field of it is wrong or not supported; `param` names the field",
    ),
    (
        401,
        "Unauthorized",
        "The server needs a key, and this is none, or none any more",
    ),
    (
        403,
        "Forbidden",
        "The key may not do this, or a web page may not use the server",
    ),
    (404, "NotFound", "There is no such response or model"),
    (
        405,
        "MethodNotAllowed",
        "The path does not take this method",
    ),
    (413, "TooLarge", "The body is too large"),
    (
        415,
        "UnsupportedMediaType",
        "The body is not JSON by its headers, or compressed in an unknown way",
    ),
    (
        429,
        "TooManyRequests",
        "All places are taken, or what the key may ask for is used up; `Retry-After` says when to try again",
    ),
    (
        500,
        "ServerError",
        "The server had an error, of which its log says more under the request's id",
    ),
    (
        503,
        "Unavailable",
        "The server shuts down, an engine has stopped, or the session log cannot be written",
    ),
];

fn error(when: &str) -> Response {
    let body = Content::new(Some(Ref::from_schema_name(ErrorBody::name())));
    let response = ResponseBuilder::new().description(when);
    response.content("application/json", body).build()
}

type Responses = BTreeMap<String, RefOr<Response>>;

fn errors(statuses: &[u16]) -> Responses {
    let wanted = ERRORS
        .iter()
        .filter(|(status, ..)| statuses.contains(status));
    let reference = |(status, name, _): &(u16, &str, &str)| {
        (status.to_string(), Ref::from_response_name(*name).into())
    };
    wanted.map(reference).collect()
}

/// Responses of operations without authentication.
pub(super) struct Open;

/// Responses of operations that need a key.
pub(super) struct Guarded;

/// Responses of operations that need a key and have no body.
pub(super) struct Bodiless;

/// Responses of operations with a path parameter or a body.
pub(super) struct Named;

/// Responses of operations with query parameters only.
pub(super) struct BadRequest;

/// Responses of operations that need the engine or the log.
pub(super) struct Served;

impl IntoResponses for Open {
    fn responses() -> Responses {
        errors(&[403, 500])
    }
}

impl IntoResponses for Guarded {
    fn responses() -> Responses {
        errors(&[401, 403, 413, 415, 429, 500])
    }
}

impl IntoResponses for Bodiless {
    fn responses() -> Responses {
        errors(&[401, 403, 429, 500])
    }
}

impl IntoResponses for Named {
    fn responses() -> Responses {
        errors(&[400, 404])
    }
}

impl IntoResponses for BadRequest {
    fn responses() -> Responses {
        errors(&[400])
    }
}

impl IntoResponses for Served {
    fn responses() -> Responses {
        errors(&[503])
    }
}
