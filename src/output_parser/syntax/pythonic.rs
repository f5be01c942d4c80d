//! Calls written as Python: `[f(a=1, b='x'), g()]`, the brackets being optional behind a marker.

use super::{
    CallParser, Step,
    json::Progress,
    marker::{Begins, begins},
    pending_text::PendingText,
    python_literal::{PythonLiteral, Quotes},
    tools::Tools,
};
use crate::conversation::OutputDelta;

/// Longest name of a function or an argument, with the white space around it.
const NAME_BYTES_MAX: usize = 256;

#[derive(Debug)]
enum State {
    Start,
    /// Before the name of a function.
    Name,
    /// Before the name of an argument, or the end of a call (without arguments, or after a trailing
    /// comma).
    Argument,
    Value(PythonLiteral),
    /// Behind a value.
    AfterValue,
    AfterCall,
    /// Behind the closing bracket.
    End,
}

/// Reads such calls. Their arguments are passed on as they come.
#[derive(Debug)]
pub(crate) struct PythonicCalls {
    /// The marker that ends them.
    close: Option<&'static str>,
    state: State,
    in_list: bool,
    name: String,
    began: bool,
}

impl PythonicCalls {
    /// Reads calls up to this marker. Without one they must be a list.
    pub(crate) fn new(close: Option<&'static str>) -> Self {
        Self {
            close,
            state: State::Start,
            in_list: false,
            name: String::new(),
            began: false,
        }
    }

    /// Reads between values; `None` if reading continues.
    fn between(
        &mut self,
        held: &mut PendingText,
        tools: &Tools,
        pieces: &mut Vec<OutputDelta>,
    ) -> Option<Step> {
        held.read_space();
        let Some(next) = held.rest().chars().next() else {
            return Some(Step::More);
        };
        match (&self.state, next) {
            (State::Start, '[') => {
                held.read(1);
                self.in_list = true;
                self.state = State::Name;
            }
            (State::Start, _) if self.close.is_some() => self.state = State::Name,
            (State::Name, _) => return self.function(held, tools),
            (State::Argument, ')') => self.call_ends(held, pieces),
            (State::Argument, _) => return self.argument(held, pieces),
            (State::AfterValue, ')') => self.call_ends(held, pieces),
            (State::AfterValue, ',') => {
                held.read(1);
                self.state = State::Argument;
            }
            (State::AfterCall, ',' | ';') => {
                held.read(1);
                self.state = State::Name;
            }
            (State::AfterCall, ']') if self.in_list => {
                held.read(1);
                held.settle();
                self.in_list = false;
                self.state = State::End;
            }
            (State::AfterCall | State::End, _) if !self.in_list => return self.end(held),
            _ => return Some(Step::Broken),
        }
        None
    }

    fn end(&mut self, held: &mut PendingText) -> Option<Step> {
        let Some(close) = self.close else {
            return Some(Step::Done);
        };
        match begins(held.rest(), close) {
            Begins::Yes => {
                held.read(close.len());
                held.settle();
                Some(Step::Done)
            }
            Begins::Maybe => Some(Step::More),
            // Some models write one call a line.
            Begins::No if matches!(self.state, State::AfterCall) => {
                self.state = State::Name;
                None
            }
            Begins::No => Some(Step::Broken),
        }
    }

    fn function(&mut self, held: &mut PendingText, tools: &Tools) -> Option<Step> {
        let name = match name_before(held.rest(), '(') {
            Ok(name) => name,
            Err(step) => return Some(step),
        };
        if !tools.has(name.trim()) {
            return Some(Step::Broken);
        }
        self.name = name.trim().to_owned();
        held.read(name.len() + 1);
        self.began = false;
        self.state = State::Argument;
        None
    }

    fn argument(&mut self, held: &mut PendingText, pieces: &mut Vec<OutputDelta>) -> Option<Step> {
        let name = match name_before(held.rest(), '=') {
            Ok(name) => name,
            Err(step) => return Some(step),
        };
        let key = serde_json::Value::from(name.trim());
        let opening = match self.began {
            true => format!(", {key}: "),
            false => format!("{{{key}: "),
        };
        held.read(name.len() + 1);
        self.begin(pieces);
        pieces.push(OutputDelta::Arguments(opening));
        held.settle();
        self.state = State::Value(PythonLiteral::new(Quotes::Python));
        None
    }

    fn begin(&mut self, pieces: &mut Vec<OutputDelta>) {
        if !self.began {
            self.began = true;
            let name = self.name.clone();
            pieces.push(OutputDelta::Call { name });
        }
    }

    fn call_ends(&mut self, held: &mut PendingText, pieces: &mut Vec<OutputDelta>) {
        let closing = match self.began {
            true => "}",
            false => "{}",
        };
        self.begin(pieces);
        pieces.push(OutputDelta::Arguments(closing.to_owned()));
        pieces.push(OutputDelta::End);
        held.read(1);
        held.settle();
        self.state = State::AfterCall;
    }
}

impl CallParser for PythonicCalls {
    fn read(
        &mut self,
        held: &mut PendingText,
        tools: &Tools,
        pieces: &mut Vec<OutputDelta>,
    ) -> Step {
        loop {
            if let State::Value(literal) = &mut self.state {
                let mut json = String::new();
                let (read, progress) = literal.read(held.rest(), &mut json);
                held.read(read);
                held.settle();
                if !json.is_empty() {
                    pieces.push(OutputDelta::Arguments(json));
                }
                match progress {
                    Progress::Inside => return Step::More,
                    Progress::Broken => return Step::Broken,
                    Progress::Ended => self.state = State::AfterValue,
                }
            } else if let Some(step) = self.between(held, tools, pieces) {
                return step;
            }
        }
    }

    fn finish(&mut self, held: &mut PendingText, _: &Tools, pieces: &mut Vec<OutputDelta>) {
        if let State::Value(literal) = &self.state {
            let cut = literal.cut(held.rest());
            if !cut.is_empty() {
                pieces.push(OutputDelta::Arguments(cut.to_owned()));
            }
            held.drop_all();
        }
    }

    fn is_markup(&self, rest: &str) -> bool {
        let ends = matches!(self.state, State::AfterCall | State::End);
        ends && self.close.is_some_and(|close| close.starts_with(rest))
    }
}

/// The identifier before a character, white space around it included.
fn name_before(text: &str, end: char) -> Result<&str, Step> {
    let length = text.find(|c: char| {
        !(c.is_alphanumeric() || c.is_whitespace() || matches!(c, '_' | '.' | '-'))
    });
    match length {
        Some(length) if text[length..].starts_with(end) => Ok(&text[..length]),
        Some(_) => Err(Step::Broken),
        None if text.len() > NAME_BYTES_MAX => Err(Step::Broken),
        None => Err(Step::More),
    }
}
