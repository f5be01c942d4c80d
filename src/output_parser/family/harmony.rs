//! gpt-oss: an answer is a row of messages, each with a channel, and calls are messages to a recipient.

use super::CallTemplate;
use crate::{
    conversation::OutputDelta,
    output_parser::{
        OutputParser,
        syntax::{
            json::{JsonScanner, Progress},
            marker::{Begins, Found, begins, first_of},
            pending_text::PendingText,
            tools::Tools,
        },
    },
};

const START: &str = "<|start|>";
const CHANNEL: &str = "<|channel|>";
const MESSAGE: &str = "<|message|>";

/// Markers that end a message. The last two start another one and end a message without an end
/// marker.
const ENDS: [&str; 5] = ["<|end|>", "<|call|>", "<|return|>", START, CHANNEL];

/// Longest header; longer text is no header.
const HEADER_BYTES_MAX: usize = 1024;

/// Control tokens that messages consist of.
pub(super) const TOKENS: [&str; 7] = [
    START,
    CHANNEL,
    MESSAGE,
    "<|constrain|>",
    "<|end|>",
    "<|call|>",
    "<|return|>",
];

/// Begins a message that is a call.
pub(super) const CALL: &str = "<|channel|>commentary to=functions.";

/// One call, which ends the answer.
pub(super) const WRAPPER: CallTemplate = CallTemplate {
    before_name: CALL,
    before_arguments: " <|constrain|>json<|message|>",
    ..CallTemplate::PLAIN
};

/// True if a template is of this family.
pub(super) fn is_of(source: &str) -> bool {
    source.contains(CHANNEL) && source.contains(MESSAGE)
}

/// Parses Harmony. The channel `analysis` is reasoning, other channels are text, and a message to a
/// declared function is a call.
pub(in crate::output_parser) struct Harmony {
    tools: Tools,
    held: PendingText,
    state: State,
    /// True if the message has a piece.
    began: bool,
}

enum State {
    /// Before a message.
    Header,
    Body {
        is_reasoning: bool,
    },
    Call(Call),
}

struct Call {
    name: String,
    json: JsonScanner,
    arguments: String,
    began: bool,
}

impl Harmony {
    pub(in crate::output_parser) fn new(tools: Tools) -> Self {
        Self {
            tools,
            held: PendingText::default(),
            state: State::Header,
            began: false,
        }
    }

    /// Reads on; says whether there is more to read.
    fn step(&mut self, pieces: &mut Vec<OutputDelta>) -> bool {
        match &mut self.state {
            State::Header => self.header(),
            State::Body { is_reasoning } => {
                let piece = match is_reasoning {
                    true => OutputDelta::Reasoning,
                    false => OutputDelta::Text,
                };
                self.body(piece, pieces)
            }
            State::Call(_) => self.call(pieces),
        }
    }

    /// Parses a header. An answer without a header is text.
    fn header(&mut self) -> bool {
        let rest = self.held.rest();
        let beginnings = [START, CHANNEL, " to=", "assistant"];
        let beginnings =
            beginnings.map(|beginning| begins(rest.trim_start_matches('\n'), beginning));
        let text = State::Body {
            is_reasoning: false,
        };
        if !beginnings.contains(&Begins::Yes) {
            if beginnings.contains(&Begins::Maybe) {
                return false;
            }
            self.state = text;
            return true;
        }
        match rest.find(MESSAGE) {
            None if rest.len() <= HEADER_BYTES_MAX => return false,
            None => self.state = text,
            Some(end) if end > HEADER_BYTES_MAX => self.state = text,
            Some(end) => {
                let header = Header::of(&rest[..end]);
                self.held.read(end + MESSAGE.len());
                self.state = match header.recipient.filter(|name| self.tools.has(name)) {
                    Some(name) => State::Call(Call {
                        name,
                        json: JsonScanner::default(),
                        arguments: String::new(),
                        began: false,
                    }),
                    // The text is shown with its header, because it is no call.
                    None if header.has_recipient => text,
                    None => {
                        self.held.settle();
                        State::Body {
                            is_reasoning: header.is_reasoning,
                        }
                    }
                };
            }
        }
        true
    }

    fn body(&mut self, piece: fn(String) -> OutputDelta, pieces: &mut Vec<OutputDelta>) -> bool {
        let (length, end) = match first_of(self.held.rest(), &ENDS) {
            Found::At { start, marker } => (start, Some(ENDS[marker])),
            Found::No { certain } => (certain, None),
        };
        self.held.read(length);
        let text = self.held.give_back();
        if !text.is_empty() {
            self.began = true;
            pieces.push(piece(text));
        }
        if let Some(end) = end {
            self.message_ends(end, pieces);
        }
        end.is_some()
    }

    fn message_ends(&mut self, end: &str, pieces: &mut Vec<OutputDelta>) {
        if ![START, CHANNEL].contains(&end) {
            self.held.read(end.len());
            self.held.settle();
        }
        if std::mem::take(&mut self.began) {
            pieces.push(OutputDelta::End);
        }
        self.state = State::Header;
    }

