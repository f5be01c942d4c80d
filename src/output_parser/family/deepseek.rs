//! DeepSeek R1, V3 and V3.1: a name and JSON between control tokens. V3 writes the kind of call before the
//! name, and the JSON in a code fence.

use super::{CallFormat, CallTemplate};
use crate::output_parser::syntax::name_then_json::{
    Head, NameThenJson, NameThenJsonCalls, name_before,
};

const SECTION: &str = "<｜tool▁calls▁begin｜>";
const SECTION_END: &str = "<｜tool▁calls▁end｜>";
const CALL: &str = "<｜tool▁call▁begin｜>";
const SEPARATOR: &str = "<｜tool▁sep｜>";
const CALL_END: &str = "<｜tool▁call▁end｜>";
const FENCE: &str = "```json";

pub(super) const SYNTAX: CallFormat = CallFormat {
    is_of: |source| source.contains(CALL),
    markers: &[SECTION, CALL],
    behind: |marker| Box::new(NameThenJsonCalls::new(NAMED, marker == CALL)),
    at_start: &[],
    tokens: &[SECTION, SECTION_END, CALL, SEPARATOR, CALL_END],
    wrapper: |source| {
        Some(match source.contains(FENCE) {
            true => FENCED,
            false => BARE,
        })
    },
};

const FENCED: CallTemplate = CallTemplate {
    opening: SECTION,
    before_name: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
    before_arguments: "\n```json\n",
    after_arguments: "\n```<｜tool▁call▁end｜>",
    between: "\n",
    closing: SECTION_END,
    ..CallTemplate::PLAIN
};

const BARE: CallTemplate = CallTemplate {
    opening: SECTION,
    before_name: CALL,
    before_arguments: SEPARATOR,
    after_arguments: CALL_END,
    between: "",
    closing: SECTION_END,
    ..CallTemplate::PLAIN
};

const NAMED: NameThenJson = NameThenJson {
    begin: CALL,
    head,
    close: &["```", CALL_END],
    end: Some(SECTION_END),
};

/// Parses the name before the separator, if arguments follow, else the line after it.
fn head(text: &str) -> Head<'_> {
    let Head::Is(before, length) = name_before(text, SEPARATOR) else {
        return Head::Maybe;
    };
    let after = &text[length..];
    match after.trim_start().chars().next() {
        None => return Head::Maybe,
        Some('{' | '<') => return Head::Is(before, length),
        Some(_) => {}
    }
    let Some((name, rest)) = after.split_once('\n') else {
        return Head::Maybe;
    };
    let json = rest.trim_start();
    let json = match json.strip_prefix(FENCE) {
        Some(json) => json,
        None if FENCE.starts_with(json) => return Head::Maybe,
        None => json,
    };
    Head::Is(name.trim(), text.len() - json.len())
}

#[cfg(test)]
mod tests {
    use super::super::Family;
    use crate::output_parser::tests::check;

    const ANSWERS: &[(&str, &[&str])] = &[
        (
            "Look.\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": \"```\"}\n\
             ```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```\
             <｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            &["text Look.", "f {\"a\": \"```\"}", "g {}"],
        ),
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>\
             <｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            &["f {\"a\": 1}", "g {}"],
        ),
        (
            "<｜tool▁call▁begin｜>f<｜tool▁sep｜><｜tool▁call▁end｜> So.",
            &["f ", "text So."],
        ),
        (
            "<think>a</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>h<｜tool▁sep｜>{}",
            &[
                "thought a",
                "text <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>h<｜tool▁sep｜>{}",
            ],
        ),
    ];

    #[test]
    fn answers() {
        check(Family::DeepSeek, ANSWERS);
    }
}
