//! The `tojson` filter: Python's `json.dumps`, byte for byte.

use minijinja::{
    Error, ErrorKind, State, Value,
    value::{Kwargs, ObjectRepr, ValueKind},
};

use super::repr::{DEPTH_MAX, float, float_repr, revealed, sentinels};

/// `tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
#[expect(
    clippy::needless_pass_by_value,
    reason = "minijinja hands keyword arguments over"
)]
pub(super) fn tojson(
    state: &State,
    value: &Value,
    ascii: Option<Value>,
    indent: Option<Value>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let option = |name: &str| kwargs.get::<Option<Value>>(name);
    let truth = |value: Option<Value>| value.is_some_and(|value| value.is_true());
    let indent = indent.or(option("indent")?);
    let indent = indent.as_ref().map(indentation).transpose()?.flatten();
    let mut writer = Writer {
        out: String::new(),
        ascii: truth(ascii.or(option("ensure_ascii")?)),
        separators: separators(option("separators")?, indent.is_some())?,
        indent,
        sort_keys: truth(option("sort_keys")?),
        sentinels: sentinels(state),
    };
    kwargs.assert_all_used()?;
    writer.value(value, 0)?;
    Ok(Value::from(writer.out))
}

/// Returns the indentation of one level; `None` for output on one line.
fn indentation(indent: &Value) -> Result<Option<String>, Error> {
    if indent.is_none() {
        return Ok(None);
    }
    if let Some(text) = indent.as_str() {
        return Ok(Some(text.to_owned()));
    }
    let spaces = i64::try_from(indent.clone())?.clamp(0, 64);
    Ok(Some(" ".repeat(usize::try_from(spaces).unwrap_or(0))))
}

fn separators(given: Option<Value>, indented: bool) -> Result<[String; 2], Error> {
    let Some(given) = given.filter(|value| !value.is_none()) else {
        let item = if indented { "," } else { ", " };
        return Ok([item.to_owned(), ": ".to_owned()]);
    };
    let pair: Vec<Value> = given.try_iter()?.collect();
    match pair
        .iter()
        .map(Value::as_str)
        .collect::<Option<Vec<_>>>()
        .as_deref()
    {
        Some([item, key]) => Ok([(*item).to_owned(), (*key).to_owned()]),
        _ => Err(Error::new(
            ErrorKind::InvalidOperation,
            "separators must be two strings",
        )),
    }
}

struct Writer {
    out: String,
    ascii: bool,
    indent: Option<String>,
    separators: [String; 2],
    sort_keys: bool,
    sentinels: Option<Value>,
}

impl Writer {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        match value.kind() {
            _ if float(value).is_some() => self.out.push_str(&number(value)),
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self
                .out
                .push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.out.push_str(&number(value)),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq => self.array(value, depth)?,
            ValueKind::Iterable if value.len().is_some() => self.array(value, depth)?,
            ValueKind::Map if depth < DEPTH_MAX => self.object(value, depth)?,
            kind => return Err(not_serializable(&kind.to_string())),
        }
        Ok(())
    }

    fn array(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth >= DEPTH_MAX {
            return Err(not_serializable("deeply nested list"));
        }
        self.out.push('[');
        let mut empty = true;
        for item in value.try_iter()?.checked() {
            self.next_item(empty, depth);
            empty = false;
            self.value(&item?, depth + 1)?;
        }
        self.close(']', empty, depth);
        Ok(())
    }

    fn object(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if value
            .as_object()
            .is_none_or(|object| object.repr() != ObjectRepr::Map)
        {
            return Err(not_serializable("object"));
        }
        let mut keys = value
            .try_iter()?
            .checked()
            .collect::<Result<Vec<Value>, Error>>()?;
        if self.sort_keys {
            keys.sort();
        }
        self.out.push('{');
        for (position, key) in keys.iter().enumerate() {
            self.next_item(position == 0, depth);
            self.key(key)?;
            self.out.push_str(&self.separators[1]);
            self.value(&value.get_item(key)?, depth + 1)?;
        }
        self.close('}', keys.is_empty(), depth);
        Ok(())
    }

    fn key(&mut self, key: &Value) -> Result<(), Error> {
        match key.kind() {
            ValueKind::String => self.string(key.as_str().unwrap_or_default()),
            ValueKind::None | ValueKind::Bool | ValueKind::Number => {
                self.out.push('"');
                self.value(key, 0)?;
                self.out.push('"');
            }
            kind => return Err(not_serializable(&format!("key of type {kind}"))),
        }
        Ok(())
    }

    fn next_item(&mut self, first: bool, depth: usize) {
        if !first {
            self.out.push_str(&self.separators[0]);
        }
        self.new_line(depth + 1);
    }

    fn close(&mut self, bracket: char, empty: bool, depth: usize) {
        if !empty {
            self.new_line(depth);
        }
        self.out.push(bracket);
    }

    fn new_line(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            for _ in 0..depth {
                self.out.push_str(indent);
            }
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            // What needs escaping is the character that a sentinel stands for.
            let written = revealed(self.sentinels.as_ref(), c);
            match written {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                '\0'..='\x1f' => self.escape(written),
                ' '..='~' => self.out.push(c),
                _ if self.ascii => self.escape(written),
                _ => self.out.push(c),
            }
        }
        self.out.push('"');
    }

    fn escape(&mut self, c: char) {
        for unit in c.encode_utf16(&mut [0; 2]) {
            self.out.push_str(&format!("\\u{unit:04x}"));
        }
    }
}

