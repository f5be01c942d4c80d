//! Literals of Python and Gemma, read as they come and written as JSON.

use std::mem;

use serde_json::{Number, Value};

use super::{
    json::Progress,
    marker::{Begins, Found, begins, first_of},
};
use crate::limits::JSON_DEPTH_MAX;

/// Longest number or key without quotes.
const WORD_BYTES_MAX: usize = 512;

/// Quoting of strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quotes {
    /// `'…'` or `"…"`, with escapes; keys are quoted.
    Python,
    /// Between two of this marker, without escapes; keys are bare.
    Marker(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Value,
    /// A value, or the end of what is open.
    ValueOrEnd,
    KeyOrEnd,
    Colon,
    Separator,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Between(Due),
    /// In a text that ends with this quote.
    Text {
        quote: &'static str,
        is_key: bool,
    },
    Word {
        is_key: bool,
    },
}

/// Reads one literal.
#[derive(Debug)]
pub(crate) struct PythonLiteral {
    quotes: Quotes,
    state: State,
    /// The closing characters of open containers.
    open: Vec<char>,
    /// True if a comma was read that is not written.
    comma: bool,
    ended: bool,
}

/// The result of one reading step: bytes read, or the reason why none were.
enum Took {
    Bytes(usize),
    NeedsMore,
    Broken,
}

impl PythonLiteral {
    pub(crate) fn new(quotes: Quotes) -> Self {
        Self {
            quotes,
            state: State::Between(Due::Value),
            open: Vec::new(),
            comma: false,
            ended: false,
        }
    }

    /// A whole text as JSON, if it is a literal.
    pub(crate) fn whole(text: &str, quotes: Quotes) -> Option<String> {
        let mut json = String::new();
        // The line end shows that a word is whole.
        let text = format!("{text}\n");
        let (read, progress) = Self::new(quotes).read(&text, &mut json);
        (progress == Progress::Ended && text[read..].trim().is_empty()).then_some(json)
    }

    /// Reads the part of `text` that belongs to the literal and writes it as JSON to `out`. Returns
    /// the number of bytes read. After [`Progress::Inside`] the unread rest must be passed again,
    /// with what follows.
    pub(crate) fn read(&mut self, text: &str, out: &mut String) -> (usize, Progress) {
        let mut at = 0;
        loop {
            if self.ended {
                return (at, Progress::Ended);
            }
            match self.step(&text[at..], out) {
                Took::Bytes(bytes) => at += bytes,
                Took::NeedsMore => return (at, Progress::Inside),
                Took::Broken => return (at, Progress::Broken),
            }
        }
    }

