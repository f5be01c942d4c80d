//! Values in the notation of Gemma's calls, JSON with bare keys and texts between two of a marker: what a schema
//! says of them → rules.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::{
    KEY,
    optional::OptionalSequence,
    string::{self, StringBounds, texts},
};
use crate::{
    grammar::{GrammarError, builder::GrammarBuilder},
    output_parser::Texts,
};

/// Keywords that no rule here can enforce.
const REFUSED: [&str; 14] = [
    "allOf",
    "contains",
    "dependentRequired",
    "dependentSchemas",
    "if",
    "maxProperties",
    "minProperties",
    "not",
    "patternProperties",
    "prefixItems",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
];

/// Schemas within schemas at most.
const DEPTH_MAX: usize = 64;

/// Adds the rules of a value; returns how others name them.
///
/// # Errors
/// When its schema says what no rule can.
pub(super) fn value(
    schema: &Value,
    marker: &'static str,
    rules: &mut GrammarBuilder<'_>,
) -> Result<String, GrammarError> {
    let mut notation = GemmaNotation {
        marker,
        root: schema,
        rules,
        named: HashMap::new(),
    };
    notation.value(schema, DEPTH_MAX)
}

/// Writes the rules of values.
struct GemmaNotation<'r, 't> {
    marker: &'static str,
    /// The root schema, for references.
    root: &'r Value,
    rules: &'r mut GrammarBuilder<'t>,
    /// Rules of references, and under no name that of any value.
    named: HashMap<String, String>,
}

impl GemmaNotation<'_, '_> {
    fn value(&mut self, schema: &Value, depth: usize) -> Result<String, GrammarError> {
        let depth = depth.checked_sub(1);
        let depth = depth.ok_or_else(|| GrammarError::whole("the schema is too deep"))?;
        let says = match schema {
            Value::Bool(true) => return self.any(),
            Value::Object(says) => says,
            _ => return Err(GrammarError::whole("nothing is admitted")),
        };
        if let Some(keyword) = REFUSED.iter().find(|&&keyword| says.contains_key(keyword)) {
            let reason = format!("`{keyword}` cannot be enforced as this model writes calls");
            return Err(GrammarError::whole(reason));
        }
        if let Some(Value::String(reference)) = says.get("$ref") {
            return self.reference(reference, depth);
        }
        for union in ["anyOf", "oneOf"] {
            if let Some(Value::Array(choices)) = says.get(union) {
                return self.one_of(choices, depth);
            }
        }
        if let Some(texts) = texts(schema) {
            let texts: Vec<String> = texts.iter().map(|text| self.literal(text)).collect();
            return Ok(format!("({})", texts.join(" | ")));
        }
        match says.get("type") {
            Some(Value::String(kind)) => match kind.as_str() {
                "string" => {
                    let form = StringBounds::of(schema).terminal()?;
                    Ok(self.text(form.as_deref()))
                }
                "object" => self.object(says, depth),
                "array" => self.list(says, depth),
                _ => self.rules.schema(schema),
            },
            Some(Value::Array(kinds)) => {
                let of_kind = |kind: &Value| {
                    let mut schema = says.clone();
                    schema.insert("type".to_owned(), kind.clone());
                    Value::Object(schema)
                };
                let choices: Vec<Value> = kinds.iter().map(of_kind).collect();
                self.one_of(&choices, depth)
            }
            _ if says.contains_key("properties") => self.object(says, depth),
            _ if says.contains_key("items") => self.list(says, depth),
            _ => self.any(),
        }
    }

    /// A text that is always the same.
    fn literal(&self, text: &str) -> String {
        self.rules
            .literal(&[self.marker, text, self.marker].concat())
    }

    /// A text of a form, or any.
    fn text(&mut self, form: Option<&str>) -> String {
        let text = string::text(form, Texts::Bare, self.marker, self.rules);
        format!("{} {text}", self.rules.literal(self.marker))
    }

