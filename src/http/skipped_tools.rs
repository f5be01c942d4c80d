//! The header that names the tools that were left out of a request.

use axum::{http::HeaderValue, response::Response};

use crate::limits;

/// Returns the header's value: the types, each once, as far as they fit; `None` if no tool was left
/// out.
pub(super) fn header(types: &[String]) -> Option<HeaderValue> {
    let mut names: Vec<String> = Vec::new();
    let mut bytes = 0;
    for kind in types {
        let name: String = kind.chars().filter(|&c| is_token(c)).collect();
        bytes += name.len() + 1;
        if bytes > limits::SKIPPED_TOOLS_BYTES_MAX {
            break;
        }
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    let value = match names.is_empty() {
        true if types.is_empty() => return None,
        // No type has a name that is valid in a header.
        true => "?".to_owned(),
        false => names.join(","),
    };
    HeaderValue::try_from(value).ok()
}

/// Adds the header.
pub(super) fn add(response: &mut Response, value: Option<HeaderValue>) {
    if let Some(value) = value {
        response
            .headers_mut()
            .insert("x-stemma-skipped-tools", value);
    }
}

/// True for the characters of an HTTP token.
fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tokens_stand_in_the_header_and_not_too_many() {
        let value = |types: &[&str]| {
            let types: Vec<String> = types.iter().map(|kind| (*kind).to_owned()).collect();
            header(&types).map(|value| value.to_str().expect("ASCII").to_owned())
        };
        assert_eq!(value(&[]), None);
        let usual = value(&["web_search", "mcp", "web_search"]);
        assert_eq!(usual.as_deref(), Some("web_search,mcp"));
        let odd = value(&["a\r\nx-evil: 1", "\u{e9}", ","]);
        assert_eq!(odd.as_deref(), Some("ax-evil1"));
        assert_eq!(value(&["\u{e9}"]).as_deref(), Some("?"));
        let long = "x".repeat(100);
        let many = value(&[
            &format!("{long}1"),
            &format!("{long}2"),
            &format!("{long}3"),
        ]);
        let many = many.expect("a value");
        assert!(
            many.len() <= limits::SKIPPED_TOOLS_BYTES_MAX && many.ends_with('2'),
            "{many}"
        );
    }
}
