//! FunctionGemma and Gemma 4: `call:NAME{key:value}` between two markers, with texts between two others. Gemma 3's
//! templates show no tools.

use super::{ArgumentTags, CallFormat, CallTemplate, Texts};
use crate::{
    conversation::OutputDelta,
    output_parser::syntax::{
        CallParser, Step,
        json::Progress,
        marker::{Begins, begins},
        name_then_json::{Head, name_before},
        pending_text::PendingText,
        python_literal::{PythonLiteral, Quotes},
        tools::Tools,
    },
};

const NAME_BYTES_MAX: usize = 256;

pub(super) const GEMMA_4: CallFormat = CallFormat {
    is_of: |source| source.contains("<|tool_call>"),
    markers: &["<|tool_call>"],
    behind: |_| Box::new(GemmaCall::new("<|\"|>", "<tool_call|>")),
    at_start: &[],
    tokens: &["<|tool_call>", "<tool_call|>", "<|\"|>"],
    wrapper: |_| {
        Some(CallTemplate {
            before_name: "<|tool_call>call:",
            before_arguments: "{",
            after_arguments: "}<tool_call|>",
            tags: Some(named("<|\"|>")),
            ..CallTemplate::PLAIN
        })
    },
};

pub(super) const FUNCTION_GEMMA: CallFormat = CallFormat {
    is_of: |source| source.contains("<start_function_call>"),
    markers: &["<start_function_call>"],
    behind: |_| Box::new(GemmaCall::new("<escape>", "<end_function_call>")),
    at_start: &[],
    tokens: &["<start_function_call>", "<end_function_call>", "<escape>"],
    wrapper: |_| {
        Some(CallTemplate {
            before_name: "<start_function_call>call:",
            before_arguments: "{",
            after_arguments: "}<end_function_call>",
            tags: Some(named("<escape>")),
            ..CallTemplate::PLAIN
        })
    },
};

/// Arguments by their names, with texts between two of a marker.
const fn named(marker: &'static str) -> ArgumentTags {
    ArgumentTags {
        before_value: ":",
        between: ",",
        texts: Texts::Marked(marker),
        ..ArgumentTags::PLAIN
    }
}

/// Reads one such call. Its arguments are passed on as they come.
struct GemmaCall {
    close: &'static str,
    name: Option<String>,
    arguments: PythonLiteral,
    /// Arguments that were parsed and not yet emitted.
    json: String,
    began: bool,
    ended: bool,
}

impl GemmaCall {
    fn new(quote: &'static str, close: &'static str) -> Self {
        Self {
            close,
            name: None,
            arguments: PythonLiteral::new(Quotes::Marker(quote)),
            json: String::new(),
            began: false,
            ended: false,
        }
    }

    fn head(&mut self, held: &mut PendingText, tools: &Tools) -> Option<Step> {
        held.read_space();
        let rest = held.rest();
        match (begins(rest, "call:"), name_before(rest, "{")) {
            (Begins::Maybe, _) => Some(Step::More),
            (Begins::Yes, Head::Maybe) if rest.len() <= NAME_BYTES_MAX => Some(Step::More),
            (Begins::Yes, Head::Is(head, length)) => {
                let name = head["call:".len()..].trim().to_owned();
                if !tools.has(&name) {
                    return Some(Step::Broken);
                }
                held.read(length - 1);
                self.name = Some(name);
                None
            }
            _ => Some(Step::Broken),
        }
    }

    fn arguments(&mut self, held: &mut PendingText, pieces: &mut Vec<OutputDelta>) -> Option<Step> {
        let (read, progress) = self.arguments.read(held.rest(), &mut self.json);
        held.read(read);
        // A key is complete when its colon is written.
        if self.began || progress == Progress::Ended || self.json.contains("\": ") {
            if !std::mem::replace(&mut self.began, true) {
                let name = self.name.clone().unwrap_or_default();
                pieces.push(OutputDelta::Call { name });
            }
            if !self.json.is_empty() {
                pieces.push(OutputDelta::Arguments(std::mem::take(&mut self.json)));
            }
            held.settle();
        }
        match progress {
            Progress::Inside => Some(Step::More),
            Progress::Broken => Some(Step::Broken),
            Progress::Ended => {
                pieces.push(OutputDelta::End);
                self.ended = true;
                None
            }
        }
    }
}

impl CallParser for GemmaCall {
    fn read(
        &mut self,
        held: &mut PendingText,
        tools: &Tools,
        pieces: &mut Vec<OutputDelta>,
    ) -> Step {
        if self.name.is_none()
            && let Some(step) = self.head(held, tools)
        {
            return step;
        }
        if !self.ended
            && let Some(step) = self.arguments(held, pieces)
        {
            return step;
        }
        held.read_space();
        match begins(held.rest(), self.close) {
            Begins::Maybe => Step::More,
            Begins::No => Step::Broken,
            Begins::Yes => {
                held.read(self.close.len());
                held.settle();
                Step::Done
            }
        }
    }

    fn finish(&mut self, held: &mut PendingText, _: &Tools, pieces: &mut Vec<OutputDelta>) {
        if self.began && !self.ended {
            let cut = self.arguments.cut(held.rest());
            if !cut.is_empty() {
                pieces.push(OutputDelta::Arguments(cut.to_owned()));
            }
            held.drop_all();
        }
    }

    fn is_markup(&self, rest: &str) -> bool {
        self.ended && self.close.starts_with(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Family;
    use crate::output_parser::tests::check;

    const GEMMA_4: &[(&str, &[&str])] = &[
        (
            "Look.\n<|tool_call>call:f{s:<|\"|>Ç<&'\"\n}<|\"|>,n:3,o:{k:[true,null]}}<tool_call|>\
             <|tool_call>call:g{}<tool_call|>",
            &[
                "text Look.",
                "f {\"s\": \"Ç<&'\\\"\\n}\", \"n\": 3, \"o\": {\"k\": [true, null]}}",
                "g {}",
            ],
        ),
        (
            "<|tool_call>call:h{}<tool_call|>",
            &["text <|tool_call>call:h{}<tool_call|>"],
        ),
        ("<|tool_call>f{}", &["text <|tool_call>f{}"]),
        (
            "<|tool_call>call:f{n:oops}<tool_call|>",
            &["f {\"n\": …", "text oops}<tool_call|>"],
        ),
    ];

    const FUNCTION_GEMMA: &[(&str, &[&str])] = &[(
        "<start_function_call>call:f{s:<escape>a, b<escape>,n:3}<end_function_call>",
        &["f {\"s\": \"a, b\", \"n\": 3}"],
    )];

    #[test]
    fn answers() {
        check(Family::Gemma4, GEMMA_4);
        check(Family::FunctionGemma, FUNCTION_GEMMA);
    }
}