    fn one_of(&mut self, choices: &[Value], depth: usize) -> Result<String, GrammarError> {
        let choices = choices.iter().map(|choice| self.value(choice, depth));
        let choices = choices.collect::<Result<Vec<_>, _>>()?;
        match choices.is_empty() {
            true => Err(GrammarError::whole("nothing is admitted")),
            false => Ok(format!("({})", choices.join(" | "))),
        }
    }

    fn reference(&mut self, reference: &str, depth: usize) -> Result<String, GrammarError> {
        if let Some(name) = self.named.get(reference) {
            return Ok(name.clone());
        }
        let path = reference.strip_prefix('#');
        let schema = path.and_then(|path| self.root.pointer(path));
        let schema = schema.ok_or_else(|| GrammarError::whole("a reference leads nowhere"))?;
        let name = self
            .rules
            .unused(&format!("reference_{}", self.named.len()));
        self.named.insert(reference.to_owned(), name.clone());
        let value = self.value(schema, depth)?;
        self.rules.add_lines(&format!("{name}: {value}\n"));
        Ok(name)
    }

    fn list(&mut self, says: &Map<String, Value>, depth: usize) -> Result<String, GrammarError> {
        let item = match says.get("items") {
            Some(schema) => self.value(schema, depth)?,
            None => self.any()?,
        };
        let count = |name: &str| says.get(name).and_then(Value::as_u64);
        let (min, max) = (count("minItems").unwrap_or(0), count("maxItems"));
        let times = match max {
            Some(0) if min == 0 => return Ok("\"[]\"".to_owned()),
            Some(max) if max < min => return Err(GrammarError::whole("nothing is admitted")),
            Some(1) => None,
            Some(max) => Some(format!("{{{},{}}}", min.saturating_sub(1), max - 1)),
            None => Some(format!("{{{},}}", min.saturating_sub(1))),
        };
        let items = match times {
            Some(times) => format!("{item} (\",\" {item}){times}"),
            None => item,
        };
        Ok(match min {
            0 => format!("\"[\" ({items})? \"]\""),
            _ => format!("\"[\" {items} \"]\""),
        })
    }

    fn object(&mut self, says: &Map<String, Value>, depth: usize) -> Result<String, GrammarError> {
        let Some(Value::Object(properties)) = says.get("properties") else {
            let value = match says.get("additionalProperties") {
                Some(Value::Bool(false)) => return Ok("\"{}\"".to_owned()),
                Some(schema) => self.value(schema, depth)?,
                None => self.any()?,
            };
            return Ok(entries(&value));
        };
        let required = says.get("required").and_then(Value::as_array);
        let is_required = |key: &str| required.is_some_and(|all| all.iter().any(|it| it == key));
        let mut entries = Vec::new();
        for (key, schema) in properties {
            let value = self.value(schema, depth)?;
            let key_written = self.rules.literal(&format!("{key}:"));
            let entry = self.rules.add("entry", &format!("{key_written} {value}"));
            entries.push((entry, is_required(key)));
        }
        let sequence = OptionalSequence {
            between: "\",\"",
            any: None,
        };
        Ok(format!(
            "\"{{\" {} \"}}\"",
            sequence.of(&entries, self.rules)
        ))
    }

    /// Any value.
    fn any(&mut self) -> Result<String, GrammarError> {
        if let Some(name) = self.named.get("") {
            return Ok(name.clone());
        }
        let name = self.rules.unused(&format!("any_{}", self.named.len()));
        self.named.insert(String::new(), name.clone());
        let text = self.text(None);
        let scalar = json!({"type": ["number", "boolean", "null"]});
        let scalar = self.rules.schema(&scalar)?;
        let object = entries(&name);
        self.rules.add_lines(&format!(
            "{name}: {text} | {scalar} | {object} | \"[\" ({name} (\",\" {name})*)? \"]\"\n"
        ));
        Ok(name)
    }
}

/// An object of any number of entries.
fn entries(value: &str) -> String {
    let entry = format!("{KEY} \":\" {value}");
    format!("\"{{\" ({entry} (\",\" {entry})*)? \"}}\"")
}
