//! The baseline: a server that returns recorded responses of stemma.

use std::{convert::Infallible, net::SocketAddr};

use anyhow::{Result, ensure};
use axum::{
    Router,
    body::{Body, Bytes},
    http::header,
    response::{IntoResponse as _, Response},
    routing::post,
    serve::ListenerExt as _,
};
use futures::{StreamExt as _, stream};
use tokio::net::TcpListener;

use super::{
    load::{self, Connection},
    one_token, streamed,
};

/// Records one response of each kind from stemma, at `ours`, and starts a server that repeats them.
pub(crate) async fn start(ours: SocketAddr) -> Result<SocketAddr> {
    let json = recorded(ours, &one_token(true)).await?;
    let events = recorded(ours, &streamed()).await?;
    let frames = frames(&events);
    ensure!(frames.len() > 100, "{} frames", frames.len());
    let json = Bytes::from(json);
    let (written, ready) = (frames.clone(), frames);
    let routes = Router::new()
        .route(
            "/json",
            post(async move |_: Bytes| response("application/json", json.into())),
        )
        .route(
            "/written",
            // The yield after each frame makes hyper write the frame before it polls for the next.
            post(async move |_: Bytes| {
                let frames = stream::iter(written).then(async |frame| {
                    tokio::task::yield_now().await;
                    Ok::<_, Infallible>(frame)
                });
                response("text/event-stream", Body::from_stream(frames))
            }),
        )
        .route(
            "/ready",
            post(async move |_: Bytes| {
                let frames = stream::iter(ready).map(Ok::<_, Infallible>);
                response("text/event-stream", Body::from_stream(frames))
            }),
        );
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    tokio::spawn(async move { axum::serve(listener, routes).await });
    Ok(address)
}

fn response(content_type: &'static str, body: Body) -> Response {
    ([(header::CONTENT_TYPE, content_type)], body).into_response()
}

/// Returns the body of stemma's response to `request`. A chunked body includes its chunk framing.
async fn recorded(ours: SocketAddr, request: &serde_json::Value) -> Result<Vec<u8>> {
    let request = load::post(ours, "/v1/responses", request);
    let mut body = Vec::new();
    let mut connection = Connection::open(ours).await?;
    connection
        .send(&request, |bytes| body.extend_from_slice(bytes))
        .await?;
    Ok(body)
}

/// Splits a chunked body into server-sent events.
fn frames(body: &[u8]) -> Vec<Bytes> {
    let text = String::from_utf8_lossy(body);
    // Neither JSON nor event names contain a line feed. Chunk sizes stand before and after an event.
    let frames = text.split("\n\n").filter_map(|frame| {
        let begin = frame.find("event: ")?;
        Some(Bytes::from(format!("{}\n\n", &frame[begin..])))
    });
    frames.collect()
}
