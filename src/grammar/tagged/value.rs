//! The value of an argument between tags → rules.

use llguidance::{api::GrammarWithLexer, regex_to_lark};
use serde_json::{Map, Value, json};

use super::gemma;
use crate::{
    grammar::{
        GrammarError, TextGrammar, ValueGrammar,
        builder::GrammarBuilder,
        json::escape::{self, Writing},
        lark::Terminals,
    },
    output_parser::{ArgumentTags, Kinds, Texts},
};

/// Keywords of a schema's definitions.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// Type of an argument's value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ArgumentValue {
    /// A text of which the schema says this.
    Text(Bounds),
    /// A text of this form.
    Formed(TextGrammar),
    /// One of these texts.
    OneOf(Vec<String>),
    /// JSON that this schema admits.
    Json(Value),
}

/// Constraints of a schema on a string.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Bounds {
    pattern: Option<String>,
    /// Characters at least.
    min: u32,
    /// Characters at most.
    max: Option<u32>,
}

impl ArgumentValue {
    /// Anything.
    pub(super) fn any(texts: Texts) -> Self {
        match texts {
            Texts::Bare | Texts::Cdata => Self::Text(Bounds::default()),
            Texts::Json | Texts::Marked(_) => Self::Json(json!({})),
        }
    }

    /// A value that a property of a schema admits.
    pub(super) fn of(
        schema: &Map<String, Value>,
        key: &str,
        property: &Value,
        written: Texts,
    ) -> Self {
        if matches!(written, Texts::Bare | Texts::Cdata) {
            if let Some(texts) = texts(property) {
                return Self::OneOf(texts);
            }
            if Kinds::of(Some(schema), key).may_be_text() {
                return Self::Text(Bounds::of(property));
            }
        }
        let mut property = property.clone();
        if let Value::Object(property) = &mut property {
            for place in DEFINITIONS {
                if let Some(definitions) = schema.get(place) {
                    property.insert(place.to_owned(), definitions.clone());
                }
            }
        }
        Self::Json(property)
    }

    /// True if it is written as a text.
    pub(super) fn is_text(&self) -> bool {
        !matches!(self, Self::Json(_))
    }

    /// Bytes of its description.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Text(bounds) => bounds.pattern.as_ref().map_or(0, String::len),
            Self::Formed(text) => text.source().len(),
            Self::OneOf(texts) => texts.iter().map(String::len).sum(),
            Self::Json(schema) => schema.to_string().len(),
        }
    }

    /// Adds the rules of the value with what comes after it; returns how others name them.
    pub(super) fn rules(
        &self,
        tags: &ArgumentTags,
        rules: &mut GrammarBuilder<'_>,
    ) -> Result<String, GrammarError> {
        let after = rules.literal(tags.after_value);
        Ok(match self {
            Self::Json(schema) => {
                let value = match tags.texts {
                    Texts::Marked(marker) => gemma::value(schema, marker, rules)?,
                    _ => rules.form(&ValueGrammar::Schema(schema.clone()))?,
                };
                format!("{value} {after}")
            }
            Self::OneOf(texts) => {
                let texts = texts.iter();
                let choices: Vec<String> = texts.map(|text| written(text, tags.texts)).collect();
                format!("({}) {after}", choices.join(" | "))
            }
            Self::Formed(form) if tags.texts == Texts::Json => {
                let text = rules.grammar(GrammarWithLexer::from_lark(form.quoted()?));
                format!("\"\\\"\" {text} \"\\\"\" {after}")
            }
            Self::Formed(form) => {
                let prefix = rules.unused("FORM");
                let Terminals { lines, whole } = form.terminals(Writing::Bare, &prefix)?;
                rules.add_lines(&lines);
                match tags.texts {
                    Texts::Marked(marker) => {
                        let text = text(Some(&whole), Texts::Bare, marker, rules);
                        format!("{} {text} {after}", rules.literal(marker))
                    }
                    texts => text(Some(&whole), texts, tags.after_value, rules),
                }
            }
            Self::Text(bounds) => {
                let form = bounds.terminal()?;
                text(form.as_deref(), tags.texts, tags.after_value, rules)
            }
        })
    }
}

/// Any text, as rules write it.
const ANY: &str = "/(?s:.*)/";

