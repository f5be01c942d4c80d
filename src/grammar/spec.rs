//! What an answer, or a part of it, must look like: a description that is compiled once and hashed.

use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{GrammarError, lark, quoted, regular, schema, tagged::Tagged};
use crate::{dialect::Wrapper, tokenizer::Tokenizer};

/// A description of what is to be generated, and from where on.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// What is to be generated.
    pub shape: Shape,
    /// From where on.
    pub start: Start,
}

/// What is to be generated.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// One of these forms, and nothing else.
    Form(Form),
    /// Calls of tools.
    Calls(Calls),
}

/// A form of a text.
#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    /// JSON that this schema admits.
    Schema(Value),
    /// A text of this grammar, in llguidance's variant of Lark.
    Lark(String),
    /// A JSON object in which this key has a text of this form, and nothing else.
    Keyed(String, TextForm),
    /// Arguments between tags.
    Tagged(Tagged),
}

/// A form of a text within JSON.
#[derive(Debug, Clone, PartialEq)]
pub enum TextForm {
    /// What this regular expression matches as a whole.
    Regex(String),
    /// What this grammar admits, in llguidance's variant of Lark, if no rule in it needs itself.
    Lark(String),
}

impl TextForm {
    /// The grammar of such texts as JSON writes them.
    fn quoted(&self) -> Result<String, GrammarError> {
        match self {
            Self::Regex(expression) => quoted::grammar(quoted::parsed(expression)?),
            Self::Lark(definition) => quoted::grammar(regular::expression(definition)?),
        }
    }

    fn source(&self) -> &str {
        match self {
            Self::Regex(source) | Self::Lark(source) => source,
        }
    }
}

impl Form {
    /// Any JSON object.
    #[must_use]
    pub fn object() -> Self {
        let mut schema = Map::new();
        schema.insert("type".to_owned(), "object".into());
        Self::Schema(Value::Object(schema))
    }
}

/// Calls of tools, each a form between two texts. Where a text spells a control token, that token is
/// meant.
#[derive(Debug, Clone, PartialEq)]
pub struct Calls {
    /// What comes before the first call.
    pub opening: String,
    /// The calls that may be made; at least one.
    pub calls: Vec<Call>,
    /// What comes between calls.
    pub between: String,
    /// Most calls, at least 1; `None` for any number.
    pub most: Option<u64>,
    /// What comes after the last call.
    pub closing: String,
    /// What a model makes up where a text has [`Wrapper::ID`]: what this regular expression matches.
    pub id: &'static str,
}

impl Calls {
    /// Up to so many calls of these functions, with the forms of their arguments, as a family of models
    /// writes them.
    #[must_use]
    pub fn of(wrapper: &Wrapper, functions: &[(String, Form)], most: Option<u64>) -> Self {
        let call = |(name, arguments): &(String, Form)| {
            let quoted = Value::from(name.as_str()).to_string();
            let name = &quoted[1..quoted.len() - 1];
            Call {
                before: [wrapper.before_name, name, wrapper.before_arguments].concat(),
                arguments: match wrapper.tags {
                    Some(tags) => Form::Tagged(Tagged::of(arguments, tags)),
                    None => arguments.clone(),
                },
                after: wrapper.after_arguments.to_owned(),
            }
        };
        Self {
            opening: wrapper.opening.to_owned(),
            calls: functions.iter().map(call).collect(),
            between: wrapper.between.to_owned(),
            most,
            closing: wrapper.closing.to_owned(),
            id: wrapper.id,
        }
    }

    /// The same without this marker at the beginning: what follows it, but for white space.
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
    pub fn rest(arguments: Form, after: &str) -> Self {
        Self {
            opening: String::new(),
            calls: vec![Call {
                before: String::new(),
                arguments,
                after: after.to_owned(),
            }],
            between: String::new(),
            most: Some(1),
            closing: String::new(),
            id: "",
        }
    }
}

