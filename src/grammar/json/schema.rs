//! JSON Schemas that can be enforced: every keyword is enforced or refused, none is ignored.
//!
//! llguidance compiles the checked schema. By itself it would ignore keywords that the schema's
//! draft does not know, take options from within the schema, and admit unbounded white space. So
//! schemas are checked here first, and normalised to one draft.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::super::GrammarError;

/// Longest schema, in bytes of JSON.
pub const SCHEMA_BYTES_MAX: usize = 256 << 10;

/// Subschemas of one schema.
const SUBSCHEMAS_MAX: usize = 4096;

/// Depth of one subschema in another.
const DEPTH_MAX: usize = 64;

/// Alternatives of one `anyOf` or `oneOf`, which are compared with each other.
const ALTERNATIVES_MAX: usize = 256;

/// Alternatives of all `allOf` of a schema together: they are multiplied.
const CONJUNCTIONS_MAX: usize = 32;

/// Patterns of names in one object, which are compared with each other.
const NAME_PATTERNS_MAX: usize = 16;

/// Characters of a regular expression.
const PATTERN_CHARS_MAX: usize = 1000;

/// Values of `maxItems`, `minLength` and the like.
const COUNT_MAX: u64 = 100_000;

/// White space between two JSON tokens: a blank, or a new line with indentation. Without a bound a
/// model could write white space for ever.
const WHITE_SPACE: &str = r"\x20|\x0A[\x20\x09]{0,32}";

/// Keywords that describe and do not restrict.
const ANNOTATIONS: [&str; 11] = [
    "$comment",
    "$schema",
    "contentEncoding",
    "contentMediaType",
    "default",
    "deprecated",
    "description",
    "examples",
    "readOnly",
    "title",
    "writeOnly",
];

/// Keywords with which a schema restricts numbers, texts and lists by a number.
const COUNTS: [&str; 6] = [
    "maxItems",
    "maxLength",
    "maxProperties",
    "minItems",
    "minLength",
    "minProperties",
];

/// Keywords that llguidance honours as they stand.
const HONOURED: [&str; 7] = [
    "const",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maximum",
    "minimum",
    "multipleOf",
    "type",
];

/// Keywords of JSON Schema that no grammar here can enforce.
const REFUSED: [&str; 21] = [
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveAnchor",
    "$recursiveRef",
    "$vocabulary",
    "contains",
    "contentSchema",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "maxContains",
    "minContains",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "x-guidance",
];

/// The formats of texts that are enforced.
pub const FORMATS: [&str; 10] = [
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "time",
    "uri",
    "uuid",
];

/// Checks a schema and brings it into the form that is compiled.
///
/// # Errors
/// The first keyword that cannot be enforced, with its path.
pub(crate) fn prepare(schema: &Value) -> Result<Value, GrammarError> {
    let mut check = Check::default();
    let mut prepared = check.schema(&mut Vec::new(), schema)?;
    check.references()?;
    // `true` and `false` are schemas that hold no options.
    if prepared == Value::Bool(true) {
        prepared = json!({});
    }
    if let Some(object) = prepared.as_object_mut() {
        object.insert(
            "x-guidance".to_owned(),
            json!({"whitespace_pattern": WHITE_SPACE}),
        );
    }
    Ok(prepared)
}

/// Path of a subschema.
type Path = Vec<String>;

#[derive(Default)]
struct Check {
    subschemas: usize,
    conjunctions: usize,
    /// Paths of the subschemas, in the notation of references.
    known: HashSet<String>,
    references: Vec<(Path, String)>,
}

impl Check {
    fn schema(&mut self, path: &mut Path, schema: &Value) -> Result<Value, GrammarError> {
        self.subschemas += 1;
        if self.subschemas > SUBSCHEMAS_MAX {
            return Err(refused(
                path,
                format!("the schema has more than {SUBSCHEMAS_MAX} subschemas"),
            ));
        }
        if path.len() > 2 * DEPTH_MAX {
            return Err(refused(path, "the schema is too deep"));
        }
        // Only references without escapes are looked up.
        if path.iter().all(|step| !step.contains(['/', '~', '%'])) {
            self.known.insert(format!("#/{}", path.join("/")));
        }
        let object = match schema {
            Value::Bool(_) => return Ok(schema.clone()),
            Value::Object(object) => object,
            _ => return Err(refused(path, "a schema is an object or a boolean")),
        };
        let mut prepared = Map::new();
        for (keyword, value) in object {
            path.push(keyword.clone());
            if let Some(value) = self.keyword(path, keyword, value, object)? {
                prepared.insert(keyword.clone(), value);
            }
            path.pop();
        }
        Ok(Value::Object(prepared))
    }

