//! Incremental JSON scanner (RFC 8259), with one difference: control characters in strings, which
//! models write and parsers refuse, are escaped.

use crate::limits::JSON_DEPTH_MAX;

/// Progress of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More of it must follow.
    Inside,
    /// It has ended.
    Ended,
    /// It is no JSON.
    Broken,
}

/// The next expected element outside of strings and literals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Value,
    /// A value or the end of an array that is still empty.
    FirstElement,
    Key,
    /// A key or the end of an object that is still empty.
    FirstKey,
    Colon,
    /// A comma or the end of what is open.
    Separator,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Between(Due),
    String {
        is_key: bool,
    },
    Escape {
        is_key: bool,
    },
    /// Number of hexadecimal digits still expected.
    Digits {
        left: u8,
        is_key: bool,
    },
    /// The rest of `true`, `false` or `null`.
    Word(&'static [u8]),
    Number(Number),
}

/// Parts of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

impl Number {
    fn next(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Minus, b'0') => Self::Zero,
            (Self::Minus, b'1'..=b'9') | (Self::Integer, b'0'..=b'9') => Self::Integer,
            (Self::Zero | Self::Integer, b'.') => Self::Point,
            (Self::Point | Self::Fraction, b'0'..=b'9') => Self::Fraction,
            (Self::Zero | Self::Integer | Self::Fraction, b'e' | b'E') => Self::E,
            (Self::E, b'+' | b'-') => Self::Sign,
            (Self::E | Self::Sign | Self::Exponent, b'0'..=b'9') => Self::Exponent,
            _ => return None,
        })
    }

    fn may_end(self) -> bool {
        use Number::{Exponent, Fraction, Integer, Zero};
        matches!(self, Zero | Integer | Fraction | Exponent)
    }
}

/// Reads one value.
#[derive(Debug)]
pub(crate) struct JsonScanner {
    state: State,
    /// Open containers: true for objects, false for arrays.
    open: Vec<bool>,
    /// True if a key of the outermost object was read, with its colon.
    has_key: bool,
    ended: bool,
}

/// The effect of a byte.
enum Byte {
    Taken,
    /// The value ended before it.
    Refused,
    Broken,
}

impl Default for JsonScanner {
    fn default() -> Self {
        Self {
            state: State::Between(Due::Value),
            open: Vec::new(),
            has_key: false,
            ended: false,
        }
    }
}

impl JsonScanner {
    /// Reads the part of `text` that belongs to the value and writes it to `out`. Returns the
    /// number of bytes read.
    pub(crate) fn read(&mut self, text: &str, out: &mut String) -> (usize, Progress) {
        let mut written = 0;
        for (at, byte) in text.bytes().enumerate() {
            if self.ended {
                out.push_str(&text[written..at]);
                return (at, Progress::Ended);
            }
            if byte < b' ' && matches!(self.state, State::String { .. }) {
                out.push_str(&text[written..at]);
                out.push_str(&escaped_control(byte));
                written = at + 1;
                continue;
            }
            match self.take(byte) {
                Byte::Taken => {}
                Byte::Refused => {
                    out.push_str(&text[written..at]);
                    return (at, Progress::Ended);
                }
                Byte::Broken => {
                    out.push_str(&text[written..at]);
                    return (at, Progress::Broken);
                }
            }
        }
        out.push_str(&text[written..]);
        let progress = match self.ended {
            true => Progress::Ended,
            false => Progress::Inside,
        };
        (text.len(), progress)
    }

    /// True if the value is certainly an object: its first key has been read, or its end.
    pub(crate) fn is_surely_object(&self) -> bool {
        self.has_key || self.ended
    }

    fn take(&mut self, byte: u8) -> Byte {
        match self.state {
            State::Between(_) if matches!(byte, b' ' | b'\n' | b'\r' | b'\t') => Byte::Taken,
            State::Between(due) => self.between(due, byte),
            State::String { is_key } => {
                match byte {
                    b'"' => self.string_ended(is_key),
                    b'\\' => self.state = State::Escape { is_key },
                    _ => {}
                }
                Byte::Taken
            }
            State::Escape { is_key } => {
                self.state = match byte {
                    b'u' => State::Digits { left: 4, is_key },
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {
                        State::String { is_key }
                    }
                    _ => return Byte::Broken,
                };
                Byte::Taken
            }
            State::Digits { left, is_key } => {
                if !byte.is_ascii_hexdigit() {
                    return Byte::Broken;
                }
                self.state = match left {
                    1 => State::String { is_key },
                    left => State::Digits {
                        left: left - 1,
                        is_key,
                    },
                };
                Byte::Taken
            }
            State::Word(rest) => match rest {
                [next, rest @ ..] if *next == byte => {
                    match rest {
                        [] => self.value_ended(),
                        rest => self.state = State::Word(rest),
                    }
                    Byte::Taken
                }
                _ => Byte::Broken,
            },
            State::Number(number) => self.number(number, byte),
        }
    }

    fn number(&mut self, number: Number, byte: u8) -> Byte {
        if let Some(next) = number.next(byte) {
            self.state = State::Number(next);
            return Byte::Taken;
        }
        if !number.may_end() {
            return Byte::Broken;
        }
        self.value_ended();
        match self.ended {
            true => Byte::Refused,
            false => self.take(byte),
        }
    }

