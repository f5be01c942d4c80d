//! Content parts of messages, call outputs and reasoning.

use serde_json::Value;

use crate::{
    conversation::ContentPart,
    translate::{Code, RequestError, request_error::wrong_type},
    wire::{self, InputItem, TextOrList},
};

/// Translates a message's `content`.
pub(in crate::translate) fn content_parts(
    path: &str,
    content: TextOrList<wire::ContentPart>,
) -> Result<Vec<ContentPart>, RequestError> {
    match content {
        TextOrList::Text(text) => Ok(vec![ContentPart::Text(text)]),
        TextOrList::List(parts) => {
            let numbered = parts.into_iter().enumerate();
            numbered
                .map(|(index, entry)| part(&format!("{path}.content[{index}]"), entry))
                .collect()
        }
    }
}

fn part(path: &str, part: wire::ContentPart) -> Result<ContentPart, RequestError> {
    let missing = |field: &str| RequestError::missing(format!("{path}.{field}"));
    let kind = part.kind.ok_or_else(|| missing("type"))?;
    match kind.as_str() {
        "input_text" | "output_text" | "text" => part
            .text
            .map(ContentPart::Text)
            .ok_or_else(|| missing("text")),
        "refusal" => part
            .refusal
            .map(ContentPart::Text)
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
        other => Err(RequestError::invalid(
            format!("{path}.type"),
            format!("`{path}.type` cannot be `{other}`: send `input_text` or `output_text`."),
        )),
    }
}

fn unsupported(path: &str, message: impl Into<String>) -> RequestError {
    RequestError::of(Code::UnsupportedInput, path, message)
}

/// Builds the error for an image; reports first what no model could take.
fn no_image(path: &str, kind: &str, has_file: bool, url: Option<&Value>) -> RequestError {
    let url = url.and_then(|url| url.as_str().or_else(|| url["url"].as_str()));
    let message = match url {
        None if has_file => {
            "There are no uploaded files here: send the image as a `data:` URL in `image_url`."
        }
        None => return RequestError::missing(format!("{path}.image_url")),
        Some(url) if !url.starts_with("data:") => {
            "Images are not fetched from other places: send the image as a `data:` URL."
        }
        Some(_) => return unsupported(path, format!("No loaded model takes `{kind}` parts.")),
    };
    unsupported(path, message)
}

/// Translates the output of a call: a string, or parts. A part that is neither text nor an image is
/// kept as JSON text.
pub(super) fn output_parts(path: &str, output: &Value) -> Result<Vec<ContentPart>, RequestError> {
    match output {
        Value::String(text) => Ok(vec![ContentPart::Text(text.clone())]),
        Value::Array(parts) => {
            let numbered = parts.iter().enumerate();
            numbered
                .map(|(index, entry)| output_part(&format!("{path}[{index}]"), entry))
                .collect()
        }
        _ => Err(wrong_type(path.to_owned(), "a string or an array")),
    }
}

fn output_part(path: &str, part: &Value) -> Result<ContentPart, RequestError> {
    let Value::Object(fields) = part else {
        return Err(wrong_type(path.to_owned(), "an object"));
    };
    let kind = match fields.get("type") {
        None | Some(Value::Null) => return Err(RequestError::missing(format!("{path}.type"))),
        Some(Value::String(kind)) => kind.as_str(),
        Some(_) => return Err(wrong_type(format!("{path}.type"), "a string")),
    };
    match kind {
        "input_text" | "output_text" | "text" => match fields.get("text") {
            Some(Value::String(text)) => Ok(ContentPart::Text(text.clone())),
            None | Some(Value::Null) => Err(RequestError::missing(format!("{path}.text"))),
            Some(_) => Err(wrong_type(format!("{path}.text"), "a string")),
        },
        "input_image" | "image_url" => {
            let has_file = fields.get("file_id").is_some_and(|id| !id.is_null());
            let url = fields.get("image_url").filter(|url| !url.is_null());
            Err(no_image(path, kind, has_file, url))
        }
        _ => Ok(ContentPart::Text(part.to_string())),
    }
}

/// The text of a reasoning item: its content, or else its summary.
pub(super) fn reasoning(path: &str, item: InputItem) -> Result<String, RequestError> {
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

fn texts(path: &str, parts: Vec<wire::ContentPart>) -> Result<String, RequestError> {
    let text = |(index, part): (usize, wire::ContentPart)| {
        let text = part.text;
        text.ok_or_else(|| RequestError::missing(format!("{path}[{index}].text")))
    };
    let texts: Result<Vec<String>, RequestError> =
        parts.into_iter().enumerate().map(text).collect();
    Ok(texts?.join("\n"))
}
