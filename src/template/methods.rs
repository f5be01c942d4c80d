//! Python's methods on strings, lists and dictionaries, as far as chat templates use them.
//!
//! `minijinja-contrib` has most of them. This file adds those that it lacks, and those that differ in
//! white space, line ends, bounds or keyword arguments.

use std::ops::Range;

use minijinja::{
    Error, ErrorKind, State, Value,
    value::{Kwargs, ValueKind, from_args},
};
use minijinja_contrib::pycompat::unknown_method_callback;

/// Calls a method on a value that minijinja has no own method for.
pub(super) fn call(
    state: &mut State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let own = match (value.as_str(), value.kind()) {
        (Some(text), _) => string_method(text, method, args)?,
        (None, ValueKind::Seq | ValueKind::Iterable) => list_method(value, method, args)?,
        (None, ValueKind::Map) if method == "copy" => Some(value.clone()),
        _ => None,
    };
    match own {
        Some(result) => Ok(result),
        None => unknown_method_callback(state, value, method, args),
    }
}

/// Calls a string method that differs from `minijinja-contrib`'s.
fn string_method(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match method {
        "strip" | "lstrip" | "rstrip" => strip(text, method, args)?,
        "split" => split(text, args, false)?,
        "rsplit" => split(text, args, true)?,
        "splitlines" => splitlines(text, args)?,
        "startswith" | "endswith" if args.len() > 1 => {
            let within = bounds(text, &args[1..])?;
            return string_method_of_slice(&text[within], method, &args[..1]);
        }
        "find" | "rfind" | "index" | "rindex" => find(text, method, args)?,
        "removeprefix" | "removesuffix" => remove(text, method, args)?,
        "isspace" => (!text.is_empty() && text.chars().all(is_space)).into(),
        "join" => join(text, args)?,
        _ => return Ok(None),
    }))
}

/// `startswith` and `endswith` within bounds.
fn string_method_of_slice(
    text: &str,
    method: &str,
    args: &[Value],
) -> Result<Option<Value>, Error> {
    let wanted: Vec<Value> = match args {
        [one] if one.as_str().is_some() => vec![one.clone()],
        [several] => several.try_iter()?.collect(),
        _ => Vec::new(),
    };
    let found = wanted
        .iter()
        .filter_map(Value::as_str)
        .any(|affix| match method {
            "startswith" => text.starts_with(affix),
            _ => text.ends_with(affix),
        });
    Ok(Some(found.into()))
}

/// Python's `str.isspace` of a character: Unicode's white space and four separators of ASCII.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn strip(text: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    let (chars,): (Option<&str>,) = from_args(args)?;
    let goes = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    Ok(Value::from(match method {
        "lstrip" => text.trim_start_matches(goes),
        "rstrip" => text.trim_end_matches(goes),
        _ => text.trim_matches(goes),
    }))
}

/// `split(sep=None, maxsplit=-1)`, from the right for `rsplit`.
fn split(text: &str, args: &[Value], from_right: bool) -> Result<Value, Error> {
    let (separator, splits, kwargs): (Option<Value>, Option<i64>, Kwargs) = from_args(args)?;
    let separator = separator
        .or(kwargs.get("sep")?)
        .filter(|value| !value.is_none());
    let splits = splits
        .or(kwargs.get("maxsplit")?)
        .and_then(|splits| usize::try_from(splits).ok());
    kwargs.assert_all_used()?;
    let pieces = splits.map_or(usize::MAX, |splits| splits.saturating_add(1));
    let Some(separator) = separator else {
        return Ok(words(text, pieces, from_right).into_iter().collect());
    };
    let separator = separator
        .as_str()
        .ok_or_else(|| invalid("separator must be a string"))?;
    if separator.is_empty() {
        return Err(invalid("empty separator"));
    }
    if from_right {
        let mut parts: Vec<&str> = text.rsplitn(pieces, separator).collect();
        parts.reverse();
        return Ok(parts.into_iter().collect());
    }
    Ok(text.splitn(pieces, separator).collect())
}

