//! Filters and tests of Jinja2 that minijinja has differently, or not at all.
#![expect(
    clippy::needless_pass_by_value,
    reason = "minijinja hands keyword arguments over"
)]

use std::borrow::Cow;

use minijinja::{
    Environment, Error, ErrorKind, State, Value, filters,
    value::{Kwargs, Rest, ValueKind, ValueOrKwargs, from_args},
};

use super::{
    methods::{is_space, python_lines},
    preprocess::LOOP_FILTER,
    repr::{self, str_of},
};

/// Widest indentation, so that a template cannot ask for endless space.
const INDENT_MAX: usize = 1024;

/// Puts the filters and tests into an environment.
pub(super) fn register(environment: &mut Environment<'static>) {
    environment.add_test("sequence", is_sequence);
    environment.add_test("iterable", |value: &Value| {
        !value.is_none() && value.try_iter().is_ok()
    });
    environment.add_test("number", |value: &Value| {
        matches!(value.kind(), ValueKind::Number | ValueKind::Bool) || is_float(value)
    });
    environment.add_test("float", is_float);
    environment.add_test("callable", |value: &Value| {
        value.kind() == ValueKind::Plain && !is_float(value)
    });
    environment.add_filter(LOOP_FILTER, looped);
    environment.add_filter("string", |state: &State, value: &Value| {
        str_of(state, value)
    });
    environment.add_filter("trim", trim);
    environment.add_filter("indent", indent);
    environment.add_filter("default", default);
    environment.add_filter("d", default);
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    environment.add_filter("dictsort", dictsort);
    for name in ["e", "escape", "forceescape"] {
        let forced = name == "forceescape";
        environment.add_filter(name, move |state: &State, value: &Value| {
            escape(state, value, forced)
        });
    }
    environment.add_filter("list", |state: &mut State, value: Value| {
        filters::list(state, looped(&value)?)
    });
    register_generators(environment);
}

/// In Python these give generators: true even if empty, without a length, and used up by one loop.
fn register_generators(environment: &mut Environment<'static>) {
    type Arguments = Rest<ValueOrKwargs>;
    type Name<'a> = Cow<'a, str>;
    fn generator(items: Vec<Value>) -> Value {
        Value::make_one_shot_iterator(items.into_iter())
    }
    environment.add_filter(
        "map",
        |state: &mut State, value: Value, arguments: Arguments| {
            filters::map(state, value, arguments).map(generator)
        },
    );
    environment.add_filter(
        "select",
        |state: &mut State, value: Value, test: Option<Name<'_>>, arguments: Arguments| {
            filters::select(state, value, test, arguments).map(generator)
        },
    );
    environment.add_filter(
        "reject",
        |state: &mut State, value: Value, test: Option<Name<'_>>, arguments: Arguments| {
            filters::reject(state, value, test, arguments).map(generator)
        },
    );
    environment.add_filter(
        "selectattr",
        |state: &mut State,
         value: Value,
         name: Name<'_>,
         test: Option<Name<'_>>,
         arguments: Arguments| {
            filters::selectattr(state, value, name, test, arguments).map(generator)
        },
    );
    environment.add_filter(
        "rejectattr",
        |state: &mut State,
         value: Value,
         name: Name<'_>,
         test: Option<Name<'_>>,
         arguments: Arguments| {
            filters::rejectattr(state, value, name, test, arguments).map(generator)
        },
    );
}

fn is_float(value: &Value) -> bool {
    repr::float(value).is_some()
}

/// Whatever has a length and items: texts and mappings as well.
fn is_sequence(value: &Value) -> bool {
    match value.kind() {
        ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Undefined => true,
        ValueKind::Iterable => value.len().is_some(),
        _ => false,
    }
}

/// Returns the sequence that a loop runs over. minijinja takes `None` for an empty list, Python
/// refuses it. A generator becomes a list, so that the loop knows its length.
fn looped(value: &Value) -> Result<Value, Error> {
    if value.is_none() {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "None is not iterable",
        ));
    }
    if value.kind() == ValueKind::Iterable && value.len().is_none() {
        return value
            .try_iter()?
            .checked()
            .collect::<Result<Vec<Value>, Error>>()
            .map(Value::from);
    }
    Ok(value.clone())
}

fn trim(state: &State, value: &Value, chars: Option<&str>) -> Result<String, Error> {
    let text = str_of(state, value)?;
    Ok(match chars {
        Some(chars) => text.trim_matches(|c| chars.contains(c)),
        None => text.trim_matches(is_space),
    }
    .to_owned())
}

