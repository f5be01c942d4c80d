//! Llama 3: an answer that is JSON with `name` and `parameters`, with or without `<|python_tag|>`
//! before it.
//!
//! Some models write `<function=NAME>JSON</function>` instead; Functionary always does.

use super::{CallFormat, CallTemplate};
use crate::output_parser::syntax::{
    name_then_json::{NameThenJson, NameThenJsonCalls, name_before},
    objects::CallObjects,
    pythonic::PythonicCalls,
};

const TAG: &str = "<|python_tag|>";
const FUNCTION: &str = "<function=";

pub(super) const SYNTAX: CallFormat = CallFormat {
    is_of: |source| {
        source.contains(TAG) || source.contains("\"parameters\": ") && source.contains("<|eot_id|>")
    },
    markers: &[TAG, FUNCTION],
    behind: |marker| match marker {
        FUNCTION => Box::new(NameThenJsonCalls::new(FUNCTIONS, true)),
        _ => Box::new(CallObjects::new(None)),
    },
    at_start: &[
        ('{', |_| Box::new(CallObjects::bare())),
        ('[', |_| Box::new(PythonicCalls::new(None))),
    ],
    tokens: &[TAG],
    wrapper: |source| {
        Some(match source.contains(FUNCTION) {
            true => FUNCTIONARY,
            false => JSON,
        })
    },
};

const JSON: CallTemplate = CallTemplate {
    opening: "",
    before_name: "{\"name\": \"",
    before_arguments: "\", \"parameters\": ",
    after_arguments: "}",
    between: "; ",
    closing: "",
    ..CallTemplate::PLAIN
};

const FUNCTIONARY: CallTemplate = CallTemplate {
    before_name: FUNCTION,
    before_arguments: ">",
    after_arguments: "</function>",
    between: "",
    ..JSON
};

const FUNCTIONS: NameThenJson = NameThenJson {
    begin: FUNCTION,
    head: |text| name_before(text, ">"),
    close: &["</function>"],
    end: None,
};

#[cfg(test)]
mod tests {
    use super::super::Family;
    use crate::output_parser::tests::check;

    const ANSWERS: &[(&str, &[&str])] = &[
        (
            "{\"name\": \"f\", \"parameters\": {\"a\": {\"b\": [1]}}}",
            &["f {\"a\": {\"b\": [1]}}"],
        ),
        (
            "<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": {\"a\": 1}}; \
             {\"name\": \"g\", \"parameters\": {}}",
            &["f {\"a\": 1}", "g {}"],
        ),
        (
            "\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\nSo.",
            &["f {\"a\": 1}", "text So."],
        ),
        ("<function=f>{\"a\": 1}</function>", &["f {\"a\": 1}"]),
        // JSON in an ordinary answer is no call.
        (
            "{\"name\": \"Ann\", \"parameters\": {}}",
            &["text {\"name\": \"Ann\", \"parameters\": {}}"],
        ),
        ("{\"city\": \"Paris\"}", &["text {\"city\": \"Paris\"}"]),
        (
            "Use {\"name\": \"f\", \"parameters\": {}}",
            &["text Use {\"name\": \"f\", \"parameters\": {}}"],
        ),
        ("<|python_tag|>print(1)", &["text <|python_tag|>print(1)"]),
        ("[f(a=1)]", &["f {\"a\": 1}"]),
        ("[1, 2]", &["text [1, 2]"]),
    ];

    #[test]
    fn answers() {
        check(Family::Llama, ANSWERS);
    }
}
