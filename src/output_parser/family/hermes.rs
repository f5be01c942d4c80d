//! Hermes and Qwen: JSON between `<tool_call>` and `</tool_call>`.

use super::{CallFormat, CallTemplate};
use crate::output_parser::syntax::objects::CallObjects;

pub(super) const SYNTAX: CallFormat = CallFormat {
    is_of: |source| source.contains("<tool_call>") && !source.contains("<invoke"),
    markers: &["<tool_call>"],
    behind: |_| Box::new(CallObjects::new(Some("</tool_call>"))),
    at_start: &[],
    tokens: &["<tool_call>", "</tool_call>"],
    wrapper: |_| {
        Some(CallTemplate {
            opening: "",
            before_name: "<tool_call>\n{\"name\": \"",
            before_arguments: "\", \"arguments\": ",
            after_arguments: "}\n</tool_call>",
            between: "\n",
            closing: "",
            ..CallTemplate::PLAIN
        })
    },
};

#[cfg(test)]
mod tests {
    use super::super::Family;
    use crate::output_parser::tests::check;

    const ANSWERS: &[(&str, &[&str])] = &[
        ("Hi.", &["text Hi."]),
        (" Hi.\n", &["text  Hi.\n"]),
        (
            "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"b\"}}\n</tool_call>",
            &["f {\"a\": \"b\"}"],
        ),
        (
            "Let me look.\n\n<tool_call>{\"name\": \"f\", \"arguments\": {\"a\":1}}</tool_call>\n\
                     <tool_call>\n{\"arguments\": {\"x\": {}}, \"name\": \"g\"}\n</tool_call>\nDone.\n",
            &[
                "text Let me look.",
                "f {\"a\":1}",
                "g {\"x\": {}}",
                "text Done.\n",
            ],
        ),
        // Everything survives in strings.
        (
            "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"}</tool_call>\\n\\\"é{\"}}</tool_call>",
            &["f {\"a\": \"}</tool_call>\\n\\\"é{\"}"],
        ),
        (
            "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x\ny\"}}</tool_call>",
            &["f {\"a\": \"x\\ny\"}"],
        ),
        // No arguments, in all notations.
        ("<tool_call>{\"name\": \"f\"}</tool_call>", &["f "]),
        (
            "<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>",
            &["f "],
        ),
        (
            "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
            &["f {}"],
        ),
        (
            "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
            &["f {\"a\": 1}"],
        ),
        // Several in one pair of markers, a list, a brace too many, no closing marker.
        (
            "<tool_call>{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", \"arguments\": {}}</tool_call>",
            &["f {}", "g {}"],
        ),
        (
            "<tool_call>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\"}]</tool_call>.",
            &["f {}", "g ", "text ."],
        ),
        (
            "<tool_call>{\"name\": \"f\", \"arguments\": {}}}</tool_call>",
            &["f {}"],
        ),
        (
            "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
            &["f {\"a\": 1}"],
        ),
        (
            "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}",
            &["f {\"a\": 1}"],
        ),
        // What is no call is text.
        (
            "a <tool_call>no</tool_call> b",
            &["text a <tool_call>no</tool_call> b"],
        ),
        (
            "<tool_call>{\"name\": \"h\", \"arguments\": {}}</tool_call>",
            &["text <tool_call>{\"name\": \"h\", \"arguments\": {}}</tool_call>"],
        ),
        (
            "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
            &["text <tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>"],
        ),
        (
            "<tool_call>{\"name\": \"f\", \"arguments\": {a: 1}}</tool_call>",
            &["text <tool_call>{\"name\": \"f\", \"arguments\": {a: 1}}</tool_call>"],
        ),
        (
            "<tool_call>\n{\"name\": \"f\"",
            &["text <tool_call>\n{\"name\": \"f\""],
        ),
        (
            "<tool_call>{\"arguments\": {\"a\": 1}}</tool_call>",
            &["text <tool_call>{\"arguments\": {\"a\": 1}}</tool_call>"],
        ),
        (
            "{\"name\": \"f\", \"arguments\": {}}",
            &["text {\"name\": \"f\", \"arguments\": {}}"],
        ),
        ("1 < 2 <tool", &["text 1 < 2 <tool"]),
        // A marker before one is text.
        (
            "<tool_call>\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
            &["text <tool_call>", "f {}"],
        ),
        // A call that breaks after its first key stays a call, up to the break.
        (
            "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": oops}}</tool_call>",
            &["f {\"a\": …", "text oops}}</tool_call>"],
        ),
        // Reasoning.
        (
            "<think>\nHm.\n</think>\n\nYes.",
            &["thought Hm.", "text Yes."],
        ),
        ("<think>\n\n</think>\n\nYes.", &["text Yes."]),
        (
            "<think>a <tool_call>{\"name\": \"f\"}</tool_call></think><tool_call>{\"name\": \"g\"}</tool_call>",
            &["thought a <tool_call>{\"name\": \"f\"}</tool_call>", "g "],
        ),
        ("<think>Hm", &["thought Hm"]),
        (
            "<think>a</think>b<think>c</think>d",
            &["thought a", "text b", "thought c", "text d"],
        ),
        ("Write `<think>` first.", &["text Write `<think>` first."]),
        (
            "```\n<think>x</think>\n```",
            &["text ```\n<think>x</think>\n```"],
        ),
        ("a</think>b", &["text a</think>b"]),
    ];

    #[test]
    fn answers() {
        check(Family::Hermes, ANSWERS);
    }
}
