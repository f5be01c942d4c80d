//! Parser of answers in which markers delimit reasoning and calls.

use std::mem;

use super::{
    OutputParser, ReasoningMarkers,
    family::MakeCalls,
    syntax::{
        CallParser, Step,
        marker::{Found, first_of},
        pending_text::PendingText,
        tools::Tools,
    },
};
use crate::conversation::OutputDelta;

/// The markers that start calls, and the parser for each.
#[derive(Default)]
pub(super) struct Openers {
    /// The markers that begin calls.
    pub(super) markers: &'static [&'static str],
    /// Makes the parser of the text behind a marker; `None` without markers.
    pub(super) behind: Option<MakeCalls>,
    /// Makes the parser for an answer that starts with this character, which the parser reads too.
    pub(super) at_start: Vec<(char, MakeCalls)>,
}

impl Openers {
    /// True if nothing begins calls.
    pub(super) fn is_empty(&self) -> bool {
        self.markers.is_empty() && self.at_start.is_empty()
    }
}

/// Parses such an answer.
///
/// White space beside a marker belongs to the marker. Reasoning starts only outside of backticks,
/// calls only outside of reasoning.
pub(super) struct MarkerParser {
    thinking: Option<ReasoningMarkers>,
    openers: Openers,
    tools: Tools,
    /// Markers that may come in text; the one that opens reasoning, if any, is first.
    markers: Vec<&'static str>,
    held: PendingText,
    mode: Mode,
    said: Deltas,
}

enum Mode {
    /// Nothing was said yet.
    Start,
    Text,
    Reasoning,
    Calls(Box<dyn CallParser>),
}

impl MarkerParser {
    pub(super) fn new(
        thinking: Option<ReasoningMarkers>,
        openers: Openers,
        tools: Tools,
        thinks: bool,
    ) -> Self {
        let mut markers: Vec<&str> = thinking.iter().map(|thinking| thinking.open).collect();
        markers.extend(openers.markers);
        let mut said = Deltas::default();
        if thinks {
            said.at_marker();
        }
        Self {
            thinking,
            openers,
            tools,
            markers,
            held: PendingText::default(),
            mode: if thinks { Mode::Reasoning } else { Mode::Start },
            said,
        }
    }

    /// Reads on; says whether there is more to read.
    fn step(&mut self, pieces: &mut Vec<OutputDelta>) -> bool {
        match &mut self.mode {
            Mode::Start => self.start(),
            Mode::Text => self.text(pieces),
            Mode::Reasoning => self.reasoning(pieces),
            Mode::Calls(calls) => {
                let before = pieces.len();
                let step = calls.read(&mut self.held, &self.tools, pieces);
                if pieces.len() > before {
                    self.said.at_marker();
                }
                match step {
                    Step::More => return false,
                    Step::Done => {}
                    Step::Broken => {
                        let back = self.held.give_back();
                        self.said.text(&back, pieces);
                    }
                }
                self.mode = Mode::Text;
                true
            }
        }
    }

    fn start(&mut self) -> bool {
        let rest = self.held.rest();
        let Some(first) = rest.trim_start().chars().next() else {
            return false;
        };
        let reader = self.openers.at_start.iter().find(|(at, _)| *at == first);
        self.mode = match reader {
            Some((_, reader)) => {
                let reader = reader("");
                self.held.read_space();
                Mode::Calls(reader)
            }
            None => Mode::Text,
        };
        true
    }

    fn text(&mut self, pieces: &mut Vec<OutputDelta>) -> bool {
        let (start, marker) = match first_of(self.held.rest(), &self.markers) {
            Found::At { marker, start } => (start, Some(self.markers[marker])),
            Found::No { certain } => (certain, None),
        };
        self.held.read(start);
        let text = self.held.give_back();
        self.said.text(&text, pieces);
        let Some(marker) = marker else {
            return false;
        };
        self.held.read(marker.len());
        let opens_reasoning = self
            .thinking
            .is_some_and(|thinking| thinking.open == marker);
        match self.openers.behind {
            Some(behind) if !opens_reasoning => self.mode = Mode::Calls(behind(marker)),
            _ if self.said.is_quoting => {
                let quoted = self.held.give_back();
                self.said.text(&quoted, pieces);
            }
            _ => {
                self.held.settle();
                self.said.at_marker();
                self.mode = Mode::Reasoning;
            }
        }
        true
    }

