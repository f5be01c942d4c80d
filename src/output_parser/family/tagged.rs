//! Families that differ from each other only in the markers around their JSON.

use super::{CallFormat, CallTemplate};
use crate::output_parser::syntax::objects::CallObjects;

/// Nemotron Nano 2.
pub(super) const NEMOTRON: CallFormat = CallFormat {
    is_of: |source| source.contains("<TOOLCALL>"),
    markers: &["<TOOLCALL>"],
    behind: |_| Box::new(CallObjects::new(Some("</TOOLCALL>"))),
    tokens: &["<TOOLCALL>", "</TOOLCALL>"],
    wrapper: |_| {
        Some(CallTemplate {
            opening: "<TOOLCALL>[",
            closing: "]</TOOLCALL>",
            ..CallTemplate::LISTED
        })
    },
    ..PLAIN
};

/// Apriel and MiniMax M1.
pub(super) const TOOL_CALLS: CallFormat = CallFormat {
    is_of: |source| source.contains("</tool_calls>"),
    markers: &["<tool_calls>"],
    behind: |_| Box::new(CallObjects::new(Some("</tool_calls>"))),
    tokens: &["<tool_calls>", "</tool_calls>"],
    wrapper: |source| {
        Some(match source.contains("<tool_calls>[") {
            true => CallTemplate {
                opening: "<tool_calls>[",
                closing: "]</tool_calls>",
                ..CallTemplate::LISTED
            },
            false => CallTemplate {
                opening: "<tool_calls>\n",
                between: "\n",
                closing: "\n</tool_calls>",
                ..CallTemplate::LISTED
            },
        })
    },
    ..PLAIN
};

/// Command R7B and A, which say `tool_name` and `parameters`, and number the calls.
pub(super) const COHERE: CallFormat = CallFormat {
    is_of: |source| source.contains("<|START_ACTION|>"),
    markers: &["<|START_ACTION|>"],
    behind: |_| Box::new(CallObjects::new(Some("<|END_ACTION|>"))),
    tokens: &["<|START_ACTION|>", "<|END_ACTION|>"],
    wrapper: |_| {
        Some(CallTemplate {
            opening: "<|START_ACTION|>[\n    ",
            before_name: "{\"tool_call_id\": \"\u{fffc}\", \"tool_name\": \"",
            before_arguments: "\", \"parameters\": ",
            after_arguments: "}",
            between: ",\n    ",
            closing: "\n]<|END_ACTION|>",
            id: "[0-9]{1,5}",
            ..CallTemplate::PLAIN
        })
    },
    ..PLAIN
};

/// Granite 3, whose calls are a list behind a marker or without one.
pub(super) const GRANITE: CallFormat = CallFormat {
    is_of: |source| source.contains("<|tool_call|>"),
    markers: &["<|tool_call|>", "<tool_call>"],
    tokens: &["<|tool_call|>", "<tool_call>"],
    wrapper: |_| {
        Some(CallTemplate {
            opening: "<|tool_call|>[",
            closing: "]",
            ..CallTemplate::LISTED
        })
    },
    ..PLAIN
};

/// GigaChat 3.
pub(super) const GIGACHAT: CallFormat = CallFormat {
    is_of: |source| source.contains("<|function_call|>"),
    markers: &["<|function_call|>"],
    tokens: &["<|function_call|>"],
    wrapper: |_| {
        Some(CallTemplate {
            before_name: "<|function_call|>{\"name\": \"",
            between: "",
            ..CallTemplate::LISTED
        })
    },
    ..PLAIN
};

const PLAIN: CallFormat = CallFormat {
    is_of: |_| false,
    markers: &[],
    behind: |_| Box::new(CallObjects::new(None)),
    at_start: &[],
    tokens: &[],
    wrapper: |_| None,
};

#[cfg(test)]
mod tests {
    use super::super::Family;
    use crate::output_parser::tests::check;

    #[test]
    fn answers() {
        let calls =
            "[{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": {}}]";
        for (family, open, close) in [
            (Family::Nemotron, "<TOOLCALL>", "</TOOLCALL>"),
            (Family::ToolCalls, "<tool_calls>", "</tool_calls>"),
            (Family::Granite, "<|tool_call|>", ""),
            (Family::GigaChat, "<|function_call|>", ""),
        ] {
            let answer = format!("Look.\n{open}{calls}{close}");
            let expected: &[&str] = &["text Look.", "f {\"a\": 1}", "g {}"];
            check(family, &[(&answer, expected)]);
        }
        let answer = "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": \
                      {\"a\": 1}}\n]<|END_ACTION|>";
        check(Family::Cohere, &[(answer, &["f {\"a\": 1}"])]);
        let answer = "<tool_calls>\n{\"name\": \"f\"}\n{\"name\": \"g\"}\n</tool_calls>";
        check(Family::ToolCalls, &[(answer, &["f ", "g "])]);
    }
}
