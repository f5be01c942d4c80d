//! Calls written as a name and one pair of tags for each argument, whose values are bare text.

use serde_json::Value;

use super::{
    CallParser, Step,
    marker::{Begins, Found, begins, first_of},
    name_then_json::Head,
    pending_text::PendingText,
    python_literal::push_escaped,
    tools::Tools,
    values::Kinds,
};
use crate::conversation::OutputDelta;

/// Longest name or key, with its delimiters.
const NAME_BYTES_MAX: usize = 512;

/// Call format of a family.
#[derive(Debug, Clone, Copy)]
pub(crate) struct XmlFormat {
    /// Marker of each call; empty if the marker before all calls serves.
    pub(crate) call: &'static str,
    /// Parses the name and its end.
    pub(crate) name: fn(text: &str) -> Head<'_>,
    /// Begins an argument.
    pub(crate) key: &'static str,
    /// Parses the key and its end.
    pub(crate) key_name: fn(text: &str) -> Head<'_>,
    /// Returns true if the key says that the value is text; `None` if the key does not say.
    pub(crate) is_text: fn(head: &str) -> Option<bool>,
    /// Begins a value, if something does.
    pub(crate) value: &'static str,
    /// Ends a value.
    pub(crate) value_end: &'static str,
    /// True if a line end after the one and before the other is layout.
    pub(crate) lines: bool,
    /// True if a text may stand between `<![CDATA[` and `]]>`. It is passed on when it is whole, then.
    pub(crate) cdata: bool,
    /// Ends a call.
    pub(crate) call_end: &'static str,
    /// Ends all calls, if something does.
    pub(crate) end: &'static str,
}

#[derive(Debug)]
enum State {
    /// Before a call, or behind one.
    Between,
    Name,
    /// Before an argument, or the end of the call.
    Arguments,
    Key,
    /// Before a value.
    Value,
    /// In a value, of which only the leading line end was read.
    InValue,
    /// In a string that is emitted as it arrives.
    InText,
}

/// Reads such calls. Texts are passed on as they come, other values when they are whole.
#[derive(Debug)]
pub(crate) struct XmlCalls {
    tags: XmlFormat,
    state: State,
    name: String,
    kinds: Kinds,
    /// Length of the value's prefix that holds no end marker.
    looked: usize,
    arguments: usize,
    had_call: bool,
}

impl XmlCalls {
    /// Parses calls after a marker that stands before a name (`in_call`) or before all calls.
    pub(crate) fn new(tags: XmlFormat, in_call: bool) -> Self {
        Self {
            tags,
            state: if in_call { State::Name } else { State::Between },
            name: String::new(),
            kinds: Kinds::default(),
            looked: 0,
            arguments: 0,
            had_call: false,
        }
    }

    fn between(&mut self, held: &mut PendingText) -> Option<Step> {
        held.read_space();
        let rest = held.rest();
        let begin = match self.tags.call {
            "" => Begins::No,
            call => begins(rest, call),
        };
        let end = match self.tags.end {
            "" => Begins::No,
            end => begins(rest, end),
        };
        match (begin, end) {
            (Begins::Yes, _) => {
                held.read(self.tags.call.len());
                self.state = State::Name;
                None
            }
            (_, Begins::Yes) if self.had_call => {
                held.read(self.tags.end.len());
                held.settle();
                Some(Step::Done)
            }
            _ if rest.is_empty() => Some(Step::More),
            (Begins::Maybe, _) | (_, Begins::Maybe) => Some(Step::More),
            _ if self.had_call => Some(Step::Done),
            _ => Some(Step::Broken),
        }
    }

    fn name(&mut self, held: &mut PendingText, tools: &Tools) -> Option<Step> {
        match (self.tags.name)(held.rest()) {
            Head::Is(name, length) if length <= NAME_BYTES_MAX && tools.has(name) => {
                self.name = name.to_owned();
                held.read(length);
                self.arguments = 0;
                self.state = State::Arguments;
                None
            }
            Head::Maybe if held.rest().len() <= NAME_BYTES_MAX => Some(Step::More),
            _ => Some(Step::Broken),
        }
    }