    fn between(&mut self, due: Due, byte: u8) -> Byte {
        match (due, byte) {
            (Due::Value | Due::FirstElement, b'{') => return self.opened(true),
            (Due::Value | Due::FirstElement, b'[') => return self.opened(false),
            (Due::FirstElement, b']') | (Due::FirstKey, b'}') => self.closed(),
            (Due::Value | Due::FirstElement, _) => return self.scalar(byte),
            (Due::Key | Due::FirstKey, b'"') => self.state = State::String { is_key: true },
            (Due::Colon, b':') => {
                self.has_key |= self.open.len() == 1;
                self.state = State::Between(Due::Value);
            }
            (Due::Separator, b',') => {
                let due = match self.open.last() {
                    Some(true) => Due::Key,
                    _ => Due::Value,
                };
                self.state = State::Between(due);
            }
            (Due::Separator, b'}') if self.open.last() == Some(&true) => self.closed(),
            (Due::Separator, b']') if self.open.last() == Some(&false) => self.closed(),
            _ => return Byte::Broken,
        }
        Byte::Taken
    }

    fn scalar(&mut self, byte: u8) -> Byte {
        self.state = match byte {
            b'"' => State::String { is_key: false },
            b't' => State::Word(b"rue"),
            b'f' => State::Word(b"alse"),
            b'n' => State::Word(b"ull"),
            b'-' => State::Number(Number::Minus),
            b'0' => State::Number(Number::Zero),
            b'1'..=b'9' => State::Number(Number::Integer),
            _ => return Byte::Broken,
        };
        Byte::Taken
    }

    fn opened(&mut self, is_object: bool) -> Byte {
        if self.open.len() == JSON_DEPTH_MAX {
            return Byte::Broken;
        }
        self.open.push(is_object);
        self.state = State::Between(match is_object {
            true => Due::FirstKey,
            false => Due::FirstElement,
        });
        Byte::Taken
    }

    fn closed(&mut self) {
        self.open.pop();
        self.value_ended();
    }

    fn string_ended(&mut self, is_key: bool) {
        match is_key {
            true => self.state = State::Between(Due::Colon),
            false => self.value_ended(),
        }
    }

    fn value_ended(&mut self) {
        self.state = State::Between(Due::Separator);
        self.ended = self.open.is_empty();
    }
}

/// Returns a control character in JSON notation.
fn escaped_control(byte: u8) -> String {
    match byte {
        b'\n' => "\\n".to_owned(),
        b'\r' => "\\r".to_owned(),
        b'\t' => "\\t".to_owned(),
        other => format!("\\u{other:04x}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::de::IgnoredAny;
    use serde_json::Value;

    use super::*;

    /// Scans a text character by character; returns the consumed part and the progress.
    fn read(text: &str) -> (String, Progress) {
        let (mut value, mut out) = (JsonScanner::default(), String::new());
        let mut progress = Progress::Inside;
        for at in 0..text.len() {
            let Some(character) = text.get(at..).and_then(|rest| rest.chars().next()) else {
                continue;
            };
            let (_, now) = value.read(character.encode_utf8(&mut [0; 4]), &mut out);
            progress = now;
            if now != Progress::Inside {
                break;
            }
        }
        (out, progress)
    }

    #[test]
    fn a_value_ends_where_it_ends() {
        for (text, value) in [
            (
                "{\"a\": [1, 2.5e-3, {}], \"b\\\"}\": null} }",
                "{\"a\": [1, 2.5e-3, {}], \"b\\\"}\": null}",
            ),
            ("\"}{\\u00e9é\" x", "\"}{\\u00e9é\""),
            ("-0.5,", "-0.5"),
            ("[]]", "[]"),
            (" true", " true"),
        ] {
            assert_eq!(read(text), (value.to_owned(), Progress::Ended), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_is_broken_at_once() {
        for text in [
            "{a",
            "{\"a\" 1",
            "{\"a\":,",
            "{\"a\":1,}",
            "[1,]",
            "[1}",
            "[01",
            "-x",
            "1.x",
            "tru ",
            "'a'",
            "\"\\x\"",
            "\"\\u12g\"",
            "}",
            "{,",
            "1e ",
            "{\"a\":1 \"b\"",
        ] {
            let (_, progress) = read(text);
            assert_eq!(progress, Progress::Broken, "{text}");
        }
        let deep = "[".repeat(JSON_DEPTH_MAX + 1);
        assert_eq!(read(&deep).1, Progress::Broken);
    }

    #[test]
    fn control_characters_in_strings_are_escaped() {
        let (out, progress) = read("{\n\"a\": \"x\ny\u{1}\"}");
        assert_eq!(progress, Progress::Ended);
        assert_eq!(out, "{\n\"a\": \"x\\ny\\u0001\"}");
    }

    #[test]
    fn an_object_is_sure_after_its_first_key() {
        for (text, sure) in [
            ("{", false),
            ("{\"a\"", false),
            ("{\"a\":", true),
            ("{}", true),
        ] {
            let mut value = JsonScanner::default();
            value.read(text, &mut String::new());
            assert_eq!(value.is_surely_object(), sure, "{text}");
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,5}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            let pairs = prop::collection::vec((".{0,3}", inner.clone()), 0..3);
            prop_oneof![
                prop::collection::vec(inner, 0..3).prop_map(Value::from),
                pairs.prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_is_json_is_read_to_its_end(value in json(), pretty: bool) {
            let text = match pretty {
                true => serde_json::to_string_pretty(&value).unwrap(),
                false => value.to_string(),
            };
            let (out, progress) = read(&format!("{text} "));
            prop_assert_eq!(progress, Progress::Ended);
            prop_assert_eq!(out.trim_end(), text);
        }

        #[test]
        fn what_is_read_is_json(text in "[\\[\\]{}\",:0-9a.e\\-\\\\u]{0,12}") {
            let (out, progress) = read(&format!("{text} "));
            let is_json = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
            match progress {
                Progress::Ended => prop_assert!(is_json(&out), "{}", out),
                _ => prop_assert!(!is_json(&text), "{}", text),
            }
        }
    }
}
