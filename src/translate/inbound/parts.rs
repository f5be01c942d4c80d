//! The parts of messages, of outputs and of thoughts.

use serde_json::Value;

use super::input::wrong_type;
use crate::{
    conversation::Part,
    translate::{Code, Refusal},
    wire::{ContentPart, InputItem, TextOrList},
};

/// Translates a message's `content`.
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
    let kind = part.kind.ok_or_else(|| missing("type"))?;
    match kind.as_str() {
        "input_text" | "output_text" | "text" => {
            part.text.map(Part::Text).ok_or_else(|| missing("text"))
        }
        "refusal" => part
            .refusal
            .map(Part::Text)
            .ok_or_else(|| missing("refusal")),
        "input_image" | "image_url" => {
            let has_file = part.file_id.is_some();
            Err(no_image(path, &kind, has_file, part.image_url.as_ref()))
        }
        "input_audio" | "video_url" => Err(unsupported(
            path,
            format!("No loaded model takes `{kind}` parts."),
        )),
        "input_file" | "file" => Err(unsupported(
            path,
            "Files are not read here: send their text in an `input_text` part.",
        )),
        other => Err(Refusal::invalid(
            format!("{path}.type"),
            format!("`{path}.type` cannot be `{other}`: send `input_text` or `output_text`."),
        )),
    }
}

fn unsupported(path: &str, message: impl Into<String>) -> Refusal {
    Refusal::of(Code::UnsupportedInput, path, message)
}

/// Why an image cannot be taken; what could never be taken is said first.
fn no_image(path: &str, kind: &str, has_file: bool, url: Option<&Value>) -> Refusal {
    let url = url.and_then(|url| url.as_str().or_else(|| url["url"].as_str()));
    let message = match url {
        None if has_file => {
            "There are no uploaded files here: send the image as a `data:` URL in `image_url`."
        }
        None => return Refusal::missing(format!("{path}.image_url")),
        Some(url) if !url.starts_with("data:") => {
            "Images are not fetched from other places: send the image as a `data:` URL."
        }
        Some(_) => return unsupported(path, format!("No loaded model takes `{kind}` parts.")),
    };
    unsupported(path, message)
}

/// Translates what a call gave: a text, or parts. A part that is neither text nor an image is kept as
/// the JSON it is.
pub(super) fn output_parts(path: &str, output: &Value) -> Result<Vec<Part>, Refusal> {
    match output {
        Value::String(text) => Ok(vec![Part::Text(text.clone())]),
        Value::Array(parts) => {
            let numbered = parts.iter().enumerate();
            numbered
                .map(|(index, entry)| output_part(&format!("{path}[{index}]"), entry))
                .collect()
        }
        _ => Err(wrong_type(path.to_owned(), "a string or an array")),
    }
}

fn output_part(path: &str, part: &Value) -> Result<Part, Refusal> {
    let Value::Object(fields) = part else {
        return Err(wrong_type(path.to_owned(), "an object"));
    };
    let kind = match fields.get("type") {
        None | Some(Value::Null) => return Err(Refusal::missing(format!("{path}.type"))),
        Some(Value::String(kind)) => kind.as_str(),
        Some(_) => return Err(wrong_type(format!("{path}.type"), "a string")),
    };
    match kind {
        "input_text" | "output_text" | "text" => match fields.get("text") {
            Some(Value::String(text)) => Ok(Part::Text(text.clone())),
            None | Some(Value::Null) => Err(Refusal::missing(format!("{path}.text"))),
            Some(_) => Err(wrong_type(format!("{path}.text"), "a string")),
        },
        "input_image" | "image_url" => {
            let has_file = fields.get("file_id").is_some_and(|id| !id.is_null());
            let url = fields.get("image_url").filter(|url| !url.is_null());
            Err(no_image(path, kind, has_file, url))
        }
        _ => Ok(Part::Text(part.to_string())),
    }
}

/// The text of a reasoning item: its content, or else its summary.
pub(super) fn thought(path: &str, item: InputItem) -> Result<String, Refusal> {
    let content = match item.content {
        Some(TextOrList::Text(text)) => text,
        Some(TextOrList::List(parts)) => texts(&format!("{path}.content"), parts)?,
        None => String::new(),
    };
    match item.summary {
        Some(summary) if content.is_empty() => texts(&format!("{path}.summary"), summary),
        _ => Ok(content),
    }
}

fn texts(path: &str, parts: Vec<ContentPart>) -> Result<String, Refusal> {
    let text = |(index, part): (usize, ContentPart)| {
        let text = part.text;
        text.ok_or_else(|| Refusal::missing(format!("{path}[{index}].text")))
    };
    let texts: Result<Vec<String>, Refusal> = parts.into_iter().enumerate().map(text).collect();
    Ok(texts?.join("\n"))
}
