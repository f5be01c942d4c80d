//! Calls without markers: an answer that is one JSON object, bare or in a code fence. Small models
//! write calls so.

use serde_json::{Map, Value};

use super::syntax::{
    CallParser, Step,
    json::{JsonScanner, Progress},
    marker::{Begins, begins},
    object::CallObject,
    pending_text::PendingText,
    tools::Tools,
};
use crate::conversation::OutputDelta;

/// Marker of a code fence.
pub const FENCE: &str = "```";

/// Texts that may stand before the object.
pub const LENIENT_OPENINGS: [&str; 3] = ["", "```json", FENCE];

/// Parses such an answer. All of it is held back while it can be a call, because only its end
/// decides.
#[derive(Debug, Default)]
pub(super) struct BareJson {
    state: State,
    is_fenced: bool,
    /// Position of the object in the pending text.
    start: usize,
    json: JsonScanner,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    Object,
    /// Behind the object.
    After,
    /// Behind the fence.
    End,
}

impl BareJson {
    /// The characters with which such an answer begins.
    pub(super) const BEGINNINGS: [char; 2] = ['{', '`'];

    /// Returns the call, if the object is one and nothing else follows.
    fn call(&self, held: &PendingText, tools: &Tools) -> Option<Vec<OutputDelta>> {
        let whole = match self.is_fenced {
            true => State::End,
            false => State::After,
        };
        if self.state != whole {
            return None;
        }
        let text = &held.unsettled()[self.start..];
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Map<String, Value>>();
        let object = values.next()?.ok()?;
        if object.len() != 2 || !object.contains_key("name") || !object["arguments"].is_object() {
            return None;
        }
        let mut copy = PendingText::default();
        copy.push(text);
        let mut pieces = Vec::new();
        let step = CallObject::default().read(&mut copy, tools, &mut pieces);
        (step == Step::Done).then_some(pieces)
    }
}

impl CallParser for BareJson {
    fn read(&mut self, held: &mut PendingText, _: &Tools, _: &mut Vec<OutputDelta>) -> Step {
        loop {
            match self.state {
                State::Start => match opening(held.rest()) {
                    Some(JsonStart { length, is_fenced }) => {
                        held.read(length);
                        self.is_fenced = is_fenced;
                        self.start = held.unsettled().len() - held.rest().len();
                        self.state = State::Object;
                    }
                    None if may_open(held.rest()) => return Step::More,
                    None => return Step::Broken,
                },
                State::Object => {
                    let (read, progress) = self.json.read(held.rest(), &mut String::new());
                    held.read(read);
                    if progress == Progress::Broken || !may_be_call(&held.unsettled()[self.start..])
                    {
                        return Step::Broken;
                    }
                    if progress == Progress::Inside {
                        return Step::More;
                    }
                    self.state = State::After;
                }
                State::After | State::End => {
                    held.read_space();
                    match begins(held.rest(), FENCE) {
                        Begins::Maybe => return Step::More,
                        Begins::Yes if self.is_fenced && self.state == State::After => {
                            held.read(FENCE.len());
                            self.state = State::End;
                        }
                        Begins::Yes | Begins::No => return Step::Broken,
                    }
                }
            }
        }
    }

    fn finish(&mut self, held: &mut PendingText, tools: &Tools, pieces: &mut Vec<OutputDelta>) {
        if held.rest().is_empty()
            && let Some(call) = self.call(held, tools)
        {
            held.settle();
            pieces.extend(call);
        }
    }
}

/// The text before the object.
struct JsonStart {
    length: usize,
    is_fenced: bool,
}

fn opening(text: &str) -> Option<JsonStart> {
    let inside = match text.strip_prefix(FENCE) {
        Some(inside) => after_language(inside).trim_start(),
        None => text,
    };
    inside.starts_with('{').then(|| JsonStart {
        length: text.len() - inside.len(),
        is_fenced: inside.len() < text.len(),
    })
}

/// True if more text could make this an opening.
fn may_open(text: &str) -> bool {
    match text.strip_prefix(FENCE) {
        Some(inside) => after_language(inside).trim_start().is_empty(),
        None => FENCE.starts_with(text),
    }
}

fn after_language(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_')
}

/// True if an object, as far as it has come, begins as a call does, so that other JSON is not held.
fn may_be_call(object: &str) -> bool {
    let inside = object[1..].trim_start();
    ["\"name\"", "\"arguments\""]
        .iter()
        .any(|key| begins(inside, key) != Begins::No)
}
