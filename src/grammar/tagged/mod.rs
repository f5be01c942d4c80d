//! Rules for arguments between tags, from their JSON schema.

mod gemma;
mod optional;
mod string;
mod value;

use optional::{NOTHING, OptionalSequence};
use serde_json::{Map, Value};
use value::ArgumentValue;

use super::{GrammarError, TextGrammar, builder::GrammarBuilder};
use crate::output_parser::{ArgumentTags, CallTemplate};

/// Any key, as rules write it.
const KEY: &str = "/[A-Za-z_][A-Za-z0-9_.-]{0,63}/";

/// Arguments between tags, in the order in which they are declared.
#[derive(Debug, Clone, PartialEq)]
pub struct Tagged {
    tags: ArgumentTags,
    arguments: Vec<Argument>,
    /// True if there may be any others instead.
    is_open: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Argument {
    key: String,
    is_required: bool,
    value: ArgumentValue,
}

impl Tagged {
    /// Returns the arguments of a function with one string argument.
    pub(super) fn of_text(key: &str, text: &TextGrammar, tags: ArgumentTags) -> Self {
        let argument = Argument {
            key: key.to_owned(),
            is_required: true,
            value: ArgumentValue::Formed(text.clone()),
        };
        Self {
            tags,
            arguments: vec![argument],
            is_open: false,
        }
    }

    /// Returns the arguments of a JSON schema's object.
    pub(super) fn of_schema(schema: &Map<String, Value>, tags: ArgumentTags) -> Self {
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |key: &str| required.is_some_and(|all| all.iter().any(|it| it == key));
        let arguments = properties.unwrap_or(&none).iter();
        let arguments = arguments.map(|(key, property)| Argument {
            key: key.clone(),
            is_required: is_required(key),
            value: ArgumentValue::of(schema, key, property, tags.texts),
        });
        Self {
            tags,
            arguments: arguments.collect(),
            is_open: properties.is_none()
                && schema.get("additionalProperties") != Some(&Value::Bool(false)),
        }
    }

    /// Bytes of its description.
    pub(super) fn bytes(&self) -> usize {
        let arguments = self.arguments.iter();
        arguments.map(|it| it.key.len() + it.value.bytes()).sum()
    }

    /// Adds the rules of the arguments; returns how other rules name them.
    pub(super) fn rules(&self, rules: &mut GrammarBuilder<'_>) -> Result<String, GrammarError> {
        let between = match self.tags.between {
            "" => NOTHING.to_owned(),
            text => rules.literal(text),
        };
        let mut arguments = Vec::new();
        for argument in &self.arguments {
            if argument.key.contains(CallTemplate::ID) {
                return Err(GrammarError::whole("a key cannot be written"));
            }
            let key = rules.literal(&argument.key);
            let name = self.argument(&key, &argument.value, rules)?;
            arguments.push((name, argument.is_required));
        }
        let any = match self.is_open {
            true => Some(self.argument(KEY, &ArgumentValue::any(self.tags.texts), rules)?),
            false => None,
        };
        let sequence = OptionalSequence {
            between: &between,
            any: any.as_deref(),
        };
        Ok(sequence.of(&arguments, rules))
    }

    /// Adds the rule of an argument.
    fn argument(
        &self,
        key: &str,
        value: &ArgumentValue,
        rules: &mut GrammarBuilder<'_>,
    ) -> Result<String, GrammarError> {
        let tags = &self.tags;
        let before_value = match value.is_text() {
            true => tags.before_text.unwrap_or(tags.before_value),
            false => tags.before_value,
        };
        let value = value.rules(tags, rules)?;
        let (before, between) = (rules.literal(tags.before_key), rules.literal(before_value));
        Ok(rules.add("argument", &format!("{before} {key} {between} {value}")))
    }
}
