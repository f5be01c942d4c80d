//! Calls written as JSON objects behind a marker: one, several in a row, or a list of them.

use super::{
    CallParser, Step,
    marker::{Begins, begins},
    object::CallObject,
    pending_text::PendingText,
    tools::Tools,
};
use crate::conversation::OutputDelta;

#[derive(Debug, Clone, Copy)]
enum State {
    Start,
    Object,
    AfterObject,
    End,
}

/// Reads such calls.
#[derive(Debug)]
pub(crate) struct CallObjects {
    /// The marker that ends them.
    close: Option<&'static str>,
    state: State,
    in_list: bool,
    object: CallObject,
}

impl CallObjects {
    /// Reads calls up to this marker, if there is one.
    pub(crate) fn new(close: Option<&'static str>) -> Self {
        Self {
            close,
            state: State::Start,
            in_list: false,
            object: CallObject::default(),
        }
    }

    /// Parses calls without a marker; other JSON may stand in their place.
    pub(crate) fn bare() -> Self {
        Self {
            object: CallObject::bare(),
            ..Self::new(None)
        }
    }

    /// After an object: reads the marker that ends the calls, or finds one more object.
    fn end(&mut self, held: &mut PendingText) -> Option<Step> {
        let rest = held.rest();
        let closes = self.close.map_or(Begins::No, |close| begins(rest, close));
        match (closes, rest.chars().next()) {
            (_, None) | (Begins::Maybe, _) => Some(Step::More),
            (Begins::Yes, _) => {
                held.read(self.close.map_or(0, str::len));
                held.settle();
                Some(Step::Done)
            }
            (Begins::No, Some('{')) => {
                self.state = State::Object;
                None
            }
            // Llama separates calls so.
            (Begins::No, Some(';')) => {
                held.read(1);
                None
            }
            // A brace too many is a frequent mistake.
            (Begins::No, Some('}')) if self.close.is_some() => {
                held.read(1);
                None
            }
            _ if self.close.is_some() => Some(Step::Broken),
            _ => Some(Step::Done),
        }
    }
}

impl CallParser for CallObjects {
    fn read(
        &mut self,
        held: &mut PendingText,
        tools: &Tools,
        pieces: &mut Vec<OutputDelta>,
    ) -> Step {
        loop {
            if let State::Object = self.state {
                match self.object.read(held, tools, pieces) {
                    Step::Done => self.state = State::AfterObject,
                    other => return other,
                }
                continue;
            }
            held.read_space();
            let next = held.rest().chars().next();
            match (self.state, next) {
                (State::Start | State::AfterObject, None) => return Step::More,
                (State::Start, Some('[')) => {
                    self.in_list = true;
                    held.read(1);
                    self.state = State::Object;
                }
                (State::Start, _) => self.state = State::Object,
                (State::AfterObject, Some(',')) if self.in_list => {
                    held.read(1);
                    self.state = State::Object;
                }
                (State::AfterObject, Some(']')) if self.in_list => {
                    held.read(1);
                    held.settle();
                    self.in_list = false;
                    self.state = State::End;
                }
                (State::AfterObject, _) if self.in_list => return Step::Broken,
                (State::AfterObject, _) => self.state = State::End,
                (State::End | State::Object, _) => {
                    if let Some(step) = self.end(held) {
                        return step;
                    }
                }
            }
        }
    }

    fn is_markup(&self, rest: &str) -> bool {
        let at_end = matches!(self.state, State::End);
        at_end && self.close.is_some_and(|close| close.starts_with(rest))
    }
}
