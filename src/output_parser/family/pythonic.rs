//! LFM 2 and other models that write calls as Python.

use super::{ArgumentTags, CallFormat, CallTemplate, Texts};
use crate::output_parser::syntax::pythonic::PythonicCalls;

const OPEN: &str = "<|tool_call_start|>";
const CLOSE: &str = "<|tool_call_end|>";

pub(super) const SYNTAX: CallFormat = CallFormat {
    is_of: |source| {
        // LFM 2's first templates leave calls to the content, and show no more than the list of tools.
        source.contains(OPEN)
            || source.contains("<|tool_list_start|>")
            || source.contains("(params_name1=params_value1")
    },
    markers: &[OPEN],
    behind: |_| Box::new(PythonicCalls::new(Some(CLOSE))),
    at_start: &[('[', |_| Box::new(PythonicCalls::new(None)))],
    tokens: &[OPEN, CLOSE],
    wrapper: |source| {
        // Of LFM 2's first templates, the models know the markers.
        Some(match source.contains("(params_name1=params_value1") {
            true => WRAPPER,
            false => CallTemplate {
                opening: "<|tool_call_start|>[",
                closing: "]<|tool_call_end|>",
                ..WRAPPER
            },
        })
    },
};

const WRAPPER: CallTemplate = CallTemplate {
    opening: "[",
    before_arguments: "(",
    after_arguments: ")",
    between: ", ",
    closing: "]",
    tags: Some(ArgumentTags {
        before_value: "=",
        between: ", ",
        texts: Texts::Json,
        ..ArgumentTags::PLAIN
    }),
    ..CallTemplate::PLAIN
};

#[cfg(test)]
mod tests {
    use super::super::Family;
    use crate::output_parser::tests::check;

    const ANSWERS: &[(&str, &[&str])] = &[
        (
            "Look.<|tool_call_start|>[f(s='it\\'s', n=3, o={\"k\": [True, None]}), g()]<|tool_call_end|>So.",
            &[
                "text Look.",
                "f {\"s\": \"it's\", \"n\": 3, \"o\": {\"k\": [true, null]}}",
                "g {}",
                "text So.",
            ],
        ),
        ("[f(s=\"a)]\")]", &["f {\"s\": \"a)]\"}"]),
        ("[f(\n  n=1,\n)]\nSo.", &["f {\"n\": 1}", "text So."]),
        (
            "<|tool_call_start|>f(n=1)\ng()<|tool_call_end|>",
            &["f {\"n\": 1}", "g {}"],
        ),
        (
            "<|tool_call_start|>[h(n=1)]",
            &["text <|tool_call_start|>[h(n=1)]"],
        ),
        ("[f(1)]", &["text [f(1)]"]),
        ("[f(n=oops)]", &["f {\"n\": …", "text oops)]"]),
        ("[1, 2]", &["text [1, 2]"]),
        ("See [f(n=1)].", &["text See [f(n=1)]."]),
        ("f(n=1)", &["text f(n=1)"]),
    ];

    #[test]
    fn answers() {
        check(Family::Pythonic, ANSWERS);
    }
}
