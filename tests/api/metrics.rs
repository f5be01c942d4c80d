//! `/metrics`.

use serde_json::json;

use crate::support::Setup;

#[tokio::test]
async fn metrics_count_requests_and_tokens() {
    let app = Setup::answering("Yes.").start().await;
    let first = app.created(json!({"input": "Hi."})).await;
    app.created(json!({"input": "And?", "previous_response_id": first["id"]}))
        .await;
    app.get("/v1/responses/resp_1").await;
    app.get("/nowhere").await;
    let metrics = app.get("/metrics").await;
    let kind = metrics.headers()["content-type"]
        .to_str()
        .expect("text")
        .to_owned();
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    let text = metrics.text().await.expect("text");
    for line in [
        "stemma_http_requests_total{method=\"POST\",route=\"/v1/responses\",status=\"200\"} 2",
        "stemma_http_requests_total{method=\"GET\",route=\"/v1/responses/{id}\",status=\"404\"} 1",
        "stemma_continuations_total{state=\"cold\",reason=\"\"} 1",
        "stemma_running{model=\"scripted\"} 0",
        "stemma_queue_seconds_count{model=\"scripted\"} 2",
        "stemma_queue_seconds_bucket{le=\"+Inf\",model=\"scripted\"} 2",
        "stemma_time_to_first_token_seconds_count{model=\"scripted\"} 2",
        "stemma_answer_tokens_bucket{le=\"8.0\",model=\"scripted\"} 2",
        "# TYPE stemma_step_seconds histogram",
        "# EOF",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let generated = text
        .lines()
        .find(|line| line.starts_with("stemma_generated_tokens_total"));
    assert!(
        generated.is_some_and(|line| !line.ends_with(" 0")),
        "{text}"
    );
}
