//! Tool calls and reasoning through the real router: a model that says what the user tells it to
//! say.

mod calls;
mod chat;
mod choice;
mod forced;
mod strict;
mod thinking;
mod tool_results;

use serde_json::{Value, json};

use stemma::engine::EngineOptions;

use crate::support::{Script, Setup};

/// Renders tools, calls, outputs and reasoning as the templates of Qwen and Hermes do.
const TEMPLATE: &str = r#"
{%- if tools %}{{ '<|im_start|>system\n<tools>' }}
    {%- for tool in tools %}{{ '\n' }}{{ tool | tojson }}{% endfor %}
    {{- '\n</tools>\nCall with <tool_call>{"name": ..., "arguments": ...}</tool_call><|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {{- '<|im_start|>user\n<tool_response>\n' + message.content + '\n</tool_response><|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\n' }}
        {%- if message.reasoning_content %}{{ '<think>\n' + message.reasoning_content + '\n</think>\n\n' }}{% endif %}
        {{- message.content }}
        {%- for call in message.tool_calls %}
            {%- if message.content or not loop.first %}{{ '\n' }}{% endif %}
            {{- '<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments | tojson }}{{ '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}
    {%- if enable_thinking %}{{ '<think>\n' }}{% endif %}
{%- endif %}"#;

/// The token that opens reasoning, in which a model that samples at random would stay.
const THINK: &str = "384";

/// A call of [`weather`], as the template writes it.
const CALL: &str =
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>";

/// A model that says what follows `Say: ` in the last message, that tells what a tool gave, or that
/// repeats its prompt.
fn model() -> Script {
    let mut model = Script::with_markers("caller", |prompt| {
        let last = prompt.rsplit("<|im_start|>user\n").next();
        let last = last.and_then(|rest| rest.split("<|im_end|>").next());
        let last = last.unwrap_or_default();
        let last = last.split("\n\nYou must call").next().unwrap_or_default();
        if let Some(response) = last.strip_prefix("<tool_response>\n") {
            let response = response.trim_end_matches("\n</tool_response>");
            return format!("It gave {response}.");
        }
        match last.strip_prefix("Say: ") {
            Some(said) => said.to_owned(),
            // Without text that could be a call or reasoning.
            None => prompt
                .replace("<|", "[")
                .replace("|>", "]")
                .replace('<', "[")
                .replace('>', "]"),
        }
    });
    model.template = Some(TEMPLATE);
    // With the prefix cache.
    model.engine = EngineOptions::default();
    model
}

/// A server of [`model`].
pub(crate) fn setup() -> Setup {
    Setup::of(model())
}

fn weather() -> Value {
    json!({
        "type": "function", "name": "get_weather", "description": "Tells the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    })
}

fn clock() -> Value {
    json!({"type": "function", "name": "get_time"})
}

/// A request whose answer is this text, of a model that has two tools.
fn saying(text: &str) -> Value {
    json!({"input": format!("Say: {text}"), "tools": [weather(), clock()]})
}

/// The response without what differs between two of them.
fn anonymous(mut response: Value) -> Value {
    let id = response["id"].as_str().expect("an id").to_owned();
    response["created_at"].take();
    response["completed_at"].take();
    response["usage"]["input_tokens_details"].take();
    let hex = id.trim_start_matches("resp_").to_owned();
    serde_json::from_str(&response.to_string().replace(&hex, "ID")).expect("JSON")
}

/// The types of a response's items.
fn kinds(response: &Value) -> Vec<&str> {
    let output = response["output"].as_array().expect("a list");
    output
        .iter()
        .map(|item| item["type"].as_str().expect("a type"))
        .collect()
}
