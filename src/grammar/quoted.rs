//! Regular expressions → those of the same texts inside of a JSON text, where some characters are escaped.

use regex_syntax::{
    hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Repetition},
    parse,
};
use serde_json::Value;

use super::GrammarError;

/// What an expression says.
///
/// # Errors
/// When it is none.
pub(super) fn parsed(expression: &str) -> Result<Hir, GrammarError> {
    parse(expression).map_err(|error| {
        let text = error.to_string();
        let reason = text.lines().last().unwrap_or_default();
        let reason = reason.trim_start_matches("error: ");
        GrammarError::whole(format!(
            "`{expression}` is no expression that can be enforced: {reason}"
        ))
    })
}

/// The grammar of what an expression matches as a whole, as it is written inside of a JSON text.
///
/// # Errors
/// When it has what no grammar can have.
pub(super) fn grammar(expression: Hir) -> Result<String, GrammarError> {
    let expression = quoted(expression)?.to_string().replace('/', "\\/");
    Ok(format!("start: /{expression}/\n"))
}

/// Escapes what an expression matches.
fn quoted(expression: Hir) -> Result<Hir, GrammarError> {
    Ok(match expression.into_kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
            Ok(text) => Hir::literal(escaped(text).into_bytes()),
            Err(_) => {
                return Err(GrammarError::whole(
                    "an expression may match whole characters only",
                ));
            }
        },
        HirKind::Class(class) => quoted_class(class)?,
        HirKind::Look(_) => {
            return Err(GrammarError::whole(
                "an expression may not look around itself, as `^`, `$` and `\\b` do",
            ));
        }
        HirKind::Repetition(repetition) => Hir::repetition(Repetition {
            sub: Box::new(quoted(*repetition.sub)?),
            ..repetition
        }),
        HirKind::Capture(capture) => quoted(*capture.sub)?,
        HirKind::Concat(parts) => Hir::concat(all_quoted(parts)?),
        HirKind::Alternation(parts) => Hir::alternation(all_quoted(parts)?),
    })
}

fn all_quoted(parts: Vec<Hir>) -> Result<Vec<Hir>, GrammarError> {
    parts.into_iter().map(quoted).collect()
}

/// The characters of a class that are written as they are, or one of the escapes of the others.
fn quoted_class(class: Class) -> Result<Hir, GrammarError> {
    let class = match class {
        Class::Unicode(class) => Some(class),
        Class::Bytes(bytes) => bytes.to_unicode_class(),
    };
    let mut plain = class
        .ok_or_else(|| GrammarError::whole("an expression may match whole characters only"))?;
    let mut special = plain.clone();
    special.intersect(&special_characters());
    plain.difference(&special_characters());
    let mut ways: Vec<Hir> = Vec::new();
    if !plain.ranges().is_empty() {
        ways.push(Hir::class(Class::Unicode(plain)));
    }
    for range in special.ranges() {
        for character in range.start()..=range.end() {
            ways.push(Hir::literal(escaped(&character.to_string()).into_bytes()));
        }
    }
    Ok(match ways.is_empty() {
        true => Hir::fail(),
        false => Hir::alternation(ways),
    })
}

/// The characters that JSON escapes.
fn special_characters() -> ClassUnicode {
    ClassUnicode::new([
        ClassUnicodeRange::new('\0', '\u{1f}'),
        ClassUnicodeRange::new('"', '"'),
        ClassUnicodeRange::new('\\', '\\'),
    ])
}

/// A text as it is written inside of a JSON text.
fn escaped(text: &str) -> String {
    let json = Value::from(text).to_string();
    json[1..json.len() - 1].to_owned()
}
