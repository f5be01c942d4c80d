//! Request bodies: sizes, compression, and invalid JSON.

use std::io::Write as _;

use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};
use reqwest::{
    Response,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};
use serde_json::json;
use stemma::http::HttpOptions;

use crate::support::{Setup, TestApp, error};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("memory")
}

async fn small() -> TestApp {
    let setup = Setup {
        options: HttpOptions {
            max_body_bytes: 10_000,
            ..HttpOptions::default()
        },
        ..Setup::default()
    };
    setup.start().await
}

async fn post_encoded(app: &TestApp, encoding: &str, body: Vec<u8>) -> Response {
    let request = app.client.post(format!("{}/v1/responses", app.url));
    let request = request
        .header(CONTENT_TYPE, "application/json")
        .header(CONTENT_ENCODING, encoding);
    request.body(body).send().await.expect("an answer")
}

#[tokio::test]
async fn compressed_bodies_are_decompressed() {
    let app = small().await;
    let body = json!({"input": "x"}).to_string().into_bytes();
    for (encoding, bytes) in [
        ("gzip", gzip(&body)),
        ("deflate", deflate(&body)),
        ("zstd", zstd(&body)),
        ("identity", body.clone()),
    ] {
        let answer = post_encoded(&app, encoding, bytes).await;
        assert_eq!(answer.status(), 200, "{encoding}");
    }
}

#[tokio::test]
async fn decompression_stops_at_the_body_limit() {
    let app = small().await;
    let bomb = vec![b' '; 50 << 20];
    for (encoding, bytes) in [
        ("gzip", gzip(&bomb)),
        ("deflate", deflate(&bomb)),
        ("zstd", zstd(&bomb)),
    ] {
        let refused = error(post_encoded(&app, encoding, bytes).await, 413).await;
        assert_eq!(refused["code"], "request_too_large", "{encoding}");
    }
}

#[tokio::test]
async fn the_body_limit_also_applies_to_compressed_bytes() {
    // Empty deflate blocks: input without output, without end.
    let mut bytes = vec![0x78, 0x01];
    bytes.extend([0, 0, 0, 0xff, 0xff].repeat(4000));
    let app = small().await;
    error(post_encoded(&app, "deflate", bytes.clone()).await, 413).await;
    let chunked =
        reqwest::Body::wrap_stream(futures::stream::iter([Ok::<_, std::io::Error>(bytes)]));
    let request = app.client.post(format!("{}/v1/responses", app.url));
    let request = request
        .header(CONTENT_TYPE, "application/json")
        .header(CONTENT_ENCODING, "deflate");
    let answer = request.body(chunked).send().await.expect("an answer");
    error(answer, 413).await;
}

#[tokio::test]
async fn a_wrong_content_encoding_is_refused() {
    let app = small().await;
    for encoding in ["gzip", "deflate", "zstd"] {
        let refused = error(
            post_encoded(&app, encoding, b"{\"input\":1}".to_vec()).await,
            400,
        )
        .await;
        assert_eq!(refused["code"], "invalid_body", "{encoding}");
    }
    let whole = gzip(json!({"input": "x"}).to_string().as_bytes());
    let cut = whole[..whole.len() / 2].to_vec();
    error(post_encoded(&app, "gzip", cut).await, 400).await;
    for encoding in ["br", "gzip, zstd", "frob"] {
        let refused = error(post_encoded(&app, encoding, Vec::new()).await, 415).await;
        assert_eq!(refused["code"], "unsupported_encoding", "{encoding}");
    }
}

#[tokio::test]
async fn sizes_are_bounded_and_large_ones_work() {
    let app = small().await;
    for bytes in [10_001, 5 << 20] {
        let refused = error(app.post_bytes(vec![b' '; bytes]).await, 413).await;
        assert!(
            refused["message"]
                .as_str()
                .expect("text")
                .contains("10000 bytes")
        );
    }
    let parts = (0..50).map(|_| Ok::<_, std::io::Error>(vec![b' '; 1000]));
    let chunked = reqwest::Body::wrap_stream(futures::stream::iter(parts));
    error(app.post_bytes(chunked).await, 413).await;

    let app = Setup::default().start().await;
    let large = json!({"input": "x", "metadata": null, "ignored": "y".repeat(5 << 20)});
    assert_eq!(app.create(large).await.status(), 200);
}

#[tokio::test]
async fn a_content_type_other_than_json_is_refused() {
    let app = small().await;
    let url = format!("{}/v1/responses", app.url);
    let post = |kind: Option<&str>| {
        let request = app.client.post(&url).body("{\"input\":\"x\"}");
        match kind {
            Some(kind) => request.header(CONTENT_TYPE, kind),
            None => request,
        }
    };
    for kind in [
        None,
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        Some("json"),
    ] {
        let refused = error(post(kind).send().await.expect("an answer"), 415).await;
        assert_eq!(refused["code"], "unsupported_media_type", "{kind:?}");
    }
    for kind in [
        "application/json; charset=utf-8",
        "Application/JSON",
        "application/x+json",
    ] {
        assert_eq!(
            post(Some(kind)).send().await.expect("an answer").status(),
            200,
            "{kind}"
        );
    }
}

#[tokio::test]
async fn invalid_json_is_a_400() {
    let app = Setup::default().start().await;
    let deep = format!("{{\"input\":{}", "[".repeat(100_000));
    let deep_and_ignored = format!("{{\"x\":{0}{1}}}", "[".repeat(5000), "]".repeat(5000));
    let bodies: [&[u8]; 11] = [
        b"",
        b"{",
        b"nope",
        b"{\"input\":\"x\"",
        b"{\"input\":\"x\",}",
        b"{\"input\":\"\\ud800\"}",
        b"{\"input\":\"a\\u0000b\"}",
        b"{\"input\":\"\xff\xfe\"}",
        b"{\"input\":\"x\",\"temperature\":1e999}",
        deep.as_bytes(),
        deep_and_ignored.as_bytes(),
    ];
    for body in bodies {
        let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
        let refused = error(app.post_bytes(body.to_vec()).await, 400).await;
        assert_eq!(refused["code"], "invalid_json", "{shown}");
        assert_eq!(refused["type"], "invalid_request_error", "{shown}");
    }
    let huge = b"{\"input\":\"x\",\"max_output_tokens\":123456789012345678901234567890}";
    let refused = error(app.post_bytes(huge.to_vec()).await, 400).await;
    assert_eq!(refused["param"], "max_output_tokens");
}
