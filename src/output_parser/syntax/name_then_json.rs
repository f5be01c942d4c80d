//! Calls written as a name, a marker, and the arguments as a JSON object.

use std::mem;

use super::{
    CallParser, Step,
    json::{JsonScanner, Progress},
    marker::{Begins, begins},
    pending_text::PendingText,
    tools::Tools,
};
use crate::conversation::OutputDelta;

/// Longest text before the arguments: names have at most 64 characters, and ids some more.
const HEAD_BYTES_MAX: usize = 512;

/// The text before the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head<'a> {
    /// It has not come as a whole.
    Maybe,
    /// A name, and the length in bytes of the whole head.
    Is(&'a str, usize),
    /// Something else.
    No,
}

/// Call format of a family.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NameThenJson {
    /// Marker of each call; empty if the marker before all calls serves.
    pub(crate) begin: &'static str,
    /// Reads the name.
    pub(crate) head: fn(text: &str) -> Head<'_>,
    /// Markers that may follow the arguments, in any order.
    pub(crate) close: &'static [&'static str],
    /// Ends all calls.
    pub(crate) end: Option<&'static str>,
}

#[derive(Debug)]
enum State {
    /// Before a call, or behind one.
    Between,
    Head,
    /// Before or within the arguments.
    Arguments,
}

/// Reads such calls. Their arguments are passed on as they come.
#[derive(Debug)]
pub(crate) struct NameThenJsonCalls {
    syntax: NameThenJson,
    state: State,
    name: String,
    json: JsonScanner,
    /// Arguments that were parsed and not yet emitted.
    arguments: String,
    began: bool,
    /// True if there was a call.
    had_call: bool,
}

impl NameThenJsonCalls {
    /// Parses calls after a marker that stands before one call (`in_call`) or before all.
    pub(crate) fn new(syntax: NameThenJson, in_call: bool) -> Self {
        Self {
            syntax,
            state: if in_call { State::Head } else { State::Between },
            name: String::new(),
            json: JsonScanner::default(),
            arguments: String::new(),
            began: false,
            had_call: false,
        }
    }

    /// Reads the marker of a call, or the one that ends all calls; `None` if a call starts.
    fn between(&mut self, held: &mut PendingText) -> Option<Step> {
        held.read_space();
        let rest = held.rest();
        let close = self
            .syntax
            .close
            .iter()
            .map(|close| (*close, State::Between));
        let begin = Some((self.syntax.begin, State::Head)).filter(|(begin, _)| !begin.is_empty());
        let mut needs_more = rest.is_empty();
        for (marker, state) in close.chain(begin) {
            match begins(rest, marker) {
                Begins::Yes => {
                    held.read(marker.len());
                    self.state = state;
                    if self.had_call && matches!(self.state, State::Between) {
                        held.settle();
                    }
                    return None;
                }
                Begins::Maybe => needs_more = true,
                Begins::No => {}
            }
        }
        match self.syntax.end.map(|end| (begins(rest, end), end)) {
            Some((Begins::Yes, end)) => {
                held.read(end.len());
                if !self.had_call {
                    return Some(Step::Broken);
                }
                held.settle();
                Some(Step::Done)
            }
            Some((Begins::Maybe, _)) => Some(Step::More),
            _ if needs_more => Some(Step::More),
            _ if self.had_call => Some(Step::Done),
            _ => Some(Step::Broken),
        }
    }

    fn head(&mut self, held: &mut PendingText, tools: &Tools) -> Option<Step> {
        match (self.syntax.head)(held.rest()) {
            Head::Is(name, length) if length <= HEAD_BYTES_MAX && tools.has(name) => {
                self.name = name.to_owned();
                held.read(length);
                self.json = JsonScanner::default();
                self.arguments.clear();
                self.began = false;
                self.state = State::Arguments;
                None
            }
            Head::Maybe if held.rest().len() <= HEAD_BYTES_MAX => Some(Step::More),
            _ => Some(Step::Broken),
        }
    }

    fn arguments(&mut self, held: &mut PendingText, pieces: &mut Vec<OutputDelta>) -> Option<Step> {
        if self.arguments.is_empty() && !self.began {
            held.read_space();
            let closes = |close: &&str| begins(held.rest(), close);
            let closes: Vec<Begins> = self.syntax.close.iter().map(closes).collect();
            if held.rest().is_empty() || closes.contains(&Begins::Maybe) {
                return Some(Step::More);
            }
            if closes.contains(&Begins::Yes) {
                self.pass_on(held, pieces);
                self.end(held, pieces);
                return None;
            }
            if !held.rest().starts_with('{') {
                return Some(Step::Broken);
            }
        }
        let (read, progress) = self.json.read(held.rest(), &mut self.arguments);
        held.read(read);
        if self.json.is_surely_object() {
            self.pass_on(held, pieces);
        }
        match progress {
            Progress::Inside => Some(Step::More),
            Progress::Broken => Some(Step::Broken),
            Progress::Ended => {
                self.end(held, pieces);
                None
            }
        }
    }

    fn pass_on(&mut self, held: &mut PendingText, pieces: &mut Vec<OutputDelta>) {
        if !mem::replace(&mut self.began, true) {
            let name = mem::take(&mut self.name);
            pieces.push(OutputDelta::Call { name });
        }
        held.settle();
        if !self.arguments.is_empty() {
            pieces.push(OutputDelta::Arguments(mem::take(&mut self.arguments)));
        }
    }

    fn end(&mut self, held: &mut PendingText, pieces: &mut Vec<OutputDelta>) {
        held.settle();
        pieces.push(OutputDelta::End);
        self.had_call = true;
        self.state = State::Between;
    }
}

impl CallParser for NameThenJsonCalls {
    fn read(
        &mut self,
        held: &mut PendingText,
        tools: &Tools,
        pieces: &mut Vec<OutputDelta>,
    ) -> Step {
        loop {
            let step = match self.state {
                State::Between => self.between(held),
                State::Head => self.head(held, tools),
                State::Arguments => self.arguments(held, pieces),
            };
            if let Some(step) = step {
                return step;
            }
        }
    }

    fn is_markup(&self, rest: &str) -> bool {
        let markers = self.syntax.close.iter().copied().chain(self.syntax.end);
        let mut markers = markers.chain([self.syntax.begin]);
        self.had_call && markers.any(|marker| marker.starts_with(rest))
    }
}

/// The name up to a marker.
pub(crate) fn name_before<'a>(text: &'a str, marker: &str) -> Head<'a> {
    match text.find(marker) {
        Some(end) => Head::Is(text[..end].trim(), end + marker.len()),
        None => Head::Maybe,
    }
}