    fn reasoning(&mut self, pieces: &mut Vec<OutputDelta>) -> bool {
        let close = self.thinking.map_or("", |thinking| thinking.close);
        let (end, closes) = match first_of(self.held.rest(), &[close]) {
            Found::At { start, .. } => (start, true),
            Found::No { certain } => (certain, false),
        };
        self.held.read(end);
        let reasoning = self.held.give_back();
        self.said.reasoning(&reasoning, pieces);
        if closes {
            self.held.read(close.len());
            self.held.settle();
            if self.said.has_begun {
                pieces.push(OutputDelta::End);
            }
            self.said.at_marker();
            self.mode = Mode::Start;
        }
        closes
    }
}

impl OutputParser for MarkerParser {
    fn push(&mut self, text: &str, pieces: &mut Vec<OutputDelta>) {
        if text.is_empty() {
            return;
        }
        self.held.push(text);
        while self.step(pieces) {}
    }

    fn finish(&mut self, pieces: &mut Vec<OutputDelta>) {
        if let Mode::Calls(calls) = &mut self.mode {
            let before = pieces.len();
            calls.finish(&mut self.held, &self.tools, pieces);
            if pieces.len() > before {
                self.said.at_marker();
            }
            if !self.said.has_begun && calls.is_markup(self.held.rest().trim_start()) {
                self.held.drop_all();
            }
        }
        let rest = self.held.give_all_back();
        match self.mode {
            Mode::Reasoning => self.said.reasoning(&rest, pieces),
            Mode::Start | Mode::Text | Mode::Calls(_) => {
                self.said.text(&rest, pieces);
                self.said.finish(pieces);
            }
        }
    }

    fn in_reasoning(&self) -> bool {
        matches!(self.mode, Mode::Reasoning)
    }
}

/// Text since the last marker, and white space that may belong to the next one.
#[derive(Debug, Default)]
struct Deltas {
    space: String,
    /// True if a marker stands before what comes.
    is_behind_marker: bool,
    has_begun: bool,
    /// True if a backtick is open.
    is_quoting: bool,
}

impl Deltas {
    fn at_marker(&mut self) {
        *self = Self {
            is_behind_marker: true,
            ..Self::default()
        };
    }

    fn text(&mut self, text: &str, pieces: &mut Vec<OutputDelta>) {
        let ticks = text.matches('`').count();
        self.is_quoting ^= ticks % 2 == 1;
        self.add(text, OutputDelta::Text, pieces);
    }

    fn reasoning(&mut self, text: &str, pieces: &mut Vec<OutputDelta>) {
        self.add(text, OutputDelta::Reasoning, pieces);
    }

    fn add(&mut self, text: &str, piece: fn(String) -> OutputDelta, pieces: &mut Vec<OutputDelta>) {
        let trimmed = text.trim_end();
        let (said, space) = text.split_at(trimmed.len());
        if !said.is_empty() {
            let mut all = mem::take(&mut self.space);
            all.push_str(said);
            if self.is_behind_marker && !self.has_begun {
                all.drain(..all.len() - all.trim_start().len());
            }
            self.has_begun = true;
            pieces.push(piece(all));
        }
        self.space.push_str(space);
    }

    /// White space at the end of an answer is text, unless it follows a marker.
    fn finish(&mut self, pieces: &mut Vec<OutputDelta>) {
        let space = mem::take(&mut self.space);
        if !space.is_empty() && (self.has_begun || !self.is_behind_marker) {
            pieces.push(OutputDelta::Text(space));
        }
    }
}