fn not_serializable(what: &str) -> Error {
    Error::new(
        ErrorKind::BadSerialization,
        format!("{what} is not JSON serializable"),
    )
}

fn number(value: &Value) -> String {
    match float(value) {
        Some(float) if float.is_nan() => "NaN".to_owned(),
        Some(float) if float.is_infinite() && float > 0.0 => "Infinity".to_owned(),
        Some(float) if float.is_infinite() => "-Infinity".to_owned(),
        Some(float) => float_repr(float),
        None => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use minijinja::context;
    use proptest::prelude::*;
    use serde_json::{Map, Value as Json, json};

    use super::*;
    use crate::template::variables::number_value;

    fn value(json: &Json) -> Value {
        match json {
            Json::Null => Value::from(()),
            Json::Bool(value) => Value::from(*value),
            Json::Number(number) => number_value(number),
            Json::String(text) => Value::from(text),
            Json::Array(items) => items.iter().map(value).collect(),
            Json::Object(map) => Value::from_pairs(map.iter().map(|(k, v)| (k.as_str(), value(v)))),
        }
    }

    fn dumped(json: &Json, arguments: &str) -> String {
        let mut environment = minijinja::Environment::new();
        environment.add_filter("tojson", tojson);
        let source = format!("{{{{ x | tojson{arguments} }}}}");
        environment
            .render_str(&source, context! { x => value(json) })
            .unwrap()
    }

    /// Each expected text is what Python's `json.dumps` gave.
    #[test]
    fn output_is_that_of_json_dumps() {
        let nested = json!({ "b": [1, 2.0, null, true], "a": {}, "é<&'": "\u{1}\u{7f}\\\"\n😀/" });
        for (arguments, expected) in [
            (
                "",
                "{\"b\": [1, 2.0, null, true], \"a\": {}, \"é<&'\": \"\\u0001\u{7f}\\\\\\\"\\n😀/\"}",
            ),
            (
                "(sort_keys=true, separators=(',', ':'))",
                "{\"a\":{},\"b\":[1,2.0,null,true],\"é<&'\":\"\\u0001\u{7f}\\\\\\\"\\n😀/\"}",
            ),
            (
                "(ensure_ascii=true)",
                "{\"b\": [1, 2.0, null, true], \"a\": {}, \"\\u00e9<&'\": \"\\u0001\\u007f\\\\\\\"\\n\\ud83d\\ude00/\"}",
            ),
            (
                "(indent=1)",
                "{\n \"b\": [\n  1,\n  2.0,\n  null,\n  true\n ],\n \"a\": {},\n \"é<&'\": \"\\u0001\u{7f}\\\\\\\"\\n😀/\"\n}",
            ),
        ] {
            assert_eq!(dumped(&nested, arguments), expected, "{arguments}");
        }
        assert_eq!(
            dumped(
                &json!([1e22, 1e16, 1.5e-7, 0.0001, -0.0, 123456789012345.6]),
                ""
            ),
            "[1e+22, 1e+16, 1.5e-07, 0.0001, -0.0, 123456789012345.6]"
        );
    }

    #[test]
    fn values_that_json_lacks_are_refused() {
        for source in [
            "{{ missing | tojson }}",
            "{{ {(1, 2): 3} | tojson }}",
            "{{ range | tojson }}",
        ] {
            let mut environment = minijinja::Environment::new();
            environment.add_filter("tojson", tojson);
            assert!(environment.render_str(source, ()).is_err(), "{source}");
        }
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let scalar = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            any::<u64>().prop_map(Json::from),
            prop::num::f64::NORMAL.prop_map(Json::from),
            any::<String>().prop_map(Json::from),
        ];
        scalar.prop_recursive(4, 32, 6, |inner| {
            let object = prop::collection::vec((any::<String>(), inner.clone()), 0..6);
            prop_oneof![
                prop::collection::vec(inner, 0..6).prop_map(Json::from),
                object.prop_map(|pairs| Json::Object(Map::from_iter(pairs))),
            ]
        })
    }

    proptest! {
        #[test]
        fn output_parses_back(json in any_json()) {
            for arguments in ["", "(ensure_ascii=true)", "(indent=2)", "(separators=(',', ':'))"] {
                let dumped = dumped(&json, arguments);
                let parsed: Json = serde_json::from_str(&dumped).unwrap();
                prop_assert_eq!(&parsed, &json, "{}", dumped);
            }
        }
    }
}