    fn call(&mut self, pieces: &mut Vec<OutputDelta>) -> bool {
        let State::Call(call) = &mut self.state else {
            return false;
        };
        if !call.began && call.arguments.trim().is_empty() {
            self.held.read_space();
            match first_of(self.held.rest(), &ENDS) {
                // A call without arguments.
                Found::At { start: 0, marker } => {
                    pieces.push(OutputDelta::Call {
                        name: call.name.clone(),
                    });
                    self.held.settle();
                    self.began = true;
                    self.message_ends(ENDS[marker], pieces);
                    return true;
                }
                Found::No { certain: 0 } => return false,
                _ if !self.held.rest().starts_with('{') => {
                    self.state = State::Body {
                        is_reasoning: false,
                    };
                    return true;
                }
                _ => {}
            }
        }
        let (read, progress) = call.json.read(self.held.rest(), &mut call.arguments);
        self.held.read(read);
        if call.json.is_surely_object() {
            self.held.settle();
            if !std::mem::replace(&mut call.began, true) {
                pieces.push(OutputDelta::Call {
                    name: call.name.clone(),
                });
            }
            if !call.arguments.is_empty() {
                pieces.push(OutputDelta::Arguments(std::mem::take(&mut call.arguments)));
            }
        }
        if progress == Progress::Ended {
            pieces.push(OutputDelta::End);
        }
        if progress != Progress::Inside {
            self.state = State::Body {
                is_reasoning: false,
            };
        }
        progress != Progress::Inside
    }
}

impl OutputParser for Harmony {
    fn push(&mut self, text: &str, pieces: &mut Vec<OutputDelta>) {
        if text.is_empty() {
            return;
        }
        self.held.push(text);
        while self.step(pieces) {}
    }

    fn finish(&mut self, pieces: &mut Vec<OutputDelta>) {
        let is_reasoning = matches!(self.state, State::Body { is_reasoning: true });
        let rest = self.held.give_all_back();
        let is_markup = match self.state {
            State::Header => rest.trim_start().starts_with("<|"),
            State::Body { .. } => ENDS.iter().any(|end| end.starts_with(&rest)),
            State::Call(_) => false,
        };
        if !rest.is_empty() && !is_markup {
            pieces.push(match is_reasoning {
                true => OutputDelta::Reasoning(rest),
                false => OutputDelta::Text(rest),
            });
        }
    }

    fn in_reasoning(&self) -> bool {
        matches!(self.state, State::Body { is_reasoning: true })
    }
}

/// The header of a message.
struct Header {
    /// The called function, if the message is a call.
    recipient: Option<String>,
    has_recipient: bool,
    is_reasoning: bool,
}

impl Header {
    fn of(text: &str) -> Self {
        let channel = text.split_once(CHANNEL).map_or("", |(_, channel)| channel);
        let recipient = text.split_once("to=").map(|(_, recipient)| {
            let end = recipient.find(|c: char| c.is_whitespace() || c == '<');
            &recipient[..end.unwrap_or(recipient.len())]
        });
        let function = recipient.map(|name| name.strip_prefix("functions.").unwrap_or(name));
        Self {
            recipient: function.map(str::to_owned),
            has_recipient: recipient.is_some_and(|name| name != "assistant" && name != "user"),
            is_reasoning: channel.trim_start().starts_with("analysis"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Family;
    use crate::output_parser::tests::check;

    const ANSWERS: &[(&str, &[&str])] = &[
        (
            "<|channel|>analysis<|message|>Hm. {\"a\"}<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>",
            &["thought Hm. {\"a\"}", "text Yes."],
        ),
        (
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|>\
             <|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": \"<|call|>\"}<|call|>",
            &["thought Hm.", "text I look.", "f {\"a\": \"<|call|>\"}"],
        ),
        (
            " to=functions.f<|channel|>commentary json<|message|>{\"a\": 1}<|call|>\
             <|start|>assistant to=functions.g<|channel|>commentary<|message|><|call|>",
            &["f {\"a\": 1}", "g "],
        ),
        (
            "<|channel|>commentary<|message|>One.<|end|><|start|>assistant<|channel|>final<|message|>Two.",
            &["text One.", "text Two."],
        ),
        (
            "<|channel|>analysis<|message|>Hm.<|channel|>final<|message|>Yes.",
            &["thought Hm.", "text Yes."],
        ),
        (
            "<|channel|>commentary to=functions.h<|message|>{\"a\": 1}<|call|>",
            &["text <|channel|>commentary to=functions.h<|message|>{\"a\": 1}"],
        ),
        (
            "<|channel|>commentary to=functions.f<|message|>{\"a\": oops}<|call|>",
            &["f {\"a\": …", "text oops}"],
        ),
        (
            "<|channel|>commentary to=functions.f<|message|>oops<|call|>",
            &["text <|channel|>commentary to=functions.f<|message|>oops"],
        ),
        ("Yes.", &["text Yes."]),
        ("<|channel|>final<|message|>a <| b", &["text a <| b"]),
    ];

    #[test]
    fn answers() {
        check(Family::Harmony, ANSWERS);
    }
}