/// `indent(value, width=4, first=False, blank=False)`; a width may be a text.
fn indent(state: &State, text: &str, arguments: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let arguments = arguments.into_values();
    let (width, first, blank, kwargs): (Option<Value>, Option<bool>, Option<bool>, Kwargs) =
        from_args(&arguments)?;
    let width = width.or(kwargs.get("width")?);
    let first = first.or(kwargs.get("first")?).unwrap_or(false);
    let blank = blank.or(kwargs.get("blank")?).unwrap_or(false);
    kwargs.assert_all_used()?;
    let indention = match width {
        None => " ".repeat(4),
        Some(width) => match width.as_str() {
            Some(text) => text.to_owned(),
            None => " ".repeat(usize::try_from(width)?.min(INDENT_MAX)),
        },
    };
    // Jinja2 drops one trailing line break; the added one preserves it.
    let text = format!("{text}\n");
    let lines = python_lines(&text);
    state.consume_fuel((lines.len() * indention.len() / 64) as u64)?;
    let mut out = String::with_capacity(text.len());
    for (position, (line, _)) in lines.iter().enumerate() {
        if position > 0 {
            out.push('\n');
        }
        if (position > 0 && (blank || !line.is_empty())) || (position == 0 && first) {
            out.push_str(&indention);
        }
        out.push_str(line);
    }
    Ok(out)
}

/// `default(value, default_value='', boolean=False)`.
fn default(
    value: &Value,
    other: Option<Value>,
    boolean: Option<bool>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let other = other
        .or(kwargs.get("default_value")?)
        .unwrap_or_else(|| Value::from(""));
    let boolean = boolean.or(kwargs.get("boolean")?).unwrap_or(false);
    kwargs.assert_all_used()?;
    let absent = value.is_undefined() || (boolean && !value.is_true());
    Ok(if absent { other } else { value.clone() })
}

/// `int(value, default=0, base=10)`: the default for what is no number.
fn int(
    value: &Value,
    other: Option<Value>,
    base: Option<u32>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let other = other
        .or(kwargs.get("default")?)
        .unwrap_or_else(|| Value::from(0));
    let base = base.or(kwargs.get("base")?).unwrap_or(10);
    kwargs.assert_all_used()?;
    if let Some(text) = value.as_str() {
        return Ok(int_of_text(text.trim_matches(is_space), base).map_or(other, Value::from));
    }
    Ok(match (value.kind(), repr::float(value)) {
        (_, Some(float)) => truncated(float).map_or(other, Value::from),
        (ValueKind::Bool, None) => Value::from(i64::from(value.is_true())),
        (ValueKind::Number, None) => value.clone(),
        _ => other,
    })
}

fn int_of_text(text: &str, base: u32) -> Option<i64> {
    let prefixes: &[&str] = match base {
        2 => &["0b", "0B"],
        8 => &["0o", "0O"],
        16 => &["0x", "0X"],
        10 => &[],
        _ => return None,
    };
    let digits = prefixes
        .iter()
        .find_map(|prefix| text.strip_prefix(prefix))
        .unwrap_or(text);
    i64::from_str_radix(digits, base)
        .ok()
        .or_else(|| truncated(text.parse().ok()?))
}

fn truncated(float: f64) -> Option<i64> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the range was just checked"
    )]
    (float.abs() < 9e18).then(|| float.trunc() as i64)
}

/// `float(value, default=0.0)`.
fn float(value: &Value, other: Option<Value>) -> Value {
    let other = other.unwrap_or_else(|| Value::from(0.0));
    let number = match value.as_str() {
        Some(text) => text.trim_matches(is_space).parse().ok(),
        None => f64::try_from(value.clone()).ok(),
    };
    number.map_or(other, Value::from)
}

/// `dictsort(value, case_sensitive=False, by='key', reverse=False)`.
fn dictsort(
    value: &Value,
    case_sensitive: Option<Value>,
    by: Option<Value>,
    reverse: Option<Value>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let given = [
        ("case_sensitive", case_sensitive),
        ("by", by),
        ("reverse", reverse),
    ];
    let mut arguments: Vec<(&str, Value)> = given
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
    for name in kwargs.args() {
        arguments.push((name, kwargs.get(name)?));
    }
    filters::dictsort(value, arguments.into_iter().collect())
}

/// Escapes for HTML as `markupsafe` does; what is safe already stays, unless forced.
fn escape(state: &State, value: &Value, forced: bool) -> Result<Value, Error> {
    if value.is_safe() && !forced {
        return Ok(value.clone());
    }
    let mut out = String::new();
    for c in str_of(state, value)?.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    Ok(Value::from_safe_string(out))
}
