//! The terminals that a Lark grammar may import: Lark's library `common`.

use crate::grammar::GrammarError;

/// Terminals of Lark's library.
const COMMON: [(&str, &str); 25] = [
    ("DIGIT", "[0-9]"),
    ("HEXDIGIT", "[0-9A-Fa-f]"),
    ("INT", "[0-9]+"),
    ("SIGNED_INT", "[+-]?[0-9]+"),
    ("DECIMAL", r"[0-9]+\.[0-9]*|\.[0-9]+"),
    ("_EXP", "[eE][+-]?[0-9]+"),
    ("FLOAT", FLOAT),
    ("SIGNED_FLOAT", SIGNED_FLOAT),
    ("NUMBER", NUMBER),
    ("SIGNED_NUMBER", SIGNED_NUMBER),
    ("ESCAPED_STRING", r#""([^"\\]|\\.)*""#),
    ("LCASE_LETTER", "[a-z]"),
    ("UCASE_LETTER", "[A-Z]"),
    ("LETTER", "[A-Za-z]"),
    ("WORD", "[A-Za-z]+"),
    ("CNAME", "[A-Z_a-z][0-9A-Z_a-z]*"),
    ("WS_INLINE", r"[ \t]+"),
    ("WS", r"[ \t\f\r\n]+"),
    ("CR", r"\r"),
    ("LF", r"\n"),
    ("NEWLINE", r"(\r?\n)+"),
    ("SH_COMMENT", r"#[^\n]*"),
    ("CPP_COMMENT", r"//[^\n]*"),
    ("C_COMMENT", r"/\*[^*]*\*+([^/*][^*]*\*+)*/"),
    ("SQL_COMMENT", r"--[^\n]*"),
];

const FLOAT: &str = r"([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+";
const SIGNED_FLOAT: &str =
    r"[+-]?(([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)";
const NUMBER: &str = r"[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+";
const SIGNED_NUMBER: &str =
    r"[+-]?([0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)";

/// Parses the rest of a line after `%import`: `common.NAME`, optionally with `-> OTHER`, or `common
/// (NAME, NAME)`. Returns pairs of a name and its regular expression.
pub(crate) fn imports(line: &str) -> Result<Vec<(String, &'static str)>, GrammarError> {
    let code = ["//", "#"].iter().fold(line, |line, comment| {
        line.split(comment).next().unwrap_or_default()
    });
    let code = code.trim();
    if let Some((library, names)) = code.strip_suffix(')').and_then(|c| c.split_once('(')) {
        let names = names.split(',').map(str::trim);
        return names
            .map(|name| imported(library.trim(), name, name))
            .collect();
    }
    let (path, alias) = match code.split_once("->") {
        Some((path, alias)) => (path.trim(), Some(alias.trim())),
        None => (code, None),
    };
    let (library, name) = path.rsplit_once('.').unwrap_or((path, ""));
    Ok(vec![imported(library, name, alias.unwrap_or(name))?])
}

fn imported(
    library: &str,
    name: &str,
    alias: &str,
) -> Result<(String, &'static str), GrammarError> {
    let known = COMMON.iter().find(|(known, _)| *known == name);
    match known.filter(|_| library == "common") {
        Some((_, expression)) => Ok((alias.to_owned(), expression)),
        None => Err(GrammarError::whole(format!(
            "there is no `{library}.{name}`"
        ))),
    }
}