    fn arguments(&mut self, held: &mut PendingText, pieces: &mut Vec<OutputDelta>) -> Option<Step> {
        held.read_space();
        let rest = held.rest();
        match (
            begins(rest, self.tags.key),
            begins(rest, self.tags.call_end),
        ) {
            (Begins::Yes, _) => {
                held.read(self.tags.key.len());
                self.state = State::Key;
                None
            }
            (_, Begins::Yes) => {
                held.read(self.tags.call_end.len());
                let closing = match self.arguments {
                    0 => "{}",
                    _ => "}",
                };
                self.begin(pieces);
                pieces.push(OutputDelta::Arguments(closing.to_owned()));
                pieces.push(OutputDelta::End);
                held.settle();
                self.had_call = true;
                self.state = State::Between;
                // Where nothing else ends calls, this does.
                (self.tags.call.is_empty() && self.tags.end.is_empty()).then_some(Step::Done)
            }
            (Begins::Maybe, _) | (_, Begins::Maybe) => Some(Step::More),
            _ => Some(Step::Broken),
        }
    }

    fn begin(&self, pieces: &mut Vec<OutputDelta>) {
        if self.arguments == 0 {
            let name = self.name.clone();
            pieces.push(OutputDelta::Call { name });
        }
    }

    fn key(
        &mut self,
        held: &mut PendingText,
        tools: &Tools,
        pieces: &mut Vec<OutputDelta>,
    ) -> Option<Step> {
        match (self.tags.key_name)(held.rest()) {
            Head::Is(key, length) if length <= NAME_BYTES_MAX => {
                self.kinds = match (self.tags.is_text)(&held.rest()[..length]) {
                    Some(is_text) => Kinds::text(is_text),
                    None => Kinds::of(tools.parameters(&self.name), key),
                };
                let key = Value::from(key);
                self.begin(pieces);
                pieces.push(OutputDelta::Arguments(match self.arguments {
                    0 => format!("{{{key}: "),
                    _ => format!(", {key}: "),
                }));
                self.arguments += 1;
                held.read(length);
                held.settle();
                self.state = State::Value;
                None
            }
            Head::Maybe if held.rest().len() <= NAME_BYTES_MAX => Some(Step::More),
            _ => Some(Step::Broken),
        }
    }

    fn value(&mut self, held: &mut PendingText, pieces: &mut Vec<OutputDelta>) -> Option<Step> {
        if !self.tags.value.is_empty() {
            held.read_space();
            match begins(held.rest(), self.tags.value) {
                Begins::Yes => held.read(self.tags.value.len()),
                Begins::Maybe => return Some(Step::More),
                Begins::No => return Some(Step::Broken),
            }
        }
        if self.tags.lines {
            match held.rest().chars().next() {
                None => return Some(Step::More),
                Some('\n') => held.read(1),
                Some(_) => {}
            }
        }
        held.settle();
        self.looked = 0;
        self.state = match self.kinds.is_text_only() && !self.tags.cdata {
            true => {
                pieces.push(OutputDelta::Arguments("\"".to_owned()));
                State::InText
            }
            false => State::InValue,
        };
        None
    }

    /// Searches the end of the value. Returns its position and if it is certain; else the length of
    /// the rest that belongs to the value. An end marker counts only if a tag follows.
    fn value_end(&self, rest: &str) -> (usize, Option<Begins>) {
        let mut from = self.looked;
        loop {
            let start = match first_of(&rest[from..], &[self.tags.value_end]) {
                Found::At { start, .. } => from + start,
                Found::No { certain } => return (from + certain, None),
            };
            let after = rest[start + self.tags.value_end.len()..].trim_start();
            let tags = [self.tags.key, self.tags.call_end, self.tags.end];
            let tags = tags.iter().filter(|tag| !tag.is_empty());
            let follow: Vec<Begins> = tags.map(|tag| begins(after, tag)).collect();
            if follow.contains(&Begins::Yes) {
                return (start, Some(Begins::Yes));
            }
            if follow.contains(&Begins::Maybe) {
                return (start, Some(Begins::Maybe));
            }
            from = start + self.tags.value_end.len();
        }
    }