    /// Returns a keyword's value for the compiler; `None` if it restricts nothing.
    fn keyword(
        &mut self,
        path: &mut Path,
        keyword: &str,
        value: &Value,
        beside: &Map<String, Value>,
    ) -> Result<Option<Value>, GrammarError> {
        let kept = || Ok(Some(value.clone()));
        match keyword {
            "properties" | "$defs" | "definitions" => self.by_name(path, value).map(Some),
            "patternProperties" => self.by_pattern(path, value).map(Some),
            "additionalProperties" => self.schema(path, value).map(Some),
            "items" | "additionalItems" if !value.is_array() => {
                refuse_two_lists(path, keyword, beside)?;
                self.schema(path, value).map(Some)
            }
            "items" | "prefixItems" => {
                refuse_two_lists(path, keyword, beside)?;
                self.list(path, value, SUBSCHEMAS_MAX).map(Some)
            }
            "anyOf" | "oneOf" => self.list(path, value, ALTERNATIVES_MAX).map(Some),
            "allOf" => {
                self.conjunctions += value.as_array().map_or(0, Vec::len);
                if self.conjunctions > CONJUNCTIONS_MAX {
                    let reason = format!("`allOf` may hold {CONJUNCTIONS_MAX} schemas in all");
                    return Err(refused(path, reason));
                }
                self.list(path, value, CONJUNCTIONS_MAX).map(Some)
            }
            "$ref" => {
                let to = value
                    .as_str()
                    .ok_or_else(|| refused(path, "`$ref` is a text"))?;
                self.references.push((path.clone(), to.to_owned()));
                kept()
            }
            "enum" => match value.as_array().is_some_and(|values| !values.is_empty()) {
                true => kept(),
                false => Err(refused(path, "`enum` is a list of values")),
            },
            "required" => match value
                .as_array()
                .is_some_and(|names| names.iter().all(Value::is_string))
            {
                true => kept(),
                false => Err(refused(path, "`required` is a list of names")),
            },
            "pattern" => pattern(path, value).map(Some),
            "format" => format(path, value).map(Some),
            "minProperties" => {
                refuse_open_minimum(path, value, beside)?;
                count(path, keyword, value).map(Some)
            }
            keyword if COUNTS.contains(&keyword) => count(path, keyword, value).map(Some),
            "uniqueItems" | "nullable" if *value == Value::Bool(false) => Ok(None),
            "uniqueItems" => Err(unenforced(path, keyword)),
            "$id" | "id" if path.len() == 1 || !value.is_string() => Ok(None),
            "$id" => Err(refused(path, "`$id` is only taken at the root")),
            keyword if HONOURED.contains(&keyword) => kept(),
            keyword if REFUSED.contains(&keyword) => Err(unenforced(path, keyword)),
            keyword if ANNOTATIONS.contains(&keyword) => Ok(None),
            // Words that JSON Schema does not define restrict nothing.
            _ => Ok(None),
        }
    }

    fn by_name(&mut self, path: &mut Path, value: &Value) -> Result<Value, GrammarError> {
        let schemas = value
            .as_object()
            .ok_or_else(|| refused(path, "schemas by name are an object"))?;
        let mut prepared = Map::new();
        for (name, schema) in schemas {
            path.push(name.clone());
            prepared.insert(name.clone(), self.schema(path, schema)?);
            path.pop();
        }
        Ok(Value::Object(prepared))
    }

