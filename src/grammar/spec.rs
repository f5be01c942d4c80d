//! Descriptions of grammars, which are compiled once and cached by their hash.

use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{
    GrammarError,
    builder::{GrammarBuilder, ID},
    lark::guard,
    tagged::Tagged,
    text::TextGrammar,
};
use crate::{
    output_parser::{ArgumentTags, CallTemplate},
    tokenizer::Tokenizer,
};

/// Calls up to which a grammar counts them: rules grow with the number.
const COUNTED_MAX: u64 = 64;

/// A grammar, and the position where it starts.
#[derive(Debug, Clone, PartialEq)]
pub struct GrammarSpec {
    /// The generated text.
    pub shape: Shape,
    /// The position where it starts.
    pub start: StartAt,
}

/// The generated text.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A value, and nothing else.
    Value(ValueGrammar),
    /// Calls of tools.
    ToolCalls(ToolCallGrammar),
}

/// A grammar of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueGrammar {
    /// JSON that this schema admits.
    Schema(Value),
    /// A text of this grammar, in llguidance's variant of Lark.
    Lark(String),
    /// A JSON object with only this key, whose value is a string of this grammar.
    Keyed(String, TextGrammar),
    /// Arguments between tags.
    Tagged(Tagged),
}

impl ValueGrammar {
    /// Adds the rules of the value; returns their name.
    fn rules(&self, rules: &mut GrammarBuilder<'_>) -> Result<String, GrammarError> {
        Ok(match self {
            Self::Tagged(tagged) => tagged.rules(rules)?,
            Self::Schema(schema) => rules.schema(schema)?,
            Self::Lark(text) => {
                guard::refuse_forbidden(text)?;
                rules.grammar(GrammarWithLexer::from_lark(text.clone()))
            }
            Self::Keyed(key, text) => {
                let before = format!("{{{}: \"", Value::from(key.as_str()));
                let before = Value::from(before);
                let text = rules.grammar(GrammarWithLexer::from_lark(text.quoted()?));
                format!("{before} {text} \"\\\"}}\"")
            }
        })
    }

    /// The same arguments between tags.
    fn tagged(&self, tags: ArgumentTags) -> Self {
        Self::Tagged(match self {
            Self::Schema(Value::Object(schema)) => Tagged::of_schema(schema, tags),
            Self::Keyed(key, text) => Tagged::of_text(key, text, tags),
            _ => Tagged::of_schema(&Map::new(), tags),
        })
    }

    /// Any JSON object.
    #[must_use]
    pub fn object() -> Self {
        let mut schema = Map::new();
        schema.insert("type".to_owned(), "object".into());
        Self::Schema(Value::Object(schema))
    }
}

/// Tool calls, each a grammar between two texts. A control token's text stands for the token.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCallGrammar {
    /// Text before the first call.
    pub opening: String,
    /// The possible calls; at least one.
    pub calls: Vec<Call>,
    /// Text between calls.
    pub between: String,
    /// Most calls, at least 1; `None` for any number.
    pub calls_max: Option<u64>,
    /// Text after the last call.
    pub closing: String,
    /// Regular expression of the call ids that the model makes up, for [`CallTemplate::ID`] in a
    /// text.
    pub id: &'static str,
}

impl ToolCallGrammar {
    /// Adds the rules of the calls; returns them as part of a rule.
    fn rules(&self, rules: &mut GrammarBuilder<'_>) -> Result<String, GrammarError> {
        let mut choices = Vec::new();
        for call in &self.calls {
            let arguments = call.arguments.rules(rules)?;
            let (before, after) = (rules.literal(&call.before), rules.literal(&call.after));
            choices.push(format!("{before} {arguments} {after}"));
        }
        if choices.is_empty() {
            return Err(GrammarError::whole("there is nothing to call"));
        }
        rules.add_lines(&format!("call: {}\n", choices.join("\n    | ")));
        if !self.id.is_empty() {
            rules.add_lines(&format!("{ID}: /{}/\n", self.id));
        }
        let more = format!("({} call)", rules.literal(&self.between));
        let more = match self.calls_max {
            Some(0 | 1) => String::new(),
            Some(most) if most <= COUNTED_MAX => format!("{more}{{0,{}}}", most - 1),
            Some(_) | None => format!("{more}*"),
        };
        let (opening, closing) = (rules.literal(&self.opening), rules.literal(&self.closing));
        Ok(format!("{opening} call {more} {closing}"))
    }