    /// Returns the visible part of unread text at the end of an answer that is cut inside a number.
    pub(crate) fn cut<'a>(&self, rest: &'a str) -> &'a str {
        match self.state {
            State::Word { is_key: false } => rest,
            _ => "",
        }
    }

    fn step(&mut self, rest: &str, out: &mut String) -> Took {
        let Some(next) = rest.chars().next() else {
            return Took::NeedsMore;
        };
        match self.state {
            State::Between(_) if next.is_whitespace() => Took::Bytes(next.len_utf8()),
            State::Between(due) => self.between(due, rest, next, out),
            State::Text { quote, is_key } => match self.quotes {
                Quotes::Python => self.escaped_text(rest, next, quote, is_key, out),
                Quotes::Marker(_) => self.plain_text(rest, quote, is_key, out),
            },
            State::Word { is_key } => self.word(rest, is_key, out),
        }
    }

    /// Reads a word once it is complete.
    fn word(&mut self, rest: &str, is_key: bool, out: &mut String) -> Took {
        let ends = |c: char| match is_key {
            true => c == ':',
            false => !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_')),
        };
        match rest.find(ends) {
            Some(length) if self.word_ends(&rest[..length], is_key, out) => Took::Bytes(length),
            None if rest.len() <= WORD_BYTES_MAX => Took::NeedsMore,
            _ => Took::Broken,
        }
    }

    fn between(&mut self, due: Due, rest: &str, next: char, out: &mut String) -> Took {
        let closes = self.open.last() == Some(&next);
        match due {
            Due::ValueOrEnd | Due::KeyOrEnd | Due::Separator if closes => self.close(out),
            Due::Separator if next == ',' => {
                let in_object = self.open.last() == Some(&'}');
                // A comma may stand before the end.
                self.state = State::Between(match in_object {
                    true => Due::KeyOrEnd,
                    false => Due::ValueOrEnd,
                });
                self.comma = true;
            }
            Due::Colon if next == ':' => {
                out.push_str(": ");
                self.state = State::Between(Due::Value);
            }
            Due::Value | Due::ValueOrEnd => return self.value(rest, next, out),
            Due::KeyOrEnd => return self.scalar(rest, true, out),
            Due::Colon | Due::Separator => return Took::Broken,
        }
        Took::Bytes(next.len_utf8())
    }

    /// Writes the comma before a value or key.
    fn comma(&mut self, out: &mut String) {
        if mem::take(&mut self.comma) {
            out.push_str(", ");
        }
    }

    fn value(&mut self, rest: &str, next: char, out: &mut String) -> Took {
        let close = match next {
            '[' => ']',
            '(' if self.quotes == Quotes::Python => ')',
            '{' => '}',
            _ => return self.scalar(rest, false, out),
        };
        if self.open.len() == JSON_DEPTH_MAX {
            return Took::Broken;
        }
        self.comma(out);
        self.open.push(close);
        out.push(if close == '}' { '{' } else { '[' });
        self.state = State::Between(match close {
            '}' => Due::KeyOrEnd,
            _ => Due::ValueOrEnd,
        });
        Took::Bytes(1)
    }

    fn scalar(&mut self, rest: &str, is_key: bool, out: &mut String) -> Took {
        let quotes: &[&'static str] = match self.quotes {
            Quotes::Python => &["'", "\""],
            Quotes::Marker(marker) => &[marker],
        };
        for quote in quotes.iter().copied() {
            match begins(rest, quote) {
                Begins::Yes => {
                    self.comma(out);
                    out.push('"');
                    self.state = State::Text { quote, is_key };
                    return Took::Bytes(quote.len());
                }
                Begins::Maybe => return Took::NeedsMore,
                Begins::No => {}
            }
        }
        let first = rest.chars().next().unwrap_or(' ');
        let begins_word = match (is_key, self.quotes) {
            (true, Quotes::Marker(_)) => first != ':',
            (true, Quotes::Python) => first.is_ascii_digit(),
            (false, _) => first.is_ascii_alphanumeric() || matches!(first, '-' | '+' | '.'),
        };
        if !begins_word {
            return Took::Broken;
        }
        self.comma(out);
        self.state = State::Word { is_key };
        Took::Bytes(0)
    }

    /// A text without escapes.
    fn plain_text(&mut self, rest: &str, quote: &str, is_key: bool, out: &mut String) -> Took {
        let (length, ends) = match first_of(rest, &[quote]) {
            Found::At { start, .. } => (start, true),
            Found::No { certain } => (certain, false),
        };
        push_escaped(&rest[..length], out);
        if ends {
            self.text_ends(is_key, out);
            return Took::Bytes(length + quote.len());
        }
        match length {
            0 => Took::NeedsMore,
            length => Took::Bytes(length),
        }
    }

    /// A text with Python's escapes.
    fn escaped_text(
        &mut self,
        rest: &str,
        next: char,
        quote: &str,
        is_key: bool,
        out: &mut String,
    ) -> Took {
        if rest.starts_with(quote) {
            self.text_ends(is_key, out);
            return Took::Bytes(quote.len());
        }
        if next != '\\' {
            push_escaped(&rest[..next.len_utf8()], out);
            return Took::Bytes(next.len_utf8());
        }
        let Some(escaped) = rest[1..].chars().next() else {
            return Took::NeedsMore;
        };
        let digits = match escaped {
            'x' => 2,
            'u' => 4,
            _ => 0,
        };
        if digits > 0 {
            let Some(code) = rest.get(2..2 + digits) else {
                return match rest.len() < 2 + digits {
                    true => Took::NeedsMore,
                    false => Took::Broken,
                };
            };
            if !code.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Took::Broken;
            }
            out.push_str(&format!("\\u{code:0>4}"));
            return Took::Bytes(2 + digits);
        }
        match escaped {
            'n' | 't' | 'r' | 'b' | 'f' | '\\' | '"' => out.extend(['\\', escaped]),
            '\'' => out.push('\''),
            '\n' => {}
            other => {
                out.push_str("\\\\");
                push_escaped(other.encode_utf8(&mut [0; 4]), out);
            }
        }
        Took::Bytes(1 + escaped.len_utf8())
    }

    fn text_ends(&mut self, is_key: bool, out: &mut String) {
        out.push('"');
        match is_key {
            true => self.state = State::Between(Due::Colon),
            false => self.value_ends(),
        }
    }

    /// Writes a word as JSON; false if it is no valid literal.
    fn word_ends(&mut self, word: &str, is_key: bool, out: &mut String) -> bool {
        if is_key {
            out.push_str(&Value::from(word.trim()).to_string());
            self.state = State::Between(Due::Colon);
            return true;
        }
        match word {
            "True" | "true" => out.push_str("true"),
            "False" | "false" => out.push_str("false"),
            "None" | "null" | "none" => out.push_str("null"),
            number => match json_number(number) {
                Some(number) => out.push_str(&number),
                None => return false,
            },
        }
        self.value_ends();
        true
    }

    fn close(&mut self, out: &mut String) {
        // A comma before the end says nothing.
        self.comma = false;
        let closed = self.open.pop();
        out.push(if closed == Some('}') { '}' } else { ']' });
        self.value_ends();
    }

    fn value_ends(&mut self) {
        self.state = State::Between(Due::Separator);
        self.ended = self.open.is_empty();
    }
}

