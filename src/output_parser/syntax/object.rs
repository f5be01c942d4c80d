//! Parser of a call that is one JSON object with its name and arguments under keys.

use std::mem;

use super::{
    Step,
    json::{JsonScanner, Progress},
    pending_text::PendingText,
    tools::Tools,
};
use crate::conversation::OutputDelta;

/// Keys under which models write the name of a tool.
const NAME_KEYS: [&str; 2] = ["name", "tool_name"];

/// Keys under which they write the arguments.
const ARGUMENTS_KEYS: [&str; 2] = ["arguments", "parameters"];

/// Further keys of calls.
const OTHER_KEYS: [&str; 2] = ["type", "id"];

#[derive(Debug)]
enum State {
    Start,
    /// A key, or the end of an empty object.
    FirstKey,
    Key,
    InKey,
    Colon,
    Value,
    In(Kind),
    AfterValue,
}

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Name,
    Arguments,
    /// Arguments as a text that holds an object.
    QuotedArguments,
    /// Arguments that are `null`.
    NoArguments,
    Other,
}

/// Reads one such object. Its arguments are passed on as they come.
#[derive(Debug)]
pub(crate) struct CallObject {
    state: State,
    json: JsonScanner,
    /// The current key or value, except for arguments that are emitted.
    text: String,
    name: Option<String>,
    /// Arguments that were parsed and not yet emitted.
    arguments: String,
    arguments_came: bool,
    began: bool,
    ended: bool,
    /// True if no marker says that this is a call, so that a key which calls do not have decides.
    is_bare: bool,
}

impl Default for CallObject {
    fn default() -> Self {
        Self {
            state: State::Start,
            json: JsonScanner::default(),
            text: String::new(),
            name: None,
            arguments: String::new(),
            arguments_came: false,
            began: false,
            ended: false,
            is_bare: false,
        }
    }
}

impl CallObject {
    /// Reads an object that may be something else.
    pub(crate) fn bare() -> Self {
        Self {
            is_bare: true,
            ..Self::default()
        }
    }

    /// Reads as much of the object as it can, leading white space included.
    pub(crate) fn read(
        &mut self,
        held: &mut PendingText,
        tools: &Tools,
        pieces: &mut Vec<OutputDelta>,
    ) -> Step {
        loop {
            if !matches!(self.state, State::InKey | State::In(_)) {
                held.read_space();
            }
            let Some(next) = held.rest().chars().next() else {
                return Step::More;
            };
            let went_on = match &self.state {
                State::InKey | State::In(_) => match self.value(held, tools, pieces) {
                    Progress::Inside => return Step::More,
                    Progress::Ended => true,
                    Progress::Broken => false,
                },
                State::Value => self.value_begins(next),
                _ => match self.between(next) {
                    Some(consumed) => {
                        held.read(consumed);
                        true
                    }
                    None => false,
                },
            };
            if !went_on {
                return Step::Broken;
            }
            if matches!(self.state, State::Start) {
                return self.object_ends(held, pieces);
            }
        }
    }

    /// Reads a character between values; returns its length in bytes, or `None` if it is not valid
    /// there.
    fn between(&mut self, next: char) -> Option<usize> {
        let (state, consumed) = match (&self.state, next) {
            (State::Start, '{') => (State::FirstKey, 1),
            (State::FirstKey | State::Key, '"') => {
                self.json = JsonScanner::default();
                self.text.clear();
                (State::InKey, 0)
            }
            (State::Colon, ':') => (State::Value, 1),
            (State::AfterValue, ',') => (State::Key, 1),
            (State::FirstKey | State::AfterValue, '}') => (State::Start, 1),
            _ => return None,
        };
        self.state = state;
        Some(consumed)
    }

    /// Decides the kind of a value from its key and first character; false if the value is not
    /// valid.
    fn value_begins(&mut self, next: char) -> bool {
        let key = self.text.as_str();
        let kind = if NAME_KEYS.contains(&key) && self.name.is_none() {
            (next == '"').then_some(Kind::Name)
        } else if ARGUMENTS_KEYS.contains(&key) && !self.arguments_came {
            self.arguments_came = true;
            match next {
                '{' => Some(Kind::Arguments),
                '"' => Some(Kind::QuotedArguments),
                'n' => Some(Kind::NoArguments),
                _ => None,
            }
        } else {
            Some(Kind::Other)
        };
        self.json = JsonScanner::default();
        self.text.clear();
        match kind {
            Some(kind) => self.state = State::In(kind),
            None => return false,
        }
        true
    }

    /// Reads on in a key or a value.
    fn value(
        &mut self,
        held: &mut PendingText,
        tools: &Tools,
        pieces: &mut Vec<OutputDelta>,
    ) -> Progress {
        let is_arguments = matches!(self.state, State::In(Kind::Arguments));
        let out = match is_arguments {
            true => &mut self.arguments,
            false => &mut self.text,
        };
        let (read, progress) = self.json.read(held.rest(), out);
        held.read(read);
        if is_arguments && self.json.is_surely_object() {
            self.pass_on(held, pieces);
        }
        match progress {
            Progress::Ended if !self.value_ends(tools) => Progress::Broken,
            Progress::Ended => {
                if self.arguments_came && !matches!(self.state, State::Colon) {
                    self.end_call(held, pieces);
                }
                progress
            }
            other => other,
        }
    }

    /// Makes use of a whole key or value; says whether a call can have it.
    fn value_ends(&mut self, tools: &Tools) -> bool {
        let text = || serde_json::from_str::<String>(&self.text);
        let kind = match mem::replace(&mut self.state, State::AfterValue) {
            State::In(kind) => kind,
            _ => {
                self.state = State::Colon;
                let key = text();
                self.text = key.unwrap_or_default();
                let known = [NAME_KEYS, ARGUMENTS_KEYS, OTHER_KEYS];
                return !self.is_bare || known.as_flattened().contains(&self.text.as_str());
            }
        };
        match kind {
            Kind::Name => match text() {
                Ok(name) if tools.has(&name) => self.name = Some(name),
                _ => return false,
            },
            Kind::QuotedArguments => match text() {
                Ok(inner) if is_object(&inner) => self.arguments = inner,
                _ => return false,
            },
            Kind::Arguments | Kind::NoArguments | Kind::Other => {}
        }
        true
    }

    /// Emits the call if its name is known, and its arguments so far.
    fn pass_on(&mut self, held: &mut PendingText, pieces: &mut Vec<OutputDelta>) {
        if let Some(name) = self.name.as_ref().filter(|_| !self.ended) {
            if !mem::replace(&mut self.began, true) {
                pieces.push(OutputDelta::Call { name: name.clone() });
            }
            held.settle();
            if !self.arguments.is_empty() {
                pieces.push(OutputDelta::Arguments(mem::take(&mut self.arguments)));
            }
        }
    }

    /// Ends the call if its name is known.
    fn end_call(&mut self, held: &mut PendingText, pieces: &mut Vec<OutputDelta>) {
        if self.name.is_some() && !self.ended {
            self.pass_on(held, pieces);
            self.ended = true;
            pieces.push(OutputDelta::End);
        }
    }

    fn object_ends(&mut self, held: &mut PendingText, pieces: &mut Vec<OutputDelta>) -> Step {
        self.end_call(held, pieces);
        let next = Self {
            is_bare: self.is_bare,
            ..Self::default()
        };
        match mem::replace(self, next).ended {
            true => {
                held.settle();
                Step::Done
            }
            false => Step::Broken,
        }
    }
}

fn is_object(text: &str) -> bool {
    serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text).is_ok()
}
