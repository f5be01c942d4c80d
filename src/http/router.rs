//! The route table, and the middleware around every route.

use axum::{
    Router, middleware,
    routing::{get, post},
};
use tower_http::{
    catch_panic::CatchPanicLayer,
    decompression::RequestDecompressionLayer,
    limit::RequestBodyLimitLayer,
    request_id::{PropagateRequestIdLayer, SetRequestIdLayer},
    trace::{DefaultOnResponse, TraceLayer},
};
use tracing::Level;

use super::{
    AppState, admin, auth, body_limit, chat, completions, error, health, metrics, models, openapi,
    origin_guard, request_id, responses, stored_responses,
};

/// Returns the API's routes, which are served both under `/v1` and without it. Authenticates before
/// it reads a body.
fn api(state: &AppState) -> Router<AppState> {
    let admin = Router::new()
        .route("/admin/responses", get(admin::responses))
        .layer(middleware::from_fn(auth::require_admin));
    Router::new()
        .route("/responses", post(responses::create))
        .route(
            "/responses/{id}",
            get(stored_responses::retrieve).delete(stored_responses::delete),
        )
        .route("/responses/input_tokens", post(responses::input_tokens))
        .route("/responses/{id}/cancel", post(stored_responses::cancel))
        .route(
            "/responses/{id}/input_items",
            get(stored_responses::input_items),
        )
        .route("/chat/completions", post(chat::create))
        .route("/completions", post(completions::create))
        .route("/models", get(models::list))
        .route("/models/{*id}", get(models::retrieve))
        .merge(admin)
        .layer(RequestDecompressionLayer::new())
        .layer(RequestBodyLimitLayer::new(state.options.max_body_bytes))
        .layer(middleware::from_fn_with_state(
            state.clone(),
            body_limit::check,
        ))
        .layer(middleware::from_fn_with_state(
            state.clone(),
            auth::authenticate,
        ))
}

/// Routes for operators' tools.
fn metrics(state: &AppState) -> Router<AppState> {
    Router::new()
        .route("/metrics", get(metrics::metrics))
        .layer(middleware::from_fn(auth::require_admin))
        .layer(middleware::from_fn_with_state(
            state.clone(),
            auth::authenticate,
        ))
}

/// Builds the whole server.
pub fn router(state: AppState) -> Router {
    let routes = Router::new()
        .route("/health", get(health::health))
        .route("/openapi.json", get(openapi::document))
        .merge(metrics(&state))
        .merge(api(&state))
        .nest("/v1", api(&state))
        .fallback(error::unknown_route)
        .method_not_allowed_fallback(error::wrong_method);
    let routes = routes.layer(middleware::from_fn_with_state(
        state.clone(),
        metrics::count,
    ));
    surround(routes, &state).with_state(state)
}

/// Adds the middleware. The last layer is the outermost: it sees a request first.
fn surround(routes: Router<AppState>, state: &AppState) -> Router<AppState> {
    let respond = DefaultOnResponse::new().level(Level::INFO);
    let new_id = request_id::NewRequestId::new(state.entropy.clone());
    routes
        .layer(origin_guard::cors(&state.options))
        .layer(middleware::from_fn_with_state(
            state.clone(),
            origin_guard::check,
        ))
        .layer(CatchPanicLayer::custom(error::panicked))
        .layer(PropagateRequestIdLayer::x_request_id())
        .layer(
            TraceLayer::new_for_http()
                .make_span_with(request_id::span)
                .on_response(respond),
        )
        .layer(SetRequestIdLayer::x_request_id(new_id))
        .layer(middleware::map_request(request_id::drop_unfit))
}