/// One call that may be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// What comes before the arguments, the name among it.
    pub before: String,
    /// The arguments.
    pub arguments: Form,
    /// What comes after them.
    pub after: String,
}

/// Calls up to which a grammar counts them: rules grow with the number.
const COUNTED_MAX: u64 = 64;

/// Where a grammar begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// With the answer.
    Now,
    /// With what follows the model's thoughts.
    AfterThoughts {
        /// The marker with which the answer may begin to think; `None` where the prompt has it already.
        open: Option<String>,
        /// The marker that ends thoughts.
        close: String,
    },
    /// With the answer, or behind one message of thoughts in it.
    AfterMessage {
        /// Begins the message.
        open: String,
        /// Ends it, with what begins the next.
        close: String,
    },
    /// Behind the text that begins calls, with white space before it; what follows it is free.
    Behind,
}

/// Models leave blank lines behind their thoughts.
const LEAD: &str = "LEAD: /[\\x20\\x0A]{1,4}/\n";

/// Adds what admits any text, without control tokens; returns how rules name it.
pub(super) fn text(rules: &mut String) -> &'static str {
    const TEXT: &str = "TEXT: /(.|\\n)+/\n";
    if !rules.contains(TEXT) {
        rules.push_str(TEXT);
    }
    "TEXT"
}

impl Spec {
    /// A digest of all that is compiled.
    pub(super) fn digest(&self) -> [u8; 32] {
        let lead = match &self.start {
            Start::Now => String::new(),
            // They differ in what comes before the grammar.
            Start::AfterThoughts { .. } | Start::Behind => LEAD.to_owned(),
            Start::AfterMessage { .. } => format!("{:?}", self.start),
        };
        Sha256::digest(format!("{lead} {:?}", self.shape)).into()
    }

    /// Bytes of its description.
    pub(super) fn bytes(&self) -> usize {
        let form = |form: &Form| match form {
            Form::Schema(schema) => schema.to_string().len(),
            Form::Lark(text) => text.len(),
            Form::Keyed(key, text) => key.len() + text.source().len(),
            Form::Tagged(tagged) => tagged.bytes(),
        };
        match &self.shape {
            Shape::Form(only) => form(only),
            Shape::Calls(calls) => calls
                .calls
                .iter()
                .map(|call| form(&call.arguments) + call.before.len() + call.after.len())
                .sum(),
        }
    }

    /// The grammar as llguidance takes it.
    pub(super) fn grammar(&self, tokenizer: &Tokenizer) -> Result<TopLevelGrammar, GrammarError> {
        let mut grammars = Vec::new();
        let mut rules = String::new();
        let start = match &self.shape {
            Shape::Form(form) => named(form, tokenizer, &mut grammars, &mut rules)?,
            Shape::Calls(calls) => of_calls(calls, tokenizer, &mut grammars, &mut rules)?,
        };
        let lead = match &self.start {
            Start::AfterThoughts { .. } | Start::Behind => {
                rules.push_str(LEAD);
                "LEAD? "
            }
            Start::AfterMessage { open, close } => {
                let (open, close) = (literal(open, tokenizer), literal(close, tokenizer));
                let text = text(&mut rules);
                rules.push_str(&format!("lead: {open} {text}? {close}\n"));
                "lead? "
            }
            Start::Now => "",
        };
        let lark = format!("start: {lead}{start}\n{rules}");
        grammars.insert(0, GrammarWithLexer::from_lark(lark));
        Ok(TopLevelGrammar {
            grammars,
            max_tokens: None,
        })
    }
}

