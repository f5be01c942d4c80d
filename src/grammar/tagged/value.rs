//! The value of an argument between tags → rules.

use llguidance::api::GrammarWithLexer;
use serde_json::{Map, Value, json};

use super::{
    gemma,
    string::{StringBounds, text, texts, written},
};
use crate::{
    grammar::{
        GrammarError, TextGrammar, builder::GrammarBuilder, json::escape::Writing, lark::Terminals,
    },
    output_parser::{ArgumentTags, Kinds, Texts},
};

/// Keywords of a schema's definitions.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// Type of an argument's value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ArgumentValue {
    /// A text of which the schema says this.
    Text(StringBounds),
    /// A text of this form.
    Formed(TextGrammar),
    /// One of these texts.
    OneOf(Vec<String>),
    /// JSON that this schema admits.
    Json(Value),
}

impl ArgumentValue {
    /// Anything.
    pub(super) fn any(texts: Texts) -> Self {
        match texts {
            Texts::Bare | Texts::Cdata => Self::Text(StringBounds::default()),
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
                return Self::Text(StringBounds::of(property));
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
                    _ => rules.schema(schema)?,
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