/// At most `count` words; the last, or first from the right, keeps the white space within.
fn words(text: &str, count: usize, from_right: bool) -> Vec<&str> {
    let mut rest = text.trim_matches(is_space);
    if count == usize::MAX {
        return rest
            .split(is_space)
            .filter(|word| !word.is_empty())
            .collect();
    }
    // Only the outer end is trimmed where the count runs out.
    rest = if from_right {
        text.trim_end_matches(is_space)
    } else {
        text.trim_start_matches(is_space)
    };
    let mut found = Vec::new();
    while !rest.is_empty() {
        let cut = if found.len() + 1 == count {
            None
        } else if from_right {
            rest.rfind(is_space)
        } else {
            rest.find(is_space)
        };
        let Some(cut) = cut else {
            found.push(rest);
            break;
        };
        if from_right {
            let after = cut + rest[cut..].chars().next().map_or(0, char::len_utf8);
            found.push(&rest[after..]);
            rest = rest[..cut].trim_end_matches(is_space);
        } else {
            found.push(&rest[..cut]);
            rest = rest[cut..].trim_start_matches(is_space);
        }
    }
    if from_right {
        found.reverse();
    }
    found
}

/// Lines as `str.splitlines` sees them, each with its end.
pub(super) fn python_lines(text: &str) -> Vec<(&str, &str)> {
    let ends = [
        '\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}',
        '\u{2029}',
    ];
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(cut) = rest.find(ends) {
        let end = rest[cut..].chars().next().map_or(0, char::len_utf8);
        let end = if rest[cut..].starts_with("\r\n") {
            2
        } else {
            end
        };
        lines.push((&rest[..cut], &rest[cut..cut + end]));
        rest = &rest[cut + end..];
    }
    if !rest.is_empty() {
        lines.push((rest, ""));
    }
    lines
}

fn splitlines(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (keep, kwargs): (Option<bool>, Kwargs) = from_args(args)?;
    let keep = keep.or(kwargs.get("keepends")?).unwrap_or(false);
    kwargs.assert_all_used()?;
    let lines = python_lines(text).into_iter();
    Ok(lines
        .map(|(line, end)| {
            if keep {
                format!("{line}{end}")
            } else {
                line.to_owned()
            }
        })
        .collect())
}

fn find(text: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    let (wanted, rest) = args
        .split_first()
        .ok_or_else(|| invalid("missing argument"))?;
    let wanted = wanted.as_str().ok_or_else(|| invalid("must be a string"))?;
    let within = bounds(text, rest)?;
    let slice = &text[within.clone()];
    let found = if method.starts_with('r') {
        slice.rfind(wanted)
    } else {
        slice.find(wanted)
    };
    match found {
        Some(at) => Ok(text[..within.start + at].chars().count().into()),
        None if method.ends_with("find") => Ok(Value::from(-1)),
        None => Err(invalid("substring not found")),
    }
}

/// The bytes between two positions in characters, as a slice of Python takes them.
fn bounds(text: &str, args: &[Value]) -> Result<Range<usize>, Error> {
    let (start, end): (Option<i64>, Option<i64>) = from_args(args)?;
    let count = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let place = |position: i64| {
        let position = if position < 0 {
            position + count
        } else {
            position
        };
        let skipped = usize::try_from(position).unwrap_or(0);
        text.char_indices()
            .nth(skipped)
            .map_or(text.len(), |(at, _)| at)
    };
    let start = place(start.unwrap_or(0));
    Ok(start..place(end.unwrap_or(count)).max(start))
}

fn remove(text: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    let (affix,): (&str,) = from_args(args)?;
    let rest = match method {
        "removeprefix" => text.strip_prefix(affix),
        _ => text.strip_suffix(affix),
    };
    Ok(rest.unwrap_or(text).into())
}

fn join(separator: &str, args: &[Value]) -> Result<Value, Error> {
    let (values,): (&Value,) = from_args(args)?;
    let mut out = String::new();
    for (position, value) in values.try_iter()?.checked().enumerate() {
        let value = value?;
        let text = value
            .as_str()
            .ok_or_else(|| invalid("join takes strings only"))?;
        if position > 0 {
            out.push_str(separator);
        }
        out.push_str(text);
    }
    Ok(out.into())
}

/// Calls a list method that `minijinja-contrib` lacks.
fn list_method(list: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    match method {
        "copy" => Ok(Some(list.clone())),
        "index" => {
            let (wanted,): (&Value,) = from_args(args)?;
            let position = list.try_iter()?.position(|item| item == *wanted);
            position
                .map(|at| Some(at.into()))
                .ok_or_else(|| invalid("value is not in list"))
        }
        _ => Ok(None),
    }
}

fn invalid(detail: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, detail)
}
