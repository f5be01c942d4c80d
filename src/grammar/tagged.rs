//! Arguments that stand between tags, each for itself: what a schema says of them → rules.

use llguidance::api::GrammarWithLexer;
use serde_json::{Map, Value};

use super::{
    Form, GrammarError,
    spec::{has_control, literal, named, text},
};
use crate::{
    dialect::{ArgumentTags, Kinds, Wrapper},
    tokenizer::Tokenizer,
};

/// Where a schema keeps what its parts refer to.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

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

#[derive(Debug, Clone, PartialEq)]
enum ArgumentValue {
    Text,
    OneOf(Vec<String>),
    /// JSON that this schema admits.
    Json(Value),
}

impl Tagged {
    /// The arguments that a JSON object of this form has. Of texts, only a list of them is kept to.
    pub(super) fn of(form: &Form, tags: ArgumentTags) -> Self {
        let none = Map::new();
        let schema = match form {
            Form::Schema(Value::Object(schema)) => schema,
            Form::Keyed(key, _) => {
                let argument = Argument {
                    key: key.clone(),
                    is_required: true,
                    value: ArgumentValue::Text,
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
            value: ArgumentValue::of(schema, key, property),
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
        let value = |value: &ArgumentValue| match value {
            ArgumentValue::Text => 0,
            ArgumentValue::OneOf(texts) => texts.iter().map(String::len).sum(),
            ArgumentValue::Json(schema) => schema.to_string().len(),
        };
        let arguments = self.arguments.iter();
        arguments.map(|it| it.key.len() + value(&it.value)).sum()
    }

    /// Adds the rules of the arguments; returns how other rules name them.
    pub(super) fn rules(
        &self,
        tokenizer: &Tokenizer,
        grammars: &mut Vec<GrammarWithLexer>,
        rules: &mut String,
    ) -> Result<String, GrammarError> {
        let mut names = Vec::new();
        for argument in &self.arguments {
            if argument.key.contains(Wrapper::ID) {
                return Err(GrammarError::whole("a key cannot be written"));
            }
            let value = self.value(&argument.value, tokenizer, grammars, rules)?;
            let before = [self.tags.before_key, &argument.key, self.tags.before_value];
            let before = literal(&before.concat(), tokenizer);
            let name = format!("argument_{}", rules.len());
            rules.push_str(&format!("{name}: {before} {value}\n"));
            names.push(match argument.is_required {
                true => name,
                false => format!("{name}?"),
            });
        }
        if self.is_open {
            let any = self.value(&ArgumentValue::Text, tokenizer, grammars, rules)?;
            let [key, value] =
                [self.tags.before_key, self.tags.before_value].map(|text| literal(text, tokenizer));
            let name = format!("argument_{}", rules.len());
            rules.push_str(&format!(
                "{name}: {key} /[A-Za-z_][A-Za-z0-9_.-]{{0,63}}/ {value} {any}\n"
            ));
            names.push(format!("{name}*"));
        }
        Ok(names.join(" "))
    }

    /// A value with what comes after it.
    fn value(
        &self,
        value: &ArgumentValue,
        tokenizer: &Tokenizer,
        grammars: &mut Vec<GrammarWithLexer>,
        rules: &mut String,
    ) -> Result<String, GrammarError> {
        let after = self.tags.after_value;
        Ok(match value {
            ArgumentValue::Json(schema) => {
                let json = Form::Schema(schema.clone());
                let json = named(&json, tokenizer, grammars, rules)?;
                format!("{json} {}", literal(after, tokenizer))
            }
            ArgumentValue::OneOf(texts) => {
                let quoted = texts
                    .iter()
                    .map(|text| Value::from(text.as_str()).to_string());
                let choices: Vec<String> = quoted.collect();
                format!("({}) {}", choices.join(" | "), literal(after, tokenizer))
            }
            // Control tokens end a text, as it has none; other ends are looked for.
            ArgumentValue::Text if has_control(after, tokenizer) => {
                format!(
                    "{}? {}",
                    text(rules),
                    literal(after.trim_start(), tokenizer)
                )
            }
            ArgumentValue::Text => {
                let name = format!("text_{}", rules.len());
                let suffix = Value::from(after);
                rules.push_str(&format!("{name}[suffix={suffix}]: /(?s:.*)/\n"));
                name
            }
        })
    }
}

impl ArgumentValue {
    fn of(schema: &Map<String, Value>, key: &str, property: &Value) -> Self {
        if let Some(texts) = texts(property) {
            return Self::OneOf(texts);
        }
        if Kinds::of(Some(schema), key).may_be_text() {
            return Self::Text;
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
}

/// The texts that a property may be, if it lists them.
fn texts(property: &Value) -> Option<Vec<String>> {
    let listed = match (property.get("enum"), property.get("const")) {
        (Some(Value::Array(listed)), None) => listed.as_slice(),
        (None, Some(only)) => std::slice::from_ref(only),
        _ => return None,
    };
    let text = |value: &Value| Some(value.as_str()?.to_owned());
    listed.iter().map(text).collect()
}
