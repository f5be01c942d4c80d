//! Calls that a model makes by itself, of tools whose clients rely on what the arguments look like.

use serde_json::{Value, json};

use super::{THINK, kinds, model, setup};
use crate::support::{Setup, TestApp, error};

fn forecast(strict: bool) -> Value {
    json!({
        "type": "function", "name": "forecast", "strict": strict,
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Paris", "Rome"]}},
            "required": ["city"], "additionalProperties": false,
        },
    })
}

/// A tool that takes a text of this grammar.
fn custom(syntax: &str, definition: &str) -> Value {
    json!({
        "type": "custom", "name": "shell",
        "format": {"type": "grammar", "syntax": syntax, "definition": definition},
    })
}

const WRONG: &str =
    "<tool_call>\n{\"name\": \"forecast\", \"arguments\": {\"town\": \"Oslo\"}}\n</tool_call>";

fn asking(said: &str, tool: &Value) -> Value {
    json!({
        "input": format!("Say: {said}"), "tools": [tool], "temperature": 1.0,
        "max_output_tokens": 300, "logit_bias": {THINK: -100},
    })
}

/// The calls of a response.
fn calls(response: &Value) -> Vec<&Value> {
    let output = response["output"].as_array().expect("a list");
    let is_call = |item: &&Value| {
        item["type"]
            .as_str()
            .is_some_and(|kind| kind.ends_with("_call"))
    };
    output.iter().filter(is_call).collect()
}

async fn check(app: &TestApp, request: &Value) {
    for seed in 0..4 {
        let mut request = request.clone();
        request["seed"] = seed.into();
        let response = app.created(request).await;
        let calls = calls(&response);
        assert!(!calls.is_empty(), "seed {seed}: {response}");
        for call in calls {
            let text = call["arguments"].as_str().expect("text");
            let arguments: Value = serde_json::from_str(text).expect(text);
            assert!(
                arguments == json!({"city": "Paris"}) || arguments == json!({"city": "Rome"}),
                "seed {seed}: {text}"
            );
        }
    }
}

#[tokio::test]
async fn arguments_of_strict_tools_are_kept_to_their_schema() {
    let app = setup().start().await;
    check(&app, &asking(WRONG, &forecast(true))).await;
    check(&app, &asking(&format!("Well. {WRONG}"), &forecast(true))).await;
    let mut thinking = asking(&format!("Hm {WRONG}.\n</think>\n{WRONG}"), &forecast(true));
    thinking["reasoning"] = json!({"effort": "high"});
    check(&app, &thinking).await;
    let namespace = json!({"type": "namespace", "name": "n", "tools": [forecast(true)]});
    let within = WRONG.replace("forecast", "n.forecast");
    check(&app, &asking(&within, &namespace)).await;
}

#[tokio::test]
async fn arguments_of_others_are_what_the_model_says() {
    let app = setup().start().await;
    let response = app.created(asking(WRONG, &forecast(false))).await;
    assert_eq!(response["output"][0]["arguments"], "{\"town\": \"Oslo\"}");
    let said = "Nothing to call, {\"name\": 1} < 2.";
    let response = app.created(asking(said, &forecast(true))).await;
    assert_eq!(response["output_text"], said);
    assert_eq!(kinds(&response), ["message"]);
}

#[tokio::test]
async fn calls_that_are_read_leniently_are_kept_to_it_too() {
    let mut model = model();
    model.lenient_tool_calls = true;
    let app = Setup::of(model).start().await;
    let bare = "{\"name\": \"forecast\", \"arguments\": {\"city\": \"Oslo\"}}";
    // The city has as many letters as what is allowed, so that the end comes right.
    let response = app.created(asking(bare, &forecast(false))).await;
    assert_eq!(response["output"][0]["arguments"], "{\"city\": \"Oslo\"}");
    for seed in 0..4 {
        let mut request = asking(bare, &forecast(true));
        request["seed"] = seed.into();
        let response = app.created(request).await;
        let text = response.to_string();
        assert!(!text.contains("Oslo"), "{text}");
        assert!(text.contains("Paris") || text.contains("Rome"), "{text}");
    }
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|&text| text.to_owned()).collect()
}

fn nested(levels: usize) -> String {
    [&"(".repeat(levels), "x", &")".repeat(levels)].concat()
}

#[tokio::test]
async fn inputs_of_custom_tools_are_kept_to_their_grammar() {
    let app = setup().start().await;
    let said =
        "<tool_call>\n{\"name\": \"shell\", \"arguments\": {\"input\": \"rm -rf\"}}\n</tool_call>";
    for (syntax, definition, inputs) in [
        ("regex", "x\"|y\\n", texts(&["x\"", "y\n"])),
        ("regex", "ls( -[al])?", texts(&["ls", "ls -a", "ls -l"])),
        (
            "lark",
            "start: NAME LF \"\\\"\"\nNAME: \"a\" | \"é\"\n%import common.LF",
            texts(&["a\n\"", "é\n\""]),
        ),
        (
            "lark",
            "start: \"(\" start \")\" | \"x\"",
            (0..9).map(nested).collect(),
        ),
    ] {
        let tool = custom(syntax, definition);
        let mut forced = asking("Sure.", &tool);
        forced["tool_choice"] = "required".into();
        for (seed, request) in [(1, asking(said, &tool)), (2, forced.clone()), (3, forced)] {
            let mut request = request;
            request["seed"] = seed.into();
            let response = app.created(request).await;
            let calls = calls(&response);
            assert!(!calls.is_empty(), "{response}");
            for call in calls {
                assert_eq!(call["type"], "custom_tool_call");
                let input = call["input"].as_str().expect("text");
                assert!(inputs.iter().any(|it| it == input), "{input:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_grammar_that_no_expression_says_is_told_and_not_enforced() {
    let app = setup().start().await;
    let tool = custom("lark", "start: \"(\" start \")\" | X\nX: /[a-z]/ & /[x]/");
    let said =
        "<tool_call>\n{\"name\": \"shell\", \"arguments\": {\"input\": \"((y\"}}\n</tool_call>";
    for choice in ["auto", "required"] {
        let mut request = asking(said, &tool);
        request["tool_choice"] = choice.into();
        let response = app.created(request).await;
        assert_eq!(calls(&response)[0]["input"], "((y", "{response}");
    }
}

#[tokio::test]
async fn an_invalid_grammar_is_refused_by_its_path() {
    let app = setup().start().await;
    for (syntax, definition) in [
        ("lark", "start: missing"),
        ("regex", "("),
        ("lark", "start: @x"),
    ] {
        for choice in ["auto", "required"] {
            let mut request = asking("x", &custom(syntax, definition));
            request["tool_choice"] = choice.into();
            let error = error(app.create(request).await, 400).await;
            assert_eq!(error["code"], "invalid_value");
            assert_eq!(error["param"], "tools[0].format.definition");
        }
    }
    let nested = json!({"type": "custom", "custom": {"name": "shell", "format": {
        "type": "grammar", "grammar": {"syntax": "lark", "definition": "start: missing"},
    }}});
    let request = json!({
        "messages": [{"role": "user", "content": "x"}], "tools": [nested],
    });
    let error = error(app.post("/v1/chat/completions", &request).await, 400).await;
    assert_eq!(error["param"], "tools[0].custom.format.grammar.definition");
}