    fn in_value(&mut self, held: &mut PendingText, pieces: &mut Vec<OutputDelta>) -> Option<Step> {
        let (length, end) = self.value_end(held.rest());
        if end != Some(Begins::Yes) {
            self.looked = length;
            return Some(Step::More);
        }
        let json = self.json(&held.rest()[..length]);
        pieces.push(OutputDelta::Arguments(json));
        held.read(length);
        self.value_ends(held);
        None
    }

    fn in_text(&mut self, held: &mut PendingText, pieces: &mut Vec<OutputDelta>) -> Option<Step> {
        self.looked = 0;
        let (length, end) = self.value_end(held.rest());
        // A line end may turn out to be layout.
        let text = self.without_line_end(&held.rest()[..length]);
        let mut json = String::new();
        push_escaped(text, &mut json);
        let read = text.len();
        if end == Some(Begins::Yes) {
            json.push('"');
            held.read(length);
            self.value_ends(held);
        } else {
            held.read(read);
            held.settle();
        }
        if !json.is_empty() {
            pieces.push(OutputDelta::Arguments(json));
        }
        (end != Some(Begins::Yes)).then_some(Step::More)
    }

    /// A whole value.
    fn json(&self, text: &str) -> String {
        let text = self.without_line_end(text);
        let inside = text.strip_prefix("<![CDATA[").filter(|_| self.tags.cdata);
        let inside = inside.and_then(|text| text.strip_suffix("]]>"));
        match inside {
            Some(text) => Value::from(text).to_string(),
            None => self.kinds.json(text),
        }
    }

    fn without_line_end<'a>(&self, text: &'a str) -> &'a str {
        match self.tags.lines {
            true => text.strip_suffix('\n').unwrap_or(text),
            false => text,
        }
    }

    fn value_ends(&mut self, held: &mut PendingText) {
        held.read(self.tags.value_end.len());
        held.settle();
        self.state = State::Arguments;
    }

    /// A value that is cut, when there is no more text.
    fn cut(&self, rest: &str) -> String {
        let (length, end) = self.value_end(rest);
        let text = &rest[..length];
        match (&self.state, end) {
            (State::InText, _) => {
                let mut json = String::new();
                push_escaped(self.without_line_end(text), &mut json);
                if end.is_some() {
                    json.push('"');
                }
                json
            }
            (_, Some(_)) => self.json(text),
            (_, None) => self.without_line_end(text).to_owned(),
        }
    }
}

impl CallParser for XmlCalls {
    fn read(
        &mut self,
        held: &mut PendingText,
        tools: &Tools,
        pieces: &mut Vec<OutputDelta>,
    ) -> Step {
        loop {
            let step = match self.state {
                State::Between => self.between(held),
                State::Name => self.name(held, tools),
                State::Arguments => self.arguments(held, pieces),
                State::Key => self.key(held, tools, pieces),
                State::Value => self.value(held, pieces),
                State::InValue => self.in_value(held, pieces),
                State::InText => self.in_text(held, pieces),
            };
            if let Some(step) = step {
                return step;
            }
        }
    }

    fn finish(&mut self, held: &mut PendingText, _: &Tools, pieces: &mut Vec<OutputDelta>) {
        if matches!(self.state, State::InValue | State::InText) {
            let cut = self.cut(held.rest());
            if !cut.is_empty() {
                pieces.push(OutputDelta::Arguments(cut));
            }
            held.drop_all();
        }
    }

    fn is_markup(&self, rest: &str) -> bool {
        let tags = [
            self.tags.key,
            self.tags.value,
            self.tags.call_end,
            self.tags.end,
        ];
        let began = self.had_call || self.arguments > 0;
        began && tags.iter().any(|tag| tag.starts_with(rest))
    }
}
