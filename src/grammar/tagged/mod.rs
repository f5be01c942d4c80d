//! Arguments that stand between tags, each for itself: what a schema says of them → rules.

mod value;

use serde_json::{Map, Value};
use value::ArgumentValue;

use super::{Form, GrammarError, rules::Rules};
use crate::dialect::{ArgumentTags, Wrapper};

/// How rules write a text without characters.
const NOTHING: &str = "\"\"";

/// Arguments between tags, in the order in which they are declared.
#[derive(Debug, Clone, PartialEq)]
pub struct Tagged {
    tags: ArgumentTags,
    arguments: Vec<Argument>,
    /// Whether there may be any others instead.
    is_open: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Argument {
    key: String,
    is_required: bool,
    value: ArgumentValue,
}

impl Tagged {
    /// The arguments that a JSON object of this form has.
    pub(super) fn of(form: &Form, tags: ArgumentTags) -> Self {
        let none = Map::new();
        let schema = match form {
            Form::Schema(Value::Object(schema)) => schema,
            Form::Keyed(key, text) => {
                let argument = Argument {
                    key: key.clone(),
                    is_required: true,
                    value: ArgumentValue::Formed(text.clone()),
                };
                return Self {
                    tags,
                    arguments: vec![argument],
                    is_open: false,
                };
            }
            _ => &none,
        };
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
    pub(super) fn rules(&self, rules: &mut Rules<'_>) -> Result<String, GrammarError> {
        let between = rules.literal(self.tags.between);
        let (mut first, mut more) = (NOTHING.to_owned(), NOTHING.to_owned());
        if self.is_open {
            let key = "/[A-Za-z_][A-Za-z0-9_.-]{0,63}/";
            let any = self.argument(key, &ArgumentValue::any(self.tags.texts), rules)?;
            more = rules.add("more", &format!("({between} {any})*"));
            first = rules.add("first", &format!("({any} {more})?"));
        }
        // From the last to the first, with what comes after each.
        for argument in self.arguments.iter().rev() {
            if argument.key.contains(Wrapper::ID) {
                return Err(GrammarError::whole("a key cannot be written"));
            }
            let key = rules.literal(&argument.key);
            let name = self.argument(&key, &argument.value, rules)?;
            let (or_first, or_more) = match argument.is_required {
                true => (String::new(), String::new()),
                false => (format!(" | {first}"), format!(" | {more}")),
            };
            first = rules.add("first", &format!("{name} {more}{or_first}"));
            more = rules.add("more", &format!("{between} {name} {more}{or_more}"));
        }
        Ok(first)
    }

    /// Adds the rule of an argument.
    fn argument(
        &self,
        key: &str,
        value: &ArgumentValue,
        rules: &mut Rules<'_>,
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
