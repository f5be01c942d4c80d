//! Values as text, as Python's `str` and `repr` write them.

use std::{fmt, sync::Arc};

use minijinja::{
    Error, State, Value,
    value::{Object, ObjectRepr, Tuple, ValueKind},
};

use super::sentinel::{SENTINELS, Sentinels};

/// Deepest nesting of a value that is written; request bodies nest less.
pub(super) const DEPTH_MAX: usize = 256;

/// Python's `str` of a value.
pub(super) fn str_of(state: &State, value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::Undefined => Ok(String::new()),
        ValueKind::String => Ok(value.as_str().unwrap_or_default().to_owned()),
        _ => {
            let mut out = String::new();
            Reprs {
                sentinels: sentinels(state),
            }
            .write(&mut out, value, 0)?;
            Ok(out)
        }
    }
}

/// The sentinels of this rendering, if the values have any.
pub(super) fn sentinels(state: &State) -> Option<Value> {
    state.lookup(SENTINELS)
}

/// Returns the original character of a sentinel; other characters stay.
pub(super) fn revealed(sentinels: Option<&Value>, c: char) -> char {
    sentinels
        .and_then(|sentinels| sentinels.downcast_object_ref::<Sentinels>()?.reveal(c))
        .unwrap_or(c)
}

struct Reprs {
    sentinels: Option<Value>,
}

impl Reprs {
    fn write(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(Error::new(
                minijinja::ErrorKind::InvalidOperation,
                "value nests too deep",
            ));
        }
        match value.kind() {
            ValueKind::Undefined => out.push_str("Undefined"),
            ValueKind::String => self.string(out, value.as_str().unwrap_or_default()),
            ValueKind::Number => match float(value) {
                Some(float) => out.push_str(&float_repr(float)),
                None => out.push_str(&value.to_string()),
            },
            ValueKind::Seq => self.sequence(out, value, depth)?,
            ValueKind::Iterable if value.len().is_some() => self.sequence(out, value, depth)?,
            ValueKind::Map => self.dict(out, value, depth)?,
            _ => out.push_str(&value.to_string()),
        }
        Ok(())
    }

    fn sequence(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        let tuple = value.downcast_object_ref::<Tuple>();
        out.push(if tuple.is_some() { '(' } else { '[' });
        for (position, item) in value.try_iter()?.checked().enumerate() {
            if position > 0 {
                out.push_str(", ");
            }
            self.write(out, &item?, depth + 1)?;
        }
        match tuple {
            Some(tuple) if tuple.len() == 1 => out.push_str(",)"),
            Some(_) => out.push(')'),
            None => out.push(']'),
        }
        Ok(())
    }

    fn dict(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        out.push('{');
        for (position, key) in value.try_iter()?.checked().enumerate() {
            let key = key?;
            if position > 0 {
                out.push_str(", ");
            }
            self.write(out, &key, depth + 1)?;
            out.push_str(": ");
            self.write(out, &value.get_item(&key)?, depth + 1)?;
        }
        out.push('}');
        Ok(())
    }

    fn string(&self, out: &mut String, text: &str) {
        let quote = if text.contains('\'') && !text.contains('"') {
            '"'
        } else {
            '\''
        };
        out.push(quote);
        for c in text.chars() {
            match revealed(self.sentinels.as_ref(), c) {
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                original @ ('\\' | '\'' | '"') if original == '\\' || original == quote => {
                    out.push('\\');
                    out.push(c);
                }
                original if is_printable(original) => out.push(c),
                original => out.push_str(&escape(u32::from(original))),
            }
        }
        out.push(quote);
    }
}

fn escape(c: u32) -> String {
    match c {
        0..=0xFF => format!("\\x{c:02x}"),
        0x100..=0xFFFF => format!("\\u{c:04x}"),
        _ => format!("\\U{c:08x}"),
    }
}

/// Python's `str.isprintable` of a character.
///
/// Rust escapes the same characters in debug output, and combining ones at the start of a text.
pub(super) fn is_printable(c: char) -> bool {
    match c {
        ' '..='~' => true,
        '\0'..='\u{7f}' => false,
        _ => String::from_iter(['.', c]).escape_debug().nth(1) == Some(c),
    }
}

/// A float that Python writes with an exponent and minijinja without: `~` writes it through this.
#[derive(Debug)]
struct ExponentFloat(f64);

impl Object for ExponentFloat {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&float_repr(self.0))
    }
}

/// A float as a template's value.
pub(super) fn float_value(float: f64) -> Value {
    if float_repr(float).contains('e') {
        return Value::from_object(ExponentFloat(float));
    }
    Value::from(float)
}

/// The float that a value is; integers are none.
pub(super) fn float(value: &Value) -> Option<f64> {
    if let Some(ExponentFloat(float)) = value.downcast_object_ref() {
        return Some(*float);
    }
    (value.kind() == ValueKind::Number && !value.is_integer())
        .then(|| f64::try_from(value.clone()).ok())
        .flatten()
}

/// Python's `repr` of a float: the shortest digits that give it back, with an exponent below 1e-4
/// and from 1e16 on.
pub(super) fn float_repr(float: f64) -> String {
    if float.is_nan() {
        return "nan".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        return format!("{float:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Each expected text is what Python's `repr` gave.
    #[test]
    fn floats_are_written_as_python_writes_them() {
        for (float, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(float_repr(float), expected);
        }
    }

    #[test]
    fn printable_characters_are_those_of_python() {
        for c in [' ', 'a', '~', 'é', '世', '😀', '\u{301}', '\u{a1}'] {
            assert!(is_printable(c), "{c:?}");
        }
        for c in [
            '\0',
            '\n',
            '\u{7f}',
            '\u{a0}',
            '\u{ad}',
            '\u{200b}',
            '\u{200d}',
            '\u{2028}',
            '\u{e000}',
            '\u{f0000}',
        ] {
            assert!(!is_printable(c), "{c:?}");
        }
    }

    proptest! {
        #[test]
        fn written_floats_parse_back(float in prop::num::f64::NORMAL) {
            prop_assert_eq!(float_repr(float).parse::<f64>().unwrap(), float);
        }
    }
}