/// Adds what a form takes to the grammars and rules; returns how rules name it.
pub(super) fn named(
    form: &Form,
    tokenizer: &Tokenizer,
    grammars: &mut Vec<GrammarWithLexer>,
    rules: &mut String,
) -> Result<String, GrammarError> {
    let mut grammar = match form {
        Form::Tagged(tagged) => return tagged.rules(tokenizer, grammars, rules),
        Form::Schema(value) => GrammarWithLexer::from_json_schema(schema::prepare(value)?),
        Form::Lark(text) => {
            lark::refuse_forbidden(text)?;
            GrammarWithLexer::from_lark(text.clone())
        }
        Form::Keyed(_, text) => GrammarWithLexer::from_lark(text.quoted()?),
    };
    let name = format!("form_{}", grammars.len());
    grammar.name = Some(name.clone());
    grammars.push(grammar);
    Ok(match form {
        Form::Keyed(key, _) => {
            let before = format!("{{{}: \"", Value::from(key.as_str()));
            let before = Value::from(before);
            format!("{before} @{name} \"\\\"}}\"")
        }
        _ => format!("@{name}"),
    })
}

fn of_calls(
    calls: &Calls,
    tokenizer: &Tokenizer,
    grammars: &mut Vec<GrammarWithLexer>,
    rules: &mut String,
) -> Result<String, GrammarError> {
    let mut choices = Vec::new();
    for call in &calls.calls {
        let arguments = named(&call.arguments, tokenizer, grammars, rules)?;
        let (before, after) = (
            literal(&call.before, tokenizer),
            literal(&call.after, tokenizer),
        );
        choices.push(format!("{before} {arguments} {after}"));
    }
    if choices.is_empty() {
        return Err(GrammarError::whole("there is nothing to call"));
    }
    rules.push_str(&format!("call: {}\n", choices.join("\n    | ")));
    if !calls.id.is_empty() {
        rules.push_str(&format!("{ID}: /{}/\n", calls.id));
    }
    let more = format!("({} call)", literal(&calls.between, tokenizer));
    let more = match calls.most {
        Some(0 | 1) => String::new(),
        Some(most) if most <= COUNTED_MAX => format!("{more}{{0,{}}}", most - 1),
        Some(_) | None => format!("{more}*"),
    };
    let (opening, closing) = (
        literal(&calls.opening, tokenizer),
        literal(&calls.closing, tokenizer),
    );
    Ok(format!("{opening} call {more} {closing}"))
}

/// How rules name what a model makes up.
const ID: &str = "ID";

/// A text as rules spell it: control tokens by their ids, the rest quoted.
pub(super) fn literal(text: &str, tokenizer: &Tokenizer) -> String {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        match first_control(rest, tokenizer) {
            Some((start, spelling)) => {
                parts.extend(quoted(&rest[..start]));
                if let Some(id) = tokenizer.token_id(&spelling) {
                    parts.push(format!("<[{id}]>"));
                }
                rest = &rest[start + spelling.len()..];
            }
            None => {
                parts.extend(quoted(rest));
                rest = "";
            }
        }
    }
    parts.join(" ")
}

/// Ids within are named, all else is quoted.
fn quoted(text: &str) -> Vec<String> {
    let quoted = |text: &str| (!text.is_empty()).then(|| Value::from(text).to_string());
    let mut parts = Vec::new();
    for (number, text) in text.split(Wrapper::ID).enumerate() {
        parts.extend((number > 0).then(|| ID.to_owned()));
        parts.extend(quoted(text));
    }
    parts
}

/// Whether a text spells a control token.
pub(super) fn has_control(text: &str, tokenizer: &Tokenizer) -> bool {
    first_control(text, tokenizer).is_some()
}

/// The first control token that a text spells, the longest where several begin.
fn first_control(text: &str, tokenizer: &Tokenizer) -> Option<(usize, String)> {
    let spellings = tokenizer.control_spellings();
    let found = spellings.iter().filter(|spelling| !spelling.is_empty());
    let found = found.filter_map(|spelling| Some((text.find(spelling.as_str())?, spelling)));
    let first = found.min_by_key(|(start, spelling)| (*start, usize::MAX - spelling.len()))?;
    Some((first.0, first.1.clone()))
}