/// A text that XML reads as it is.
const PLAIN: &str = "/[^<&\\n]*/";

/// A text as it is written.
fn written(text: &str, texts: Texts) -> String {
    let [open, close] = Texts::CDATA;
    match texts {
        Texts::Cdata if text.contains(['<', '&', '\n']) => {
            Value::from([open, text, close].concat()).to_string()
        }
        _ => Value::from(text).to_string(),
    }
}

/// A text of a form, or any, with what comes after it.
pub(super) fn text(
    form: Option<&str>,
    texts: Texts,
    after: &str,
    rules: &mut GrammarBuilder<'_>,
) -> String {
    match form {
        Some(form) => ended(form, texts, after, rules),
        None if texts == Texts::Cdata => ended(ANY, texts, after, rules),
        None => any_text(after, rules),
    }
}

fn ended(form: &str, texts: Texts, after: &str, rules: &mut GrammarBuilder<'_>) -> String {
    let [open, close] = Texts::CDATA.map(|text| Value::from(text).to_string());
    let text = match texts {
        Texts::Cdata => format!(
            "((({form}) & {PLAIN}) | {open} {} {close})",
            without(form, &close)
        ),
        _ => format!("({form})"),
    };
    // Either could go on as the text does, so that they are one terminal; control tokens are no text.
    match rules.has_control(after) {
        true => {
            let rest = after.trim_start();
            let lead = Value::from(&after[..after.len() - rest.len()]);
            let text = rules.add("FORMED", &format!("{text} {lead}"));
            format!("{text} {}", rules.literal(rest))
        }
        false => {
            let text = without(&text, &Value::from(after.trim()).to_string());
            rules.add("FORMED", &format!("{text} {}", Value::from(after)))
        }
    }
}

/// Returns a terminal that excludes texts which contain `text`.
fn without(terminal: &str, text: &str) -> String {
    format!("(({terminal}) & ~({ANY} {text} {ANY}))")
}

fn any_text(after: &str, rules: &mut GrammarBuilder<'_>) -> String {
    // Control tokens end a text, as it has none; other ends are looked for.
    match rules.has_control(after) {
        true => {
            let text = rules.text();
            format!("{text}? {}", rules.literal(after.trim_start()))
        }
        false => {
            let name = rules.unused("text");
            let suffix = Value::from(after);
            rules.add_lines(&format!("{name}[suffix={suffix}]: {ANY}\n"));
            name
        }
    }
}

impl Bounds {
    /// Returns the constraints of a schema that admits only strings; `None` for other schemas.
    pub(super) fn of(property: &Value) -> Self {
        if property["type"] != "string" {
            return Self::default();
        }
        let count = |name: &str| {
            property[name]
                .as_u64()
                .and_then(|it| u32::try_from(it).ok())
        };
        Self {
            pattern: property["pattern"].as_str().map(str::to_owned),
            min: count("minLength").unwrap_or(0),
            max: count("maxLength"),
        }
    }

    /// The terminal of such texts; nothing where they may be any.
    pub(super) fn terminal(&self) -> Result<Option<String>, GrammarError> {
        let mut terminals = Vec::new();
        if let Some(pattern) = &self.pattern {
            // In a schema's patterns these classes are of ASCII.
            let pattern = regex_to_lark(pattern, "dw");
            let found = escape::found(escape::parsed(&pattern)?);
            terminals.push(escape::source(found, Writing::Bare)?);
        }
        if self.min > 0 || self.max.is_some() {
            let max = self.max.map(|max| max.to_string()).unwrap_or_default();
            terminals.push(format!("/(?s:.){{{},{max}}}/", self.min));
        }
        Ok((!terminals.is_empty()).then(|| terminals.join(" & ")))
    }
}

/// The texts that a property may be, if it lists them.
pub(super) fn texts(property: &Value) -> Option<Vec<String>> {
    let listed = match (property.get("enum"), property.get("const")) {
        (Some(Value::Array(listed)), None) => listed.as_slice(),
        (None, Some(only)) => std::slice::from_ref(only),
        _ => return None,
    };
    let text = |value: &Value| Some(value.as_str()?.to_owned());
    listed.iter().map(text).collect()
}
