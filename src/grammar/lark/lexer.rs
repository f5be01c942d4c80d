//! Tokens of the Lark notation.

use regex_syntax::hir::Hir;

use super::{
    std_terminals::imports,
    terminals::{range, range_end, slashed, text},
};
use crate::grammar::{
    GrammarError,
    lark::guard::{LarkToken, line},
};

/// A part of a grammar.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    Name(String),
    Terminal(Hir),
    Number(u32),
    Sign(char),
    /// `..`
    To,
    /// `->`
    Arrow,
    Line,
    Ignore,
    /// A terminal of Lark's library, under a name.
    Imported(String, &'static str),
}

impl Token {
    pub(crate) fn unexpected(self) -> GrammarError {
        GrammarError::whole(format!("{self:?} is not expected where it is"))
    }
}

/// The parts of a grammar, without its comments.
pub(crate) fn tokens(definition: &str) -> Result<Vec<Token>, GrammarError> {
    let mut tokens = Vec::new();
    let mut rest = definition;
    while let Some(part) = LarkToken::first(rest)? {
        let mut length = part.source().len();
        match part {
            LarkToken::Text(from) => match range_end(&rest[length..])? {
                Some((to, more)) => {
                    tokens.push(Token::Terminal(range(from, to)?));
                    length += more;
                }
                None => tokens.push(Token::Terminal(text(from)?)),
            },
            LarkToken::Expression(source) => tokens.push(Token::Terminal(slashed(source)?)),
            LarkToken::Comment(_) => {}
            LarkToken::Directive("%ignore") => tokens.push(Token::Ignore),
            LarkToken::Directive("%import") => {
                let line = line(rest);
                let imported = imports(&line["%import".len()..])?.into_iter();
                tokens.extend(imported.map(|(name, regex)| Token::Imported(name, regex)));
                length = line.len();
            }
            LarkToken::Directive(other) => {
                return Err(GrammarError::whole(format!("`{other}` is not taken")));
            }
            LarkToken::Other(_) => length = plain(rest, &mut tokens)?,
        }
        rest = &rest[length..];
    }
    Ok(tokens)
}

/// Reads a name, a number or a sign; returns how many bytes that took.
fn plain(rest: &str, tokens: &mut Vec<Token>) -> Result<usize, GrammarError> {
    let first = rest.chars().next().unwrap_or_default();
    let run = |belongs: fn(char) -> bool| rest.find(|c| !belongs(c)).unwrap_or(rest.len());
    let (token, length) = match first {
        ' ' | '\t' | '\r' => return Ok(1),
        '\n' => (Token::Line, 1),
        '0'..='9' => {
            let length = run(|c| c.is_ascii_digit());
            let number = rest[..length].parse();
            let number = number
                .map_err(|_| GrammarError::whole(format!("{} is too much", &rest[..length])))?;
            (Token::Number(number), length)
        }
        'a'..='z' | 'A'..='Z' | '_' => {
            let length = run(|c| c.is_ascii_alphanumeric() || c == '_');
            (Token::Name(rest[..length].to_owned()), length)
        }
        '.' if rest.starts_with("..") => (Token::To, 2),
        '-' if rest.starts_with("->") => (Token::Arrow, 2),
        ':' | '|' | '(' | ')' | '[' | ']' | '{' | '}' | ',' | '?' | '*' | '+' | '~' | '!' | '.' => {
            (Token::Sign(first), 1)
        }
        other => {
            return Err(GrammarError::whole(format!(
                "`{other}` has no place in an expression"
            )));
        }
    };
    // A line that starts with `|` continues the one before.
    while token == Token::Sign('|') && tokens.last() == Some(&Token::Line) {
        tokens.pop();
    }
    tokens.push(token);
    Ok(length)
}
