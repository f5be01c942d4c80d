//! Values that a model writes as bare text, typed by the schema of the arguments.

use serde_json::{Map, Value};

use super::python_literal::{PythonLiteral, Quotes};

/// Most references that are followed and unions that are searched.
const DEPTH_MAX: usize = 8;

/// The types that a schema allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Kinds {
    string: bool,
    number: bool,
    integer: bool,
    boolean: bool,
    null: bool,
    object: bool,
    array: bool,
}

impl Kinds {
    const ANY: Self = Self {
        string: true,
        number: true,
        integer: true,
        boolean: true,
        null: true,
        object: true,
        array: true,
    };

    /// Returns the types of an argument; any if the schema does not say.
    pub(crate) fn of(parameters: Option<&Map<String, Value>>, key: &str) -> Self {
        let Some(root) = parameters else {
            return Self::ANY;
        };
        let property = root.get("properties").and_then(|all| all.get(key));
        let mut kinds = Self::default();
        if let Some(property) = property {
            kinds.add(root, property, DEPTH_MAX);
        }
        match kinds == Self::default() {
            true => Self::ANY,
            false => kinds,
        }
    }

    /// Text only, or all but text.
    pub(crate) fn text(only: bool) -> Self {
        match only {
            true => Self {
                string: true,
                ..Self::default()
            },
            false => Self {
                string: false,
                ..Self::ANY
            },
        }
    }

    /// True if every value is text, so that it can be passed on before it is whole.
    pub(crate) fn is_text_only(self) -> bool {
        self == Self::text(true)
    }

    /// True if some value is text.
    pub(crate) fn may_be_text(self) -> bool {
        self.string
    }

    fn add(&mut self, root: &Map<String, Value>, schema: &Value, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else {
            return;
        };
        match &schema["type"] {
            Value::String(name) => self.add_named(name),
            Value::Array(names) => {
                names
                    .iter()
                    .filter_map(Value::as_str)
                    .for_each(|name| self.add_named(name));
            }
            _ => {
                let constants = schema["enum"].as_array().into_iter().flatten();
                constants
                    .chain(schema.get("const"))
                    .for_each(|value| self.add_value(value));
            }
        }
        for union in ["anyOf", "oneOf", "allOf"] {
            for part in schema[union].as_array().into_iter().flatten() {
                self.add(root, part, depth);
            }
        }
        let target = schema["$ref"]
            .as_str()
            .and_then(|path| path.strip_prefix("#/"));
        let target = target.and_then(|path| {
            path.split('/')
                .try_fold(None, |at: Option<&Value>, step| match at {
                    None => Some(root.get(step)),
                    Some(at) => Some(at.get(step)),
                })?
        });
        if let Some(target) = target {
            self.add(root, target, depth);
        }
    }

    fn add_named(&mut self, name: &str) {
        match name {
            "string" => self.string = true,
            "number" => (self.number, self.integer) = (true, true),
            "integer" => self.integer = true,
            "boolean" => self.boolean = true,
            "null" => self.null = true,
            "object" => self.object = true,
            "array" => self.array = true,
            _ => {}
        }
    }

    fn add_value(&mut self, value: &Value) {
        match value {
            Value::String(_) => self.string = true,
            Value::Number(_) => (self.number, self.integer) = (true, true),
            Value::Bool(_) => self.boolean = true,
            Value::Null => self.null = true,
            Value::Object(_) => self.object = true,
            Value::Array(_) => self.array = true,
        }
    }

    fn allow(self, value: &Value) -> bool {
        match value {
            Value::String(_) => false,
            Value::Number(number) => self.number || self.integer && !number.is_f64(),
            Value::Bool(_) => self.boolean,
            Value::Null => self.null,
            Value::Object(_) => self.object,
            Value::Array(_) => self.array,
        }
    }

    /// Returns a complete value as JSON. JSON of an allowed type stays. If strings are not allowed,
    /// other JSON or a Python literal is taken. All else is a string.
    pub(crate) fn json(self, text: &str) -> String {
        let trimmed = text.trim();
        if let Ok(value) = serde_json::from_str::<Value>(trimmed)
            && (self.allow(&value) || !self.string)
        {
            return trimmed.to_owned();
        }
        if !self.string
            && let Some(json) = PythonLiteral::whole(trimmed, Quotes::Python)
        {
            return json;
        }
        Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_schema_decides_what_a_text_is() {
        let schema = json!({
            "properties": {
                "s": {"type": "string"}, "i": {"type": "integer"}, "n": {"type": "number"},
                "b": {"type": "boolean"}, "o": {"type": "object"},
                "maybe": {"type": ["string", "null"]},
                "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "word": {"enum": ["a", "b"]}, "far": {"$ref": "#/$defs/x"},
                "loop": {"$ref": "#/properties/loop"}, "any": {},
            },
            "$defs": {"x": {"type": "array"}},
        });
        let schema = schema.as_object();
        for (key, text, expected) in [
            ("s", "5", "\"5\""),
            ("s", " a\n\"", "\" a\\n\\\"\""),
            ("i", " 5 ", "5"),
            ("i", "five", "\"five\""),
            ("i", "5.5", "5.5"),
            ("n", "1e3", "1e3"),
            ("b", "True", "true"),
            ("b", "false", "false"),
            ("o", "{'a': [None, 'b\"']}", "{\"a\": [null, \"b\\\"\"]}"),
            ("o", "{\"a\":1}", "{\"a\":1}"),
            ("maybe", "null", "null"),
            ("maybe", "5", "\"5\""),
            ("either", "5", "5"),
            ("either", "5.5", "\"5.5\""),
            ("word", "5", "\"5\""),
            ("far", "[1]", "[1]"),
            ("loop", "5", "5"),
            ("any", "x", "\"x\""),
            ("any", "\"x\"", "\"\\\"x\\\"\""),
            ("none", "true", "true"),
        ] {
            assert_eq!(Kinds::of(schema, key).json(text), expected, "{key} {text}");
        }
        let text_only = ["s", "word"];
        for key in ["s", "i", "maybe", "either", "word", "any", "none"] {
            let only = Kinds::of(schema, key).is_text_only();
            assert_eq!(only, text_only.contains(&key), "{key}");
        }
        assert!(!Kinds::of(None, "s").is_text_only());
    }
}
