//! Strings between tags or markers: schema constraints, and rules.

use llguidance::regex_to_lark;
use serde_json::Value;

use crate::{
    grammar::{
        GrammarError,
        builder::GrammarBuilder,
        json::escape::{self, Writing},
    },
    output_parser::Texts,
};

/// Constraints of a schema on a string.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct StringBounds {
    pub(super) pattern: Option<String>,
    /// Characters at least.
    min: u32,
    /// Characters at most.
    max: Option<u32>,
}

impl StringBounds {
    /// Returns the constraints of a schema that admits only strings; `None` for other schemas.
    pub(super) fn of(property: &Value) -> Self {
        if property["type"] != "string" {
            return Self::default();
        }
        let count = |name: &str| {
            property[name]
                .as_u64()
                .and_then(|it| u32::try_from(it).ok())
        };
        Self {
            pattern: property["pattern"].as_str().map(str::to_owned),
            min: count("minLength").unwrap_or(0),
            max: count("maxLength"),
        }
    }

    /// Returns the terminal of such strings; `None` if any string is admitted.
    pub(super) fn terminal(&self) -> Result<Option<String>, GrammarError> {
        let mut terminals = Vec::new();
        if let Some(pattern) = &self.pattern {
            // In a schema's patterns these classes are of ASCII.
            let pattern = regex_to_lark(pattern, "dw");
            let found = escape::found(escape::parsed(&pattern)?);
            terminals.push(escape::source(found, Writing::Bare)?);
        }
        if self.min > 0 || self.max.is_some() {
            let max = self.max.map(|max| max.to_string()).unwrap_or_default();
            terminals.push(format!("/(?s:.){{{},{max}}}/", self.min));
        }
        Ok((!terminals.is_empty()).then(|| terminals.join(" & ")))
    }
}

/// Returns the strings that a property may be, if it lists them.
pub(super) fn texts(property: &Value) -> Option<Vec<String>> {
    let listed = match (property.get("enum"), property.get("const")) {
        (Some(Value::Array(listed)), None) => listed.as_slice(),
        (None, Some(only)) => std::slice::from_ref(only),
        _ => return None,
    };
    let text = |value: &Value| Some(value.as_str()?.to_owned());
    listed.iter().map(text).collect()
}

/// Any text, in rule notation.
const ANY: &str = "/(?s:.*)/";

/// Text that needs no escaping in XML.
const PLAIN: &str = "/[^<&\\n]*/";

/// A text as it is written.
pub(super) fn written(text: &str, texts: Texts) -> String {
    let [open, close] = Texts::CDATA;
    match texts {
        Texts::Cdata if text.contains(['<', '&', '\n']) => {
            Value::from([open, text, close].concat()).to_string()
        }
        _ => Value::from(text).to_string(),
    }
}

/// Returns the rule of a string and the text behind it; `form` is the string's terminal, `None` for
/// any.
pub(super) fn text(
    form: Option<&str>,
    texts: Texts,
    after: &str,
    rules: &mut GrammarBuilder<'_>,
) -> String {
    match form {
        Some(form) => ended(form, texts, after, rules),
        None if texts == Texts::Cdata => ended(ANY, texts, after, rules),
        None => any_text(after, rules),
    }
}

fn ended(form: &str, texts: Texts, after: &str, rules: &mut GrammarBuilder<'_>) -> String {
    let [open, close] = Texts::CDATA.map(|text| Value::from(text).to_string());
    let text = match texts {
        Texts::Cdata => format!(
            "((({form}) & {PLAIN}) | {open} {} {close})",
            without(form, &close)
        ),
        _ => format!("({form})"),
    };
    // String and end marker may overlap, so they are one terminal. Control tokens never overlap
    // with text.
    match rules.has_control(after) {
        true => {
            let rest = after.trim_start();
            let lead = Value::from(&after[..after.len() - rest.len()]);
            let text = rules.add("FORMED", &format!("{text} {lead}"));
            format!("{text} {}", rules.literal(rest))
        }
        false => {
            let text = without(&text, &Value::from(after.trim()).to_string());
            rules.add("FORMED", &format!("{text} {}", Value::from(after)))
        }
    }
}

/// Returns a terminal that excludes texts which contain `text`.
fn without(terminal: &str, text: &str) -> String {
    format!("(({terminal}) & ~({ANY} {text} {ANY}))")
}

fn any_text(after: &str, rules: &mut GrammarBuilder<'_>) -> String {
    // A control token ends a string. Other end markers are searched for.
    match rules.has_control(after) {
        true => {
            let text = rules.text();
            format!("{text}? {}", rules.literal(after.trim_start()))
        }
        false => {
            let name = rules.unused("text");
            let suffix = Value::from(after);
            rules.add_lines(&format!("{name}[suffix={suffix}]: {ANY}\n"));
            name
        }
    }
}