    fn by_pattern(&mut self, path: &mut Path, value: &Value) -> Result<Value, GrammarError> {
        let names = value.as_object().into_iter().flat_map(Map::keys);
        let long = |name: &String| name.chars().count() > PATTERN_CHARS_MAX;
        let (count, is_long) = (names.clone().count(), names.clone().any(long));
        if count > NAME_PATTERNS_MAX || is_long {
            let reason = format!(
                "`patternProperties` may hold {NAME_PATTERNS_MAX} patterns of \
                 {PATTERN_CHARS_MAX} characters"
            );
            return Err(refused(path, reason));
        }
        self.by_name(path, value)
    }

    fn list(&mut self, path: &mut Path, value: &Value, most: usize) -> Result<Value, GrammarError> {
        let schemas = value
            .as_array()
            .filter(|schemas| schemas.len() <= most)
            .ok_or_else(|| refused(path, format!("this is a list of at most {most} schemas")))?;
        let mut prepared = Vec::new();
        for (index, schema) in schemas.iter().enumerate() {
            path.push(index.to_string());
            prepared.push(self.schema(path, schema)?);
            path.pop();
        }
        Ok(Value::Array(prepared))
    }

    /// Refuses references that lead elsewhere than to a subschema of this schema.
    fn references(&self) -> Result<(), GrammarError> {
        let leads_nowhere =
            |(_, to): &&(Path, String)| to != "#" && !self.known.contains(to.as_str());
        match self.references.iter().find(leads_nowhere) {
            None => Ok(()),
            Some((path, to)) => Err(refused(
                path,
                format!("`$ref` leads to no schema in this one: `{to}`"),
            )),
        }
    }
}

fn refused(path: &[String], reason: impl Into<String>) -> GrammarError {
    GrammarError::Unsupported {
        path: path.to_vec(),
        reason: reason.into(),
    }
}

fn unenforced(path: &[String], keyword: &str) -> GrammarError {
    refused(path, format!("`{keyword}` cannot be enforced"))
}

/// The two ways to give the first elements of a list schemas of their own do not go together.
fn refuse_two_lists(
    path: &[String],
    keyword: &str,
    beside: &Map<String, Value>,
) -> Result<(), GrammarError> {
    let older =
        beside.get("items").is_some_and(Value::is_array) || beside.contains_key("additionalItems");
    match older && beside.contains_key("prefixItems") {
        true => Err(refused(
            path,
            format!("`{keyword}` is not taken together with both forms of tuples"),
        )),
        false => Ok(()),
    }
}

/// With free property names, one name may come twice and would count twice.
fn refuse_open_minimum(
    path: &[String],
    value: &Value,
    beside: &Map<String, Value>,
) -> Result<(), GrammarError> {
    let required = beside.get("required").and_then(Value::as_array);
    let required = required.map_or(0, Vec::len) as u64;
    let closed = beside.get("additionalProperties") == Some(&Value::Bool(false))
        && !beside.contains_key("patternProperties");
    match closed || value.as_u64().is_some_and(|count| count <= required) {
        true => Ok(()),
        false => Err(refused(
            path,
            "`minProperties` cannot be enforced where names are free",
        )),
    }
}

fn count(path: &[String], keyword: &str, value: &Value) -> Result<Value, GrammarError> {
    let whole = value.as_u64().or_else(|| {
        let float = value.as_f64().filter(|float| float.fract() == 0.0)?;
        // Cast within the range that is checked below.
        (0.0..=COUNT_MAX as f64)
            .contains(&float)
            .then_some(float as u64)
    });
    match whole {
        Some(count) if count <= COUNT_MAX => Ok(json!(count)),
        _ => Err(refused(
            path,
            format!("`{keyword}` is a whole number up to {COUNT_MAX}"),
        )),
    }
}

fn pattern(path: &[String], value: &Value) -> Result<Value, GrammarError> {
    match value.as_str() {
        Some(text) if text.chars().count() <= PATTERN_CHARS_MAX => Ok(value.clone()),
        _ => Err(refused(
            path,
            format!("`pattern` is a text of at most {PATTERN_CHARS_MAX} characters"),
        )),
    }
}

fn format(path: &[String], value: &Value) -> Result<Value, GrammarError> {
    match value.as_str() {
        Some(name) if FORMATS.contains(&name) => Ok(value.clone()),
        _ => Err(refused(
            path,
            format!("`format` of {value} cannot be enforced"),
        )),
    }
}
