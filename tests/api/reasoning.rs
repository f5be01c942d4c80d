//! Outputs with reasoning, on a template that contains `<think>`.

use serde_json::{Value, json};

use crate::support::{Script, Setup, TestApp};

/// ChatML, as in Qwen's template.
const CHATML: &str = "{% for message in messages %}\
    {{ '<|im_start|>' + message.role + '\n' + message.content.split('</think>')[-1] + '<|im_end|>\n' }}\
    {% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// The same template, which also opens the reasoning.
pub(super) const OPENING: &str = "{% for message in messages %}\
    {{ '<|im_start|>' + message.role + '\n' + message.content.split('</think>')[-1] + '<|im_end|>\n' }}\
    {% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n' }}{% endif %}";

async fn saying(answer: &'static str, template: &'static str) -> TestApp {
    let mut model = Script::new("scripted", move |_| answer.to_owned());
    model.template = Some(template);
    Setup::of(model).start().await
}

/// Returns the types and texts of a response's output items.
fn items(response: &Value) -> Vec<(&str, &str)> {
    let items = response["output"].as_array().expect("a list").iter();
    items
        .map(|item| {
            let text = item["content"][0]["text"].as_str().expect("text");
            (item["type"].as_str().expect("a type"), text)
        })
        .collect()
}

#[tokio::test]
async fn reasoning_is_an_output_item() {
    let both = [("reasoning", "Hm, 2."), ("message", "Yes.")];
    for (template, answer) in [
        (CHATML, "<think>\nHm, 2.\n</think>\n\nYes."),
        (OPENING, "Hm, 2.\n</think>\n\nYes."),
    ] {
        let app = saying(answer, template).await;
        let response = app.created(json!({"input": "x"})).await;
        assert_eq!(items(&response), both);
        assert_eq!(response["output_text"], "Yes.");
        let usage = &response["usage"];
        let reasoning = usage["output_tokens_details"]["reasoning_tokens"].as_u64();
        let all = usage["output_tokens"].as_u64().expect("a number");
        assert!(
            reasoning.is_some_and(|reasoning| reasoning > 4 && reasoning < all),
            "{usage}"
        );
        let events = app.stream(json!({"input": "x"})).await.all().await;
        let last = events.last().expect("an event");
        assert_eq!(items(&last["response"]), both);
        let deltas = |kind: &str| -> String {
            let deltas = events.iter().filter(|event| event["type"] == kind);
            deltas
                .map(|event| event["delta"].as_str().expect("text"))
                .collect()
        };
        assert_eq!(deltas("response.reasoning_text.delta"), "Hm, 2.");
        assert_eq!(deltas("response.output_text.delta"), "Yes.");
    }
}

#[tokio::test]
async fn unclosed_reasoning_is_not_output_text() {
    let app = saying("Hm, and so on", OPENING).await;
    let response = app.created(json!({"input": "x"})).await;
    assert_eq!(items(&response), [("reasoning", "Hm, and so on")]);
    assert_eq!(response["output_text"], "");
    let response = app
        .created(json!({"input": "x", "max_output_tokens": 2}))
        .await;
    assert_eq!(response["status"], "incomplete");
    assert_eq!(response["output"][0]["type"], "reasoning");
    assert_eq!(response["output"][0]["status"], "incomplete");
}

#[tokio::test]
async fn stop_strings_match_message_text_not_reasoning() {
    let app = saying("<think>One. Two.</think>Three. Four.", CHATML).await;
    let response = app.created(json!({"input": "x", "stop": [". "]})).await;
    assert_eq!(
        items(&response),
        [("reasoning", "One. Two."), ("message", "Three")]
    );
    assert_eq!(response["status"], "completed");
    let response = app
        .created(json!({"input": "x", "stop": ["Two", "hink"]}))
        .await;
    assert_eq!(response["output_text"], "Three. Four.");
}

#[tokio::test]
async fn reasoning_markers_can_come_from_the_vocabulary() {
    let app = Setup::answering("<think>a</think>b").start().await;
    let response = app.created(json!({"input": "x"})).await;
    assert_eq!(items(&response), [("reasoning", "a"), ("message", "b")]);
}
