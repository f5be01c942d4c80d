//! `input` → the items of the conversation.

use crate::{
    conversation::{Item, Message, Part, Role},
    translate::{Code, Refusal},
    wire::{ContentPart, InputItem, TextOrList},
};

/// Translates `input`; a string is one message of the user.
pub(in crate::translate) fn items(
    input: Option<TextOrList<InputItem>>,
) -> Result<Vec<Item>, Refusal> {
    match input {
        None => Ok(Vec::new()),
        Some(TextOrList::Text(text)) => Ok(vec![Item::Message(Message {
            role: Role::User,
            content: vec![Part::Text(text)],
        })]),
        Some(TextOrList::List(items)) => {
            let numbered = items.into_iter().enumerate();
            numbered
                .map(|(index, entry)| item(&format!("input[{index}]"), entry))
                .collect()
        }
    }
}

fn item(path: &str, item: InputItem) -> Result<Item, Refusal> {
    match item.kind.as_deref() {
        None | Some("message") => message(path, item).map(Item::Message),
        Some(other) => Err(Refusal::of(
            Code::UnsupportedParameter,
            format!("{path}.type"),
            format!("`{path}` is of type `{other}`; only `message` is supported."),
        )),
    }
}

fn message(path: &str, item: InputItem) -> Result<Message, Refusal> {
    let missing = |field: &str| Refusal::missing(format!("{path}.{field}"));
    let role = item.role.ok_or_else(|| missing("role"))?;
    let content = item.content.ok_or_else(|| missing("content"))?;
    Ok(Message {
        role: parse_role(path, &role)?,
        content: parts(path, content)?,
    })
}

fn parse_role(path: &str, role: &str) -> Result<Role, Refusal> {
    match role {
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        "system" | "developer" => Ok(Role::System),
        other => Err(Refusal::invalid(
            format!("{path}.role"),
            format!(
                "`{path}.role` must be `user`, `assistant`, `system` or `developer`, not `{other}`."
            ),
        )),
    }
}

pub(in crate::translate) fn parts(
    path: &str,
    content: TextOrList<ContentPart>,
) -> Result<Vec<Part>, Refusal> {
    match content {
        TextOrList::Text(text) => Ok(vec![Part::Text(text)]),
        TextOrList::List(parts) => {
            let numbered = parts.into_iter().enumerate();
            numbered
                .map(|(index, entry)| part(&format!("{path}.content[{index}]"), entry))
                .collect()
        }
    }
}

fn part(path: &str, part: ContentPart) -> Result<Part, Refusal> {
    let missing = |field: &str| Refusal::missing(format!("{path}.{field}"));
    let unsupported = |message: String| Refusal::of(Code::UnsupportedInput, path, message);
    let kind = part.kind.ok_or_else(|| missing("type"))?;
    match kind.as_str() {
        "input_text" | "output_text" | "text" => {
            part.text.map(Part::Text).ok_or_else(|| missing("text"))
        }
        "refusal" => part
            .refusal
            .map(Part::Text)
            .ok_or_else(|| missing("refusal")),
        "input_image" | "image_url" | "input_audio" | "video_url" => Err(unsupported(format!(
            "No loaded model takes `{kind}` parts."
        ))),
        "input_file" => Err(unsupported(
            "Files are not read here: send their text in an `input_text` part.".to_owned(),
        )),
        other => Err(Refusal::invalid(
            format!("{path}.type"),
            format!("`{path}.type` cannot be `{other}`: send `input_text` or `output_text`."),
        )),
    }
}
