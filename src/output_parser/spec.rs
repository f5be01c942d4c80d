//! The call format and reasoning markers of a model, detected from its chat template.

use super::{
    CallTemplate, Family, OutputParser, Plain, ReasoningMarkers,
    bare_json::BareJson,
    family::Harmony,
    marker_parser::{MarkerParser, Openers},
    syntax::tools::Tools,
};
use crate::{conversation::FunctionTool, template::ChatTemplate, tokenizer::Tokenizer};

/// A model's call format and reasoning markers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParserSpec {
    /// Family of the call format; `None` if unknown.
    pub family: Option<Family>,
    /// The call template, if the text around calls is fixed.
    pub wrapper: Option<CallTemplate>,
    /// Reasoning markers, if the model has any.
    pub thinking: Option<ReasoningMarkers>,
    /// True if its prompts show the tools that are offered: without that it cannot call any.
    pub shows_tools: bool,
}

/// Options for parsing one answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct ParserOptions<'a> {
    /// The declared tools, under the names that the model uses. Without tools, calls are text.
    pub tools: &'a [FunctionTool],
    /// True if the prompt ends inside reasoning: see [`ParserSpec::opens_reasoning`].
    pub thinks: bool,
    /// True if a whole answer that is one JSON object of a name and arguments is a call, too.
    pub lenient: bool,
}

impl ParserSpec {
    /// Detects the format from a model's template and vocabulary. Models without a template only
    /// continue text.
    pub fn of(template: Option<&ChatTemplate>, tokenizer: &Tokenizer) -> Self {
        let Some(template) = template else {
            return Self::default();
        };
        let has_token = |token_text: &str| tokenizer.token_id(token_text).is_some();
        Self {
            shows_tools: template.shows_tools(),
            ..Self::recognise(template.source(), has_token)
        }
    }

    /// Reads the source of a template; `has_token` says whether the vocabulary has a control token.
    pub fn recognise(source: &str, has_token: impl Fn(&str) -> bool) -> Self {
        let family = Family::recognise(source);
        Self {
            family,
            wrapper: family.and_then(|family| family.wrapper(source)),
            thinking: ReasoningMarkers::recognise(source, &has_token),
            shows_tools: false,
        }
    }

    /// True if an answer to this prompt starts inside reasoning.
    pub fn opens_reasoning(&self, prompt: &str) -> bool {
        self.thinking
            .is_some_and(|thinking| thinking.is_open_after(prompt))
    }

    /// The marker with which calls in the wrapper begin; `None` where only their place tells them.
    pub fn marker(&self) -> Option<&'static str> {
        let wrapper = self.wrapper?;
        let written = [wrapper.opening, wrapper.before_name].concat();
        let markers = self.family?.markers();
        let begins = |marker: &&str| written.starts_with(*marker);
        markers.iter().copied().find(begins)
    }

    /// Returns the texts that may stand before a call without a marker.
    pub fn openings(&self) -> Vec<&'static str> {
        let markers = self.family.map_or(&[][..], Family::markers);
        [""].iter().chain(markers).copied().collect()
    }

    /// Returns the control tokens that the parser must see. All others are left out of its text.
    pub fn tokens(&self, has_tools: bool) -> Vec<&'static str> {
        let thinking = self.thinking.iter().flat_map(|thinking| thinking.tokens);
        // Messages of Harmony are what they are without tools, too.
        let family = self
            .family
            .filter(|family| has_tools || *family == Family::Harmony);
        let calls = family.into_iter().flat_map(Family::tokens);
        thinking.chain(calls).copied().collect()
    }

    /// A reader of one answer.
    pub fn parser(&self, reading: ParserOptions<'_>) -> Box<dyn OutputParser> {
        let tools = Tools::new(reading.tools);
        if self.family == Some(Family::Harmony) {
            return Box::new(Harmony::new(tools));
        }
        let syntax = self.family.and_then(Family::syntax);
        let syntax = syntax.filter(|_| !tools.is_empty());
        let mut openers = Openers::default();
        if let Some(syntax) = syntax {
            openers.markers = syntax.markers;
            openers.behind = Some(syntax.behind);
            openers.at_start.extend_from_slice(syntax.at_start);
        }
        if reading.lenient && !tools.is_empty() {
            for first in BareJson::BEGINNINGS {
                openers
                    .at_start
                    .push((first, |_| Box::<BareJson>::default()));
            }
        }
        if self.thinking.is_none() && openers.is_empty() {
            return Box::new(Plain);
        }
        Box::new(MarkerParser::new(
            self.thinking,
            openers,
            tools,
            reading.thinks,
        ))
    }
}
