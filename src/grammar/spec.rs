//! What an answer, or a part of it, must look like: a description that is compiled once and hashed.

use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{GrammarError, lark, quoted, schema};
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
    /// A JSON object in which this key has a text that this regular expression matches as a whole, and
    /// nothing else.
    Keyed(String, String),
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
                arguments: arguments.clone(),
                after: wrapper.after_arguments.to_owned(),
            }
        };
        Self {
            opening: wrapper.opening.to_owned(),
            calls: functions.iter().map(call).collect(),
            between: wrapper.between.to_owned(),
            most,
            closing: wrapper.closing.to_owned(),
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
    /// Behind the text that begins calls, with white space before it; what follows it is free.
    Behind,
}

impl Spec {
    /// A digest of all that is compiled.
    pub(super) fn digest(&self) -> [u8; 32] {
        let leads = self.start != Start::Now;
        Sha256::digest(format!("{leads} {:?}", self.shape)).into()
    }

    /// Bytes of its description.
    pub(super) fn bytes(&self) -> usize {
        let form = |form: &Form| match form {
            Form::Schema(schema) => schema.to_string().len(),
            Form::Lark(text) => text.len(),
            Form::Keyed(key, expression) => key.len() + expression.len(),
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
            Shape::Form(form) => named(form, &mut grammars)?,
            Shape::Calls(calls) => of_calls(calls, tokenizer, &mut grammars, &mut rules)?,
        };
        let lead = match self.start {
            // Models leave blank lines behind their thoughts.
            Start::AfterThoughts { .. } | Start::Behind => {
                rules.push_str("LEAD: /[\\x20\\x0A]{1,4}/\n");
                "LEAD? "
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

/// Adds the grammar of a form; returns how rules name it.
fn named(form: &Form, grammars: &mut Vec<GrammarWithLexer>) -> Result<String, GrammarError> {
    let mut grammar = match form {
        Form::Schema(value) => GrammarWithLexer::from_json_schema(schema::prepare(value)?),
        Form::Lark(text) => {
            lark::refuse_forbidden(text)?;
            GrammarWithLexer::from_lark(text.clone())
        }
        Form::Keyed(_, expression) => GrammarWithLexer::from_lark(quoted::regex(expression)?),
    };
    let name = format!("form_{}", grammars.len());
    grammar.name = Some(name.clone());
    grammars.push(grammar);
    Ok(match form {
        Form::Schema(_) | Form::Lark(_) => format!("@{name}"),
        Form::Keyed(key, _) => {
            let before = format!("{{{}: \"", Value::from(key.as_str()));
            let before = Value::from(before);
            format!("{before} @{name} \"\\\"}}\"")
        }
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
        let arguments = named(&call.arguments, grammars)?;
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

/// A text as rules spell it: control tokens by their ids, the rest quoted.
fn literal(text: &str, tokenizer: &Tokenizer) -> String {
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

fn quoted(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| Value::from(text).to_string())
}

/// The first control token that a text spells, the longest where several begin.
fn first_control(text: &str, tokenizer: &Tokenizer) -> Option<(usize, String)> {
    let spellings = tokenizer.control_spellings();
    let found = spellings.iter().filter(|spelling| !spelling.is_empty());
    let found = found.filter_map(|spelling| Some((text.find(spelling.as_str())?, spelling)));
    let first = found.min_by_key(|(start, spelling)| (*start, usize::MAX - spelling.len()))?;
    Some((first.0, first.1.clone()))
}
