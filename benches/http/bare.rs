//! A server of one bare handler that returns what ours returned, and knows nothing else.

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

/// The bare server.
pub(crate) struct Bare;

impl Bare {
    /// Asks the server at `ours` once for everything, and starts one that repeats it.
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
                post(async move |_: Bytes| answer("application/json", json.into())),
            )
            .route(
                "/written",
                // To give way after each frame makes hyper write it before it asks for the next.
                post(async move |_: Bytes| {
                    let frames = stream::iter(written).then(async |frame| {
                        tokio::task::yield_now().await;
                        Ok::<_, Infallible>(frame)
                    });
                    answer("text/event-stream", Body::from_stream(frames))
                }),
            )
            .route(
                "/ready",
                post(async move |_: Bytes| {
                    let frames = stream::iter(ready).map(Ok::<_, Infallible>);
                    answer("text/event-stream", Body::from_stream(frames))
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
}

fn answer(kind: &'static str, body: Body) -> Response {
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

/// The body that ours answers with; of a stream, without the lines around its chunks.
async fn recorded(ours: SocketAddr, request: &serde_json::Value) -> Result<Vec<u8>> {
    let request = load::post(ours, "/v1/responses", request);
    let mut body = Vec::new();
    let mut connection = Connection::open(ours).await?;
    connection
        .ask(&request, |part| body.extend_from_slice(part))
        .await?;
    Ok(body)
}

/// The frames of a body in chunks.
fn frames(body: &[u8]) -> Vec<Bytes> {
    let text = String::from_utf8_lossy(body);
    // Neither JSON nor the names of events hold a line end; sizes of chunks stand before and after.
    let frames = text.split("\n\n").filter_map(|frame| {
        let begin = frame.find("event: ")?;
        Some(Bytes::from(format!("{}\n\n", &frame[begin..])))
    });
    frames.collect()
}
