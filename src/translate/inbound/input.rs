//! `input` → the items of the conversation.

use serde_json::Value;

use super::content_parts::{content_parts, output_parts, reasoning};
use crate::{
    conversation::{
        CallKind, CallOutput, ContentPart, CustomCall, FunctionCall, Item, Message, Reasoning, Role,
    },
    translate::{Code, RequestError},
    wire::{InputItem, TextOrList},
};

/// Translates `input`; a string is one message of the user.
pub(in crate::translate) fn items(
    input: Option<TextOrList<InputItem>>,
) -> Result<Vec<Item>, RequestError> {
    match input {
        None => Ok(Vec::new()),
        Some(TextOrList::Text(text)) => Ok(vec![Item::Message(Message {
            role: Role::User,
            content: vec![ContentPart::Text(text)],
        })]),
        Some(TextOrList::List(items)) => {
            let numbered = items.into_iter().enumerate();
            numbered
                .map(|(index, entry)| item(&format!("input[{index}]"), entry))
                .collect()
        }
    }
}

fn item(path: &str, item: InputItem) -> Result<Item, RequestError> {
    match item.kind.as_deref() {
        None | Some("message") => message(path, item).map(Item::Message),
        Some("function_call") => function_call(path, item).map(Item::FunctionCall),
        Some("custom_tool_call") => custom_call(path, item).map(Item::CustomCall),
        Some("function_call_output") => {
            call_output(path, item, CallKind::Function).map(Item::CallOutput)
        }
        Some("custom_tool_call_output") => {
            call_output(path, item, CallKind::Custom).map(Item::CallOutput)
        }
        Some("reasoning") => Ok(Item::Reasoning(Reasoning {
            text: reasoning(path, item)?,
        })),
        Some(other) => Err(RequestError::of(
            Code::UnsupportedParameter,
            format!("{path}.type"),
            format!(
                "`{path}` is of type `{other}`, which is not supported: send messages, calls, their \
                 outputs, and reasoning."
            ),
        )),
    }
}

fn message(path: &str, item: InputItem) -> Result<Message, RequestError> {
    let missing = |field: &str| RequestError::missing(format!("{path}.{field}"));
    let role = item.role.ok_or_else(|| missing("role"))?;
    let content = item.content.ok_or_else(|| missing("content"))?;
    Ok(Message {
        role: parse_role(path, &role)?,
        content: content_parts(path, content)?,
    })
}

fn parse_role(path: &str, role: &str) -> Result<Role, RequestError> {
    match role {
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        "system" | "developer" => Ok(Role::System),
        other => Err(RequestError::invalid(
            format!("{path}.role"),
            format!(
                "`{path}.role` must be `user`, `assistant`, `system` or `developer`, not `{other}`."
            ),
        )),
    }
}

fn function_call(path: &str, item: InputItem) -> Result<FunctionCall, RequestError> {
    let of = |field: &str| format!("{path}.{field}");
    let arguments = match item.arguments {
        Some(Value::String(text)) => text,
        Some(_) => return Err(wrong_type(of("arguments"), "a string")),
        None => return Err(RequestError::missing(of("arguments"))),
    };
    Ok(FunctionCall {
        call_id: named(of("call_id"), item.call_id)?,
        name: named(of("name"), item.name)?,
        namespace: item.namespace.filter(|namespace| !namespace.is_empty()),
        arguments,
    })
}

fn custom_call(path: &str, item: InputItem) -> Result<CustomCall, RequestError> {
    let of = |field: &str| format!("{path}.{field}");
    Ok(CustomCall {
        call_id: named(of("call_id"), item.call_id)?,
        name: named(of("name"), item.name)?,
        input: item
            .input
            .ok_or_else(|| RequestError::missing(of("input")))?,
    })
}

fn call_output(path: &str, item: InputItem, of: CallKind) -> Result<CallOutput, RequestError> {
    let output = item
        .output
        .ok_or_else(|| RequestError::missing(format!("{path}.output")))?;
    Ok(CallOutput {
        call_id: named(format!("{path}.call_id"), item.call_id)?,
        of,
        output: output_parts(&format!("{path}.output"), &output)?,
    })
}

/// A name that must be there and say something.
pub(in crate::translate) fn named(
    path: String,
    name: Option<String>,
) -> Result<String, RequestError> {
    match name {
        None => Err(RequestError::missing(path)),
        Some(name) if name.is_empty() => {
            let message = format!("`{path}` may not be empty.");
            Err(RequestError::invalid(path, message))
        }
        Some(name) => Ok(name),
    }
}

/// The field at this path is of another JSON type than `expected`.
pub(in crate::translate) fn wrong_type(path: String, expected: &str) -> RequestError {
    let message = format!("`{path}` has the wrong type: expected {expected}.");
    RequestError::of(Code::InvalidType, path, message)
}
