//! Mistral: `[TOOL_CALLS]` before a list of JSON objects, or, since 2025, before each name with its JSON.

use super::{CallFormat, CallTemplate};
use crate::{
    conversation::OutputDelta,
    output_parser::syntax::{
        CallParser, Step,
        name_then_json::{Head, NameThenJson, NameThenJsonCalls},
        objects::CallObjects,
        pending_text::PendingText,
        tools::Tools,
    },
};

const CALLS: &str = "[TOOL_CALLS]";
const ARGUMENTS: &str = "[ARGS]";
const ID: &str = "[CALL_ID]";

pub(super) const SYNTAX: CallFormat = CallFormat {
    is_of: |source| source.contains(CALLS),
    markers: &[CALLS],
    behind: |_| Box::<EitherForm>::default(),
    at_start: &[],
    tokens: &[CALLS, ARGUMENTS, ID],
    wrapper: |source| match (source.contains(ARGUMENTS), source.contains(ID)) {
        (false, _) => Some(CallTemplate {
            opening: "[TOOL_CALLS][",
            closing: "]",
            ..CallTemplate::LISTED
        }),
        (true, false) => Some(NAMED_CALLS),
        (true, true) => Some(CallTemplate {
            before_arguments: "[CALL_ID]\u{fffc}[ARGS]",
            id: "[0-9A-Za-z]{9}",
            ..NAMED_CALLS
        }),
    },
};

const NAMED_CALLS: CallTemplate = CallTemplate {
    opening: "",
    before_name: CALLS,
    before_arguments: ARGUMENTS,
    after_arguments: "",
    between: "",
    closing: "",
    ..CallTemplate::PLAIN
};

const NAMED: NameThenJson = NameThenJson {
    begin: "",
    head,
    close: &[],
    end: None,
};

/// Decides by the first character which form it is: models of either write the other at times.
#[derive(Default)]
struct EitherForm(Option<Box<dyn CallParser>>);

impl CallParser for EitherForm {
    fn read(
        &mut self,
        held: &mut PendingText,
        tools: &Tools,
        pieces: &mut Vec<OutputDelta>,
    ) -> Step {
        if self.0.is_none() {
            held.read_space();
            self.0 = Some(match held.rest().chars().next() {
                None => return Step::More,
                Some('[' | '{') => Box::new(CallObjects::new(None)),
                Some(_) => Box::new(NameThenJsonCalls::new(NAMED, true)),
            });
        }
        match &mut self.0 {
            Some(calls) => calls.read(held, tools, pieces),
            None => Step::More,
        }
    }
}

/// The name up to the arguments; an id may stand between.
fn head(text: &str) -> Head<'_> {
    let Some(open) = text
        .find('{')
        .or_else(|| Some(text.find(ARGUMENTS)? + ARGUMENTS.len()))
    else {
        return Head::Maybe;
    };
    let before = &text[..open];
    let name = [ID, ARGUMENTS].iter().fold(before, |name, marker| {
        name.split(marker).next().unwrap_or(name)
    });
    Head::Is(name.trim(), open)
}

#[cfg(test)]
mod tests {
    use super::super::Family;
    use crate::output_parser::tests::check;

    const ANSWERS: &[(&str, &[&str])] = &[
        (
            "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": \"]\"}, \"id\": \"abcdefgh1\"}, \
             {\"name\": \"g\", \"arguments\": {}, \"id\": \"abcdefgh2\"}]",
            &["f {\"a\": \"]\"}", "g {}"],
        ),
        (
            "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}]",
            &["f {}"],
        ),
        (
            "Look.[TOOL_CALLS]f[ARGS]{\"a\": \"[TOOL_CALLS]\"}[TOOL_CALLS]g[ARGS]{}",
            &["text Look.", "f {\"a\": \"[TOOL_CALLS]\"}", "g {}"],
        ),
        (
            "[TOOL_CALLS]f[CALL_ID]abcdefgh1[ARGS]{\"a\": 1}",
            &["f {\"a\": 1}"],
        ),
        ("[TOOL_CALLS]f{\"a\": 1}", &["f {\"a\": 1}"]),
        ("[TOOL_CALLS]h[ARGS]{}", &["text [TOOL_CALLS]h[ARGS]{}"]),
        ("[TOOL_CALLS]", &["text [TOOL_CALLS]"]),
        (
            "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, 7]",
            &["f {}", "text , 7]"],
        ),
        ("[1, 2]", &["text [1, 2]"]),
    ];

    #[test]
    fn answers() {
        check(Family::Mistral, ANSWERS);
    }
}
