//! The bytes of a request → its mirror in `wire`.

use serde::de::DeserializeOwned;
use serde_path_to_error::Track;

use super::{Code, RequestError, json_limits};

/// A parsed request.
#[derive(Debug)]
pub struct Parsed<T> {
    /// The mirror.
    pub value: T,
    /// Names of top-level fields that the mirror does not have.
    pub unknown: Vec<String>,
}

/// Parses JSON.
///
/// # Errors
/// Bytes that are not JSON, or JSON of the wrong types; the refusal then has the path.
pub fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<Parsed<T>, RequestError> {
    json_limits::check(json)?;
    let mut unknown = Vec::new();
    let mut track = Track::new();
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let tracked = serde_path_to_error::Deserializer::new(&mut deserializer, &mut track);
    let parsed = serde_ignored::deserialize(tracked, |path| {
        if let serde_ignored::Path::Map {
            parent: serde_ignored::Path::Root,
            key,
        } = path
        {
            unknown.push(key);
        }
    });
    let value = parsed.map_err(|error| refuse(&error, &track.path().to_string()))?;
    deserializer.end().map_err(|error| refuse(&error, "."))?;
    Ok(Parsed { value, unknown })
}

fn refuse(error: &serde_json::Error, path: &str) -> RequestError {
    if !error.is_data() {
        let message = format!("The body is not valid JSON: {error}.");
        return RequestError::new(Code::InvalidJson, message);
    }
    let reason = plain_words(&error.to_string());
    if path == "." {
        let message = format!("The body has the wrong type: {reason}.");
        return RequestError::new(Code::InvalidType, message);
    }
    let message = format!("`{path}` has the wrong type: {reason}.");
    RequestError::of(Code::InvalidType, path, message)
}

/// serde's words for numbers are Rust's.
fn plain_words(reason: &str) -> String {
    let reason = reason.trim_start_matches("invalid type: ");
    let pairs = [
        ("expected i64", "expected an integer"),
        ("expected f64", "expected a number"),
        ("expected a sequence", "expected an array"),
        ("expected a map", "expected an object"),
    ];
    pairs.iter().fold(reason.to_owned(), |text, (rust, plain)| {
        text.replace(rust, plain)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{CreateRequest, TextOrList};

    fn refusal(json: &str) -> (Option<String>, Code, String) {
        let refusal = parse::<CreateRequest>(json.as_bytes()).expect_err(json);
        (refusal.param, refusal.code, refusal.message)
    }

    #[test]
    fn wrong_types_are_named_by_their_path() {
        for (json, param, says) in [
            (
                r#"{"temperature":"hot"}"#,
                "temperature",
                "string \"hot\", expected a number",
            ),
            (
                r#"{"max_output_tokens":1.5}"#,
                "max_output_tokens",
                "expected an integer",
            ),
            (
                r#"{"input":7}"#,
                "input",
                "integer `7`, expected a string or an array",
            ),
            (r#"{"input":{}}"#, "input", "expected a string or an array"),
            (r#"{"input":["x"]}"#, "input[0]", "expected an object"),
            (
                r#"{"input":[{},{"role":3}]}"#,
                "input[1].role",
                "expected a string",
            ),
            (
                r#"{"input":[{},{},{"content":[{"type":false}]}]}"#,
                "input[2].content[0].type",
                "boolean `false`, expected a string",
            ),
            (
                r#"{"text":{"format":{"type":1}}}"#,
                "text.format.type",
                "expected a string",
            ),
            (
                r#"{"logit_bias":{"5":"x"}}"#,
                "logit_bias.5",
                "expected a number",
            ),
            (r#"{"metadata":[]}"#, "metadata", "expected an object"),
            (r#"{"stop":["a",1]}"#, "stop[1]", "expected a string"),
        ] {
            let (found, code, message) = refusal(json);
            assert_eq!(
                (found.as_deref(), code),
                (Some(param), Code::InvalidType),
                "{json}"
            );
            assert!(message.contains(says), "{json}: {message}");
        }
    }

    #[test]
    fn what_is_not_json_is_refused_without_a_path() {
        for json in [
            "",
            "{",
            "nope",
            "{}x",
            r#"{"temperature":1e999}"#,
            r#"{"input":"\ud800"}"#,
            "{\"input\":\"a\0b\"}",
            r#"{"input":"a\u0000b"}"#,
        ] {
            let (param, code, message) = refusal(json);
            assert_eq!(
                (param, code),
                (None, Code::InvalidJson),
                "{json}: {message}"
            );
        }
        let error = parse::<CreateRequest>(b"{\"input\":\"\xff\"}").expect_err("not UTF-8");
        assert_eq!(error.code, Code::InvalidJson);
    }

    #[test]
    fn a_body_that_is_no_object_has_the_wrong_type() {
        let (param, code, message) = refusal("[]");
        assert_eq!((param, code), (None, Code::InvalidType));
        assert!(message.contains("expected an object"), "{message}");
    }

    #[test]
    fn null_is_absence_everywhere() {
        let json = r#"{"input":null,"text":{"format":null},"conversation":null,"tools":null}"#;
        let request = parse::<CreateRequest>(json.as_bytes())
            .expect("valid")
            .value;
        assert!(request.input.is_none() && request.conversation.is_none());
        assert!(request.tools.is_none() && request.text.is_some_and(|t| t.format.is_none()));
    }

    #[test]
    fn only_unknown_fields_at_the_top_are_named() {
        let json =
            r#"{"input":[{"role":"user","phase":1}],"frobnicate":{"a":1},"prompt":{"id":1}}"#;
        let parsed = parse::<CreateRequest>(json.as_bytes()).expect("valid");
        assert_eq!(parsed.unknown, ["frobnicate"]);
        assert!(parsed.value.prompt.is_some());
        assert!(matches!(parsed.value.input, Some(TextOrList::List(items)) if items.len() == 1));
    }
}
