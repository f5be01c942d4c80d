//! `messages` → the items of the conversation: a message of the model may hold several.

use std::collections::HashSet;

use crate::{
    conversation::{
        CallKind, CallOutput, ContentPart, CustomCall, FunctionCall, Item, Message, Reasoning, Role,
    },
    translate::{
        RequestError,
        inbound::{call_id, content_parts, named, unknown_call},
    },
    wire::chat::{ChatMessage, ChatToolCall},
};

/// Translates `messages`.
pub(super) fn items(messages: Option<Vec<ChatMessage>>) -> Result<Vec<Item>, RequestError> {
    let messages = messages.ok_or_else(|| RequestError::missing("messages"))?;
    let mut items = Vec::new();
    let mut outputs = Vec::new();
    for (index, message) in messages.into_iter().enumerate() {
        let path = format!("messages[{index}]");
        if let Some(id) = &message.tool_call_id {
            outputs.push((format!("{path}.tool_call_id"), id.clone()));
        }
        add(&path, message, &mut items)?;
    }
    let calls: HashSet<&str> = items.iter().filter_map(call_id).collect();
    match outputs
        .into_iter()
        .find(|(_, id)| !calls.contains(id.as_str()))
    {
        None => Ok(items),
        Some((path, id)) => Err(unknown_call(path, &id)),
    }
}

fn add(path: &str, message: ChatMessage, items: &mut Vec<Item>) -> Result<(), RequestError> {
    let of = |field: &str| format!("{path}.{field}");
    if message.function_call.is_some() {
        return Err(RequestError::unsupported(&of("function_call")));
    }
    let role = message.role.clone();
    match role
        .ok_or_else(|| RequestError::missing(of("role")))?
        .as_str()
    {
        "user" => items.push(said(path, Role::User, message)?),
        "system" | "developer" => items.push(said(path, Role::System, message)?),
        "assistant" => answer(path, message, items)?,
        "tool" => items.push(Item::CallOutput(CallOutput {
            call_id: named(of("tool_call_id"), message.tool_call_id)?,
            of: CallKind::Function,
            output: match message.content {
                Some(content) => content_parts(path, content)?,
                None => return Err(RequestError::missing(of("content"))),
            },
        })),
        "function" => return Err(RequestError::unsupported(&of("role"))),
        other => {
            let message = format!(
                "`{path}.role` must be `user`, `assistant`, `system`, `developer` or `tool`, not \
                 `{other}`."
            );
            return Err(RequestError::invalid(of("role"), message));
        }
    }
    Ok(())
}

fn said(path: &str, role: Role, message: ChatMessage) -> Result<Item, RequestError> {
    let content = message.content;
    let content = content.ok_or_else(|| RequestError::missing(format!("{path}.content")))?;
    let content = content_parts(path, content)?;
    Ok(Item::Message(Message { role, content }))
}

/// Translates an assistant message: reasoning, text and calls.
fn answer(path: &str, message: ChatMessage, items: &mut Vec<Item>) -> Result<(), RequestError> {
    let reasoning = message.reasoning_content.or(message.reasoning);
    if let Some(text) = reasoning.filter(|text| !text.is_empty()) {
        items.push(Item::Reasoning(Reasoning { text }));
    }
    let calls = message.tool_calls.unwrap_or_default();
    let content = match (message.content, message.refusal) {
        (Some(content), _) => content_parts(path, content)?,
        // The assistant's own words came this way.
        (None, Some(refusal)) => vec![ContentPart::Text(refusal)],
        (None, None) if !calls.is_empty() => Vec::new(),
        (None, None) => return Err(RequestError::missing(format!("{path}.content"))),
    };
    if !content.is_empty() || calls.is_empty() {
        let role = Role::Assistant;
        items.push(Item::Message(Message { role, content }));
    }
    for (index, entry) in calls.into_iter().enumerate() {
        items.push(call(&format!("{path}.tool_calls[{index}]"), entry)?);
    }
    Ok(())
}

fn call(path: &str, call: ChatToolCall) -> Result<Item, RequestError> {
    let of = |field: &str| format!("{path}.{field}");
    let missing = |field: &str| RequestError::missing(of(field));
    let call_id = named(of("id"), call.id)?;
    match call.kind.as_deref() {
        None | Some("function") => {
            let function = call.function.ok_or_else(|| missing("function"))?;
            Ok(Item::FunctionCall(FunctionCall {
                call_id,
                name: named(of("function.name"), function.name)?,
                namespace: None,
                arguments: function
                    .arguments
                    .ok_or_else(|| missing("function.arguments"))?,
            }))
        }
        Some("custom") => {
            let custom = call.custom.ok_or_else(|| missing("custom"))?;
            Ok(Item::CustomCall(CustomCall {
                call_id,
                name: named(of("custom.name"), custom.name)?,
                input: custom.input.ok_or_else(|| missing("custom.input"))?,
            }))
        }
        Some(other) => {
            let message = format!("`{path}.type` must be `function` or `custom`, not `{other}`.");
            Err(RequestError::invalid(of("type"), message))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn translate(messages: Value) -> Result<Vec<Item>, RequestError> {
        items(serde_json::from_value(messages).expect("messages"))
    }

    #[test]
    fn calls_and_their_results_become_items() {
        let items = translate(json!([
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": null, "reasoning_content": "Hm.", "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                {"id": "b", "type": "custom", "custom": {"name": "c", "input": "ls"}},
            ]},
            {"role": "tool", "tool_call_id": "b", "content": "x"},
            {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "y"}]},
            {"role": "assistant", "content": "", "reasoning": "So.", "tool_calls": []},
        ]));
        insta::assert_debug_snapshot!(items.expect("items"));
    }

    #[test]
    fn what_is_refused_names_the_parameter() {
        let calls = |calls: Value| json!([{"role": "assistant", "tool_calls": calls}]);
        for (messages, param) in [
            (calls(json!([{}])), "messages[0].tool_calls[0].id"),
            (
                calls(json!([{"id": "a"}])),
                "messages[0].tool_calls[0].function",
            ),
            (
                calls(json!([{"id": "a", "function": {"arguments": "{}"}}])),
                "messages[0].tool_calls[0].function.name",
            ),
            (
                calls(json!([{"id": "a", "function": {"name": "f"}}])),
                "messages[0].tool_calls[0].function.arguments",
            ),
            (
                calls(json!([{"id": "a", "type": "web", "function": {}}])),
                "messages[0].tool_calls[0].type",
            ),
            (
                calls(json!([{"id": "a", "type": "custom", "custom": {"name": "c"}}])),
                "messages[0].tool_calls[0].custom.input",
            ),
            (
                json!([{"role": "tool", "content": "x"}]),
                "messages[0].tool_call_id",
            ),
            (
                json!([{"role": "tool", "content": "x", "tool_call_id": "a"}]),
                "messages[0].tool_call_id",
            ),
            (
                json!([{"role": "tool", "tool_call_id": "a"}]),
                "messages[0].content",
            ),
            (
                json!([{"role": "assistant", "tool_calls": []}]),
                "messages[0].content",
            ),
            (
                json!([{"role": "assistant", "content": "x", "function_call": {"name": "f"}}]),
                "messages[0].function_call",
            ),
        ] {
            let refusal = translate(messages.clone()).expect_err(&messages.to_string());
            assert_eq!(refusal.param.as_deref(), Some(param), "{messages}");
        }
    }
}
