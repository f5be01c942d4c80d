//! What a Lark grammar is written with.

use regex_syntax::hir::Hir;

use super::{
    library::imports,
    refused,
    terminals::{range, range_end, slashed, text},
};
use crate::grammar::{GrammarError, lark::Part};

/// A part of a grammar.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
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
    pub(super) fn unexpected(self) -> GrammarError {
        refused(format!("{self:?} is not expected where it is"))
    }
}

/// The parts of a grammar, without its comments.
pub(super) fn tokens(definition: &str) -> Result<Vec<Token>, GrammarError> {
    let mut tokens = Vec::new();
    let mut rest = definition;
    while let Some(part) = Part::first(rest)? {
        let mut length = part.source().len();
        match part {
            Part::Text(from) => match range_end(&rest[length..])? {
                Some((to, more)) => {
                    tokens.push(Token::Terminal(range(from, to)?));
                    length += more;
                }
                None => tokens.push(Token::Terminal(text(from)?)),
            },
            Part::Expression(source) => tokens.push(Token::Terminal(slashed(source)?)),
            Part::Comment(_) => {}
            Part::Directive("%ignore") => tokens.push(Token::Ignore),
            Part::Directive("%import") => {
                let line = rest.split('\n').next().unwrap_or_default();
                tokens.extend(imports(&line["%import".len()..])?);
                length = line.len();
            }
            Part::Directive(other) => return Err(refused(format!("`{other}` is not taken"))),
            Part::Other(_) => length = plain(rest, &mut tokens)?,
        }
        rest = &rest[length..];
    }
    // A line that begins with `|` goes on with the one before.
    let is_bar = |token: Option<&Token>| token == Some(&Token::Sign('|'));
    let goes_on: Vec<bool> = (0..tokens.len())
        .map(|at| {
            let next = tokens[at..].iter().find(|token| **token != Token::Line);
            tokens[at] == Token::Line && is_bar(next)
        })
        .collect();
    let mut goes_on = goes_on.into_iter();
    tokens.retain(|_| !goes_on.next().unwrap_or_default());
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
            let number = number.map_err(|_| refused(format!("{} is too much", &rest[..length])))?;
            (Token::Number(number), length)
        }
        'a'..='z' | 'A'..='Z' | '_' => {
            let length = run(|c| c.is_ascii_alphanumeric() || c == '_');
            (Token::Name(rest[..length].to_owned()), length)
        }
        '.' if rest.starts_with("..") => (Token::To, 2),
        '-' if rest.starts_with("->") => (Token::Arrow, 2),
        ':' | '|' | '(' | ')' | '[' | ']' | '?' | '*' | '+' | '~' | '!' | '.' => {
            (Token::Sign(first), 1)
        }
        other => return Err(refused(format!("`{other}` has no place in an expression"))),
    };
    tokens.push(token);
    Ok(length)
}
