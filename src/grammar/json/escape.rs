//! Regular expressions → those of the same texts as they are written: inside of a JSON text some characters are
//! escaped.

use regex_syntax::{
    hir::{Class, ClassUnicode, ClassUnicodeRange, Dot, Hir, HirKind, Look, Repetition},
    parse,
};
use serde_json::Value;

use super::super::GrammarError;

/// Parses a regular expression.
///
/// # Errors
/// If it is invalid.
pub(crate) fn parsed(expression: &str) -> Result<Hir, GrammarError> {
    parse(expression).map_err(|error| {
        let text = error.to_string();
        let reason = text.lines().last().unwrap_or_default();
        let reason = reason.trim_start_matches("error: ");
        GrammarError::whole(format!(
            "`{expression}` is no expression that can be enforced: {reason}"
        ))
    })
}

/// Notation of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writing {
    /// As it is.
    Bare,
    /// As inside of a JSON text.
    Json,
}

/// Returns a regular expression that matches the same texts in a notation.
///
/// # Errors
/// If the expression has elements that no grammar supports.
pub(crate) fn source(expression: Hir, writing: Writing) -> Result<String, GrammarError> {
    let quoted = quoted(expression.clone())?;
    let expression = match writing {
        Writing::Bare => expression,
        Writing::Json => quoted,
    };
    let source = expression.to_string().replace('/', "\\/");
    let source = source.replace('\n', "\\n").replace('\r', "\\r");
    Ok(format!("/{source}/"))
}

/// Turns a search into a match of the whole text, as a schema's `pattern` means it: any text may
/// surround the match, except at `^` and `$`.
pub(crate) fn found(expression: Hir) -> Hir {
    let mut parts = match expression.into_kind() {
        HirKind::Alternation(parts) => {
            return Hir::alternation(parts.into_iter().map(found).collect());
        }
        HirKind::Capture(capture) => return found(*capture.sub),
        HirKind::Concat(parts) => parts,
        HirKind::Empty => Vec::new(),
        HirKind::Literal(literal) => vec![Hir::literal(literal.0)],
        HirKind::Class(class) => vec![Hir::class(class)],
        HirKind::Look(look) => vec![Hir::look(look)],
        HirKind::Repetition(repetition) => vec![Hir::repetition(repetition)],
    };
    let is = |part: Option<&Hir>, wanted: Look| matches!(part.map(Hir::kind), Some(HirKind::Look(look)) if *look == wanted);
    let any = || {
        Hir::repetition(Repetition {
            min: 0,
            max: None,
            greedy: true,
            sub: Box::new(Hir::dot(Dot::AnyChar)),
        })
    };
    match is(parts.first(), Look::Start) {
        true => drop(parts.remove(0)),
        false => parts.insert(0, any()),
    }
    match is(parts.last(), Look::End) {
        true => drop(parts.pop()),
        false => parts.push(any()),
    }
    Hir::concat(parts)
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

/// Returns the characters of a class in JSON notation: those written as they are, and the escapes
/// of the others.
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
