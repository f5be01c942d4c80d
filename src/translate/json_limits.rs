//! Bounds on the JSON of a request, checked over its bytes before anything is built from them.

use super::{Code, RequestError};
use crate::limits::{JSON_DEPTH_MAX, JSON_VALUES_MAX};

/// Checks nesting, the number of values, and that no string holds the NUL character. No field needs
/// NUL, and some consumers cut text at it.
///
/// Does not check that the bytes are valid JSON.
///
/// # Errors
/// Says which limit is exceeded, or where the NUL is.
pub fn check(json: &[u8]) -> Result<(), RequestError> {
    let (mut depth, mut values) = (0_usize, 1_usize);
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => at = skip_string(json, at)?,
            b'[' | b'{' => {
                depth += 1;
                values += 1;
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' => values += 1,
            _ => {}
        }
        if depth > JSON_DEPTH_MAX {
            return Err(too_much(&format!(
                "is nested deeper than {JSON_DEPTH_MAX} levels"
            )));
        }
        if values > JSON_VALUES_MAX {
            return Err(too_much(&format!(
                "holds more than {JSON_VALUES_MAX} values"
            )));
        }
        at += 1;
    }
    Ok(())
}

/// Index of the quote that ends the string beginning at `start`, or of the last byte.
fn skip_string(json: &[u8], start: usize) -> Result<usize, RequestError> {
    let mut at = start + 1;
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => return Ok(at),
            b'\\' if json[at + 1..].starts_with(b"u0000") => {
                return Err(too_much(&format!(
                    "has an escaped NUL character at byte {at}"
                )));
            }
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    Ok(json.len())
}

fn too_much(what: &str) -> RequestError {
    RequestError::new(Code::InvalidJson, format!("The JSON of the body {what}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(json: &str) -> String {
        check(json.as_bytes()).map_or_else(|refusal| refusal.message, |()| "fine".to_owned())
    }

    #[test]
    fn depth_is_bounded_and_brackets_in_strings_do_not_count() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(says(&nested(JSON_DEPTH_MAX)), "fine");
        assert!(says(&nested(JSON_DEPTH_MAX + 1)).contains("deeper than 128"));
        assert!(says(&"{\"a\":".repeat(1_000_000)).contains("deeper than 128"));
        assert_eq!(says(&format!("\"\\\"{}\"", "[".repeat(200))), "fine");
    }

    #[test]
    fn values_are_bounded() {
        assert!(says(&format!("[{}1]", "1,".repeat(JSON_VALUES_MAX))).contains("1000000 values"));
        assert!(says(&"[],".repeat(JSON_VALUES_MAX)).contains("1000000 values"));
    }

    #[test]
    fn escaped_nul_is_refused_but_not_what_only_looks_like_it() {
        assert!(says(r#"{"a":"x\u0000"}"#).contains("NUL character at byte 7"));
        assert_eq!(says(r#"{"a":"x\\u0000"}"#), "fine");
    }

    #[test]
    fn text_that_is_not_json_is_no_concern_here() {
        for text in ["", "\"", "\"\\", "]]}", "\"\\u00"] {
            assert_eq!(says(text), "fine");
        }
    }
}