/// Returns a number in JSON notation, digit for digit if possible.
fn json_number(text: &str) -> Option<String> {
    if serde_json::from_str::<Number>(text).is_ok() {
        return Some(text.to_owned());
    }
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    let number = text.parse::<f64>().ok().filter(|_| has_digit)?;
    Number::from_f64(number).map(|number| number.to_string())
}

/// Adds text as it stands inside a text of JSON.
pub(crate) fn push_escaped(text: &str, out: &mut String) {
    let quoted = Value::from(text).to_string();
    out.push_str(&quoted[1..quoted.len() - 1]);
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEMMA: Quotes = Quotes::Marker("<|\"|>");

    /// Returns a literal as JSON, read character by character.
    fn characters(text: &str, quotes: Quotes) -> Option<String> {
        let (mut literal, mut out, mut held) =
            (PythonLiteral::new(quotes), String::new(), String::new());
        for character in format!("{text}\n").chars() {
            held.push(character);
            let (read, progress) = literal.read(&held, &mut out);
            held.drain(..read);
            match progress {
                Progress::Broken => return None,
                Progress::Ended => return Some(out),
                Progress::Inside => {}
            }
        }
        None
    }

    #[test]
    fn literals_become_json() {
        for (quotes, text, json) in [
            (
                Quotes::Python,
                "'a\"\\'\\n\\x41\\u00e9é\\d'",
                "\"a\\\"'\\n\\u0041\\u00e9é\\\\d\"",
            ),
            (Quotes::Python, "\"it's\"", "\"it's\""),
            (
                Quotes::Python,
                "{'a': [1, -2.5e3, True,], \"b\": (None,)}",
                "{\"a\": [1, -2.5e3, true], \"b\": [null]}",
            ),
            (Quotes::Python, "{}", "{}"),
            (Quotes::Python, "{1: .5}", "{\"1\": 0.5}"),
            (Quotes::Python, "[true, null]", "[true, null]"),
            (
                GEMMA,
                "{a_b:<|\"|>x\"\n<|<|\"|>,n:3,l:[<|\"|><|\"|>],o:{k:true}}",
                "{\"a_b\": \"x\\\"\\n<|\", \"n\": 3, \"l\": [\"\"], \"o\": {\"k\": true}}",
            ),
            (GEMMA, "{<|\"|>k<|\"|>:1}", "{\"k\": 1}"),
        ] {
            assert_eq!(
                PythonLiteral::whole(text, quotes).as_deref(),
                Some(json),
                "{text}"
            );
            assert_eq!(characters(text, quotes).as_deref(), Some(json), "{text}");
        }
    }

    #[test]
    fn what_is_no_literal_is_broken() {
        for text in [
            "a", "{a: 1}", "[1 2]", "{'a' 1}", "[1}", "f(1)", "'\\xzz'", "{1}", "-", ",",
        ] {
            assert_eq!(PythonLiteral::whole(text, Quotes::Python), None, "{text}");
            assert_eq!(characters(text, Quotes::Python), None, "{text}");
        }
    }
}
