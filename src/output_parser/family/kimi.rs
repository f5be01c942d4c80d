//! Kimi K2: `functions.NAME:NUMBER` and JSON between control tokens.

use super::{CallFormat, CallTemplate};
use crate::output_parser::syntax::name_then_json::{
    Head, NameThenJson, NameThenJsonCalls, name_before,
};

const SECTION: &str = "<|tool_calls_section_begin|>";
const SECTION_END: &str = "<|tool_calls_section_end|>";
/// Another form of the marker, which models write at times.
const SINGULAR: &str = "<|tool_call_section_begin|>";
const SINGULAR_END: &str = "<|tool_call_section_end|>";
const CALL: &str = "<|tool_call_begin|>";
const ARGUMENTS: &str = "<|tool_call_argument_begin|>";
const CALL_END: &str = "<|tool_call_end|>";

pub(super) const SYNTAX: CallFormat = CallFormat {
    is_of: |source| source.contains(CALL) && source.contains(ARGUMENTS),
    markers: &[SECTION, SINGULAR, CALL],
    behind: |marker| {
        let end = match marker {
            SINGULAR => SINGULAR_END,
            _ => SECTION_END,
        };
        let named = NameThenJson {
            end: Some(end),
            ..NAMED
        };
        Box::new(NameThenJsonCalls::new(named, marker == CALL))
    },
    at_start: &[],
    tokens: &[SECTION, SECTION_END, CALL, ARGUMENTS, CALL_END],
    wrapper: |_| Some(WRAPPER),
};

const WRAPPER: CallTemplate = CallTemplate {
    opening: SECTION,
    before_name: "<|tool_call_begin|>functions.",
    before_arguments: ":\u{fffc}<|tool_call_argument_begin|>",
    after_arguments: CALL_END,
    closing: SECTION_END,
    // Counts calls over the whole conversation.
    id: "[0-9]{1,5}",
    ..CallTemplate::PLAIN
};

const NAMED: NameThenJson = NameThenJson {
    begin: CALL,
    head,
    close: &[CALL_END],
    end: Some(SECTION_END),
};

/// A name out of `functions.NAME:NUMBER`; older models leave out either.
fn head(text: &str) -> Head<'_> {
    match name_before(text, ARGUMENTS) {
        Head::Is(id, length) => {
            let name = id.strip_prefix("functions.").unwrap_or(id);
            let name = match name.rsplit_once(':') {
                Some((name, number)) if number.bytes().all(|b| b.is_ascii_digit()) => name,
                _ => name,
            };
            Head::Is(name, length)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Family;
    use crate::output_parser::tests::check;

    const ANSWERS: &[(&str, &[&str])] = &[
        (
            "Look.<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>\
             {\"a\": \"<|tool_call_end|>\"}<|tool_call_end|><|tool_call_begin|>functions.g:1\
             <|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
            &["text Look.", "f {\"a\": \"<|tool_call_end|>\"}", "g {}"],
        ),
        (
            "<|tool_call_begin|>f<|tool_call_argument_begin|> {\"a\": 1} <|tool_call_end|> So.",
            &["f {\"a\": 1}", "text So."],
        ),
        (
            "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|><|tool_call_end|>",
            &["f "],
        ),
        (
            "<|tool_call_begin|>functions.h:0<|tool_call_argument_begin|>{}",
            &["text <|tool_call_begin|>functions.h:0<|tool_call_argument_begin|>{}"],
        ),
        (
            "<|tool_call_section_begin|> <|tool_call_begin|> g:12 <|tool_call_argument_begin|> {} \
             <|tool_call_end|> <|tool_call_section_end|>",
            &["g {}"],
        ),
        (
            "<|tool_calls_section_begin|><|tool_calls_section_end|>",
            &["text <|tool_calls_section_begin|><|tool_calls_section_end|>"],
        ),
        (
            "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": oops}<|tool_call_end|>",
            &["f {\"a\": …", "text oops}<|tool_call_end|>"],
        ),
    ];

    #[test]
    fn answers() {
        check(Family::Kimi, ANSWERS);
    }
}
