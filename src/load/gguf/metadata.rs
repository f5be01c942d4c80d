//! The key-value metadata of a GGUF file.
//!
//! Format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.

use std::collections::HashMap;

use super::cursor::Cursor;
use crate::{limits::GGUF_METADATA_ELEMENTS_MAX, load::LoadError};

/// One value, with the integer widths of the format widened to one.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Integer(i128),
    Float(f64),
    Bool(bool),
    Text(String),
    Array(Vec<Value>),
}

/// All keys of a file.
#[derive(Debug, Default)]
pub(super) struct Metadata(HashMap<String, Value>);

/// The least room an entry takes: the length of an empty key, a type and one byte.
pub(super) const ENTRY_BYTES_MIN: usize = 13;

const TYPE_TEXT: u32 = 8;
const TYPE_ARRAY: u32 = 9;

impl Metadata {
    /// Reads `count` entries.
    pub(super) fn read(cursor: &mut Cursor<'_>, count: usize) -> Result<Self, LoadError> {
        let mut entries = HashMap::new();
        let mut elements_left = GGUF_METADATA_ELEMENTS_MAX;
        for _ in 0..count {
            let key = cursor.text()?;
            let value = read_value(cursor, &mut elements_left)
                .map_err(|fault| LoadError(format!("metadata `{key}` {fault}")))?;
            if entries.insert(key.to_owned(), value).is_some() {
                return Err(format!("metadata `{key}` appears twice").into());
            }
        }
        Ok(Self(entries))
    }

    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// A number that fits the type asked for, if the key is there.
    pub(super) fn integer<T: TryFrom<i128>>(&self, key: &str) -> Result<Option<T>, LoadError> {
        let number = |value: &Value| match value {
            Value::Integer(number) => T::try_from(*number).ok(),
            _ => None,
        };
        self.typed(key, "a whole number in range", number)
    }

    pub(super) fn float(&self, key: &str) -> Result<Option<f64>, LoadError> {
        let number = |value: &Value| match value {
            Value::Float(number) if number.is_finite() => Some(*number),
            Value::Integer(number) => Some(*number as f64),
            _ => None,
        };
        self.typed(key, "a finite number", number)
    }

    pub(super) fn bool(&self, key: &str) -> Result<Option<bool>, LoadError> {
        let flag = |value: &Value| match value {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        };
        self.typed(key, "a boolean", flag)
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<String>, LoadError> {
        let text = |value: &Value| match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        };
        self.typed(key, "a string", text)
    }

    /// The elements of an array, each converted; none where the key is missing.
    pub(super) fn list<T>(
        &self,
        key: &str,
        convert: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<Vec<T>>, LoadError> {
        let list = |value: &Value| match value {
            Value::Array(values) => values.iter().map(&convert).collect(),
            _ => None,
        };
        self.typed(key, "an array of the expected type", list)
    }

    fn typed<T>(
        &self,
        key: &str,
        expected: &str,
        convert: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, LoadError> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => match convert(value) {
                Some(converted) => Ok(Some(converted)),
                None => Err(format!("metadata `{key}` is not {expected}").into()),
            },
        }
    }
}

fn read_value(cursor: &mut Cursor<'_>, elements_left: &mut usize) -> Result<Value, LoadError> {
    let kind = cursor.u32()?;
    if kind != TYPE_ARRAY {
        return read_scalar(cursor, kind);
    }
    let element = cursor.u32()?;
    let count = cursor.count("array elements", bytes_min(element)?)?;
    *elements_left = elements_left.checked_sub(count).ok_or_else(|| {
        format!("takes the arrays of the file past {GGUF_METADATA_ELEMENTS_MAX} elements")
    })?;
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        values.push(read_scalar(cursor, element)?);
    }
    Ok(Value::Array(values))
}

fn read_scalar(cursor: &mut Cursor<'_>, kind: u32) -> Result<Value, LoadError> {
    Ok(match kind {
        0 => Value::Integer(u8::from_le_bytes(cursor.array()?).into()),
        1 => Value::Integer(i8::from_le_bytes(cursor.array()?).into()),
        2 => Value::Integer(u16::from_le_bytes(cursor.array()?).into()),
        3 => Value::Integer(i16::from_le_bytes(cursor.array()?).into()),
        4 => Value::Integer(cursor.u32()?.into()),
        5 => Value::Integer(i32::from_le_bytes(cursor.array()?).into()),
        6 => Value::Float(shortest(f32::from_le_bytes(cursor.array()?))),
        7 => Value::Bool(cursor.array::<1>()? != [0]),
        TYPE_TEXT => Value::Text(cursor.text()?.to_owned()),
        10 => Value::Integer(cursor.u64()?.into()),
        11 => Value::Integer(i64::from_le_bytes(cursor.array()?).into()),
        12 => Value::Float(f64::from_le_bytes(cursor.array()?)),
        other => return Err(unknown_type(other)),
    })
}

/// Returns the 64-bit float with the shortest decimal form of a 32-bit one. So an epsilon stored as
/// 1e-5 reads 1e-5 again and not 9.999999747378752e-6.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| value.into())
}

/// The least room one value of a type takes. Arrays of arrays are outside the format's reference
/// reader as well.
fn bytes_min(kind: u32) -> Result<usize, LoadError> {
    Ok(match kind {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        TYPE_TEXT | 10..=12 => 8,
        other => return Err(unknown_type(other)),
    })
}

fn unknown_type(kind: u32) -> LoadError {
    format!("has value type {kind}, which the format does not define here").into()
}