    /// Returns the grammar of up to `calls_max` calls of these functions in a family's format.
    #[must_use]
    pub fn of(
        wrapper: &CallTemplate,
        functions: &[(String, ValueGrammar)],
        calls_max: Option<u64>,
    ) -> Self {
        let call = |(name, arguments): &(String, ValueGrammar)| {
            let quoted = Value::from(name.as_str()).to_string();
            let name = &quoted[1..quoted.len() - 1];
            Call {
                before: [wrapper.before_name, name, wrapper.before_arguments].concat(),
                arguments: match wrapper.tags {
                    Some(tags) => arguments.tagged(tags),
                    None => arguments.clone(),
                },
                after: wrapper.after_arguments.to_owned(),
            }
        };
        Self {
            opening: wrapper.opening.to_owned(),
            calls: functions.iter().map(call).collect(),
            between: wrapper.between.to_owned(),
            calls_max,
            closing: wrapper.closing.to_owned(),
            id: wrapper.id,
        }
    }

    /// Removes a marker from the start, with the white space behind it.
    #[must_use]
    pub fn behind(mut self, marker: &str) -> Self {
        if let Some(rest) = self.opening.strip_prefix(marker) {
            self.opening = rest.trim_start().to_owned();
        } else if self.opening.is_empty() {
            for call in &mut self.calls {
                if let Some(rest) = call.before.strip_prefix(marker) {
                    call.before = rest.trim_start().to_owned();
                }
            }
        }
        self
    }

    /// The arguments of one call and the text behind them.
    #[must_use]
    pub fn rest(arguments: ValueGrammar, after: &str) -> Self {
        Self {
            opening: String::new(),
            calls: vec![Call {
                before: String::new(),
                arguments,
                after: after.to_owned(),
            }],
            between: String::new(),
            calls_max: Some(1),
            closing: String::new(),
            id: "",
        }
    }
}

/// One call that may be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Text before the arguments, with the name.
    pub before: String,
    /// The arguments.
    pub arguments: ValueGrammar,
    /// Text after the arguments.
    pub after: String,
}

/// The position where a grammar starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartAt {
    /// With the answer.
    Immediately,
    /// After the model's reasoning.
    AfterReasoning {
        /// The marker with which the answer may open reasoning; `None` if the prompt has opened it.
        open: Option<String>,
        /// The marker that ends reasoning.
        close: String,
    },
    /// At the start of the answer, or after one reasoning message.
    AfterMessage {
        /// Begins the message.
        open: String,
        /// Ends it, with what begins the next.
        close: String,
    },
    /// After a trigger and optional white space; the text behind the grammar is free.
    AfterTrigger,
}

/// Models write blank lines after their reasoning.
const LEAD: &str = "LEAD: /[\\x20\\x0A]{1,4}/\n";

impl GrammarSpec {
    /// A digest of all that is compiled.
    pub(super) fn digest(&self) -> [u8; 32] {
        let lead = match &self.start {
            StartAt::Immediately => String::new(),
            // These differ in the text before the grammar.
            StartAt::AfterReasoning { .. } | StartAt::AfterTrigger => LEAD.to_owned(),
            StartAt::AfterMessage { .. } => format!("{:?}", self.start),
        };
        Sha256::digest(format!("{lead} {:?}", self.shape)).into()
    }

    /// Bytes of its description.
    pub(super) fn bytes(&self) -> usize {
        let form = |form: &ValueGrammar| match form {
            ValueGrammar::Schema(schema) => schema.to_string().len(),
            ValueGrammar::Lark(text) => text.len(),
            ValueGrammar::Keyed(key, text) => key.len() + text.source().len(),
            ValueGrammar::Tagged(tagged) => tagged.bytes(),
        };
        match &self.shape {
            Shape::Value(only) => form(only),
            Shape::ToolCalls(calls) => calls
                .calls
                .iter()
                .map(|call| form(&call.arguments) + call.before.len() + call.after.len())
                .sum(),
        }
    }

    /// Returns the grammar in llguidance's form.
    pub(super) fn grammar(&self, tokenizer: &Tokenizer) -> Result<TopLevelGrammar, GrammarError> {
        let mut rules = GrammarBuilder::new(tokenizer);
        let start = match &self.shape {
            Shape::Value(value) => value.rules(&mut rules)?,
            Shape::ToolCalls(calls) => calls.rules(&mut rules)?,
        };
        let lead = match &self.start {
            StartAt::AfterReasoning { .. } | StartAt::AfterTrigger => {
                rules.add_lines(LEAD);
                "LEAD? "
            }
            StartAt::AfterMessage { open, close } => {
                let (open, close) = (rules.literal(open), rules.literal(close));
                let text = rules.text();
                rules.add_lines(&format!("lead: {open} {text}? {close}\n"));
                "lead? "
            }
            StartAt::Immediately => "",
        };
        Ok(rules.whole(&format!("{lead}{start}")))
    }
}
