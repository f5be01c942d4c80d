//! The rules of a Lark grammar, as they are written.

use std::{collections::HashMap, iter::Peekable, vec};

use regex_syntax::hir::Hir;

use super::{
    DEPTH_MAX,
    lexer::{Token, tokens},
};
use crate::grammar::{GrammarError, json::escape::parsed};

/// The right side of a rule.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    Terminal(Hir),
    Name(String),
    AllOf(Vec<Node>),
    AnyOf(Vec<Node>),
    Repeated(Box<Node>, u32, Option<u32>),
}

/// A parsed grammar.
#[derive(Debug, Default)]
pub(crate) struct LarkRules {
    pub(crate) by_name: HashMap<String, Node>,
    pub(crate) ignored: Vec<Node>,
}

impl LarkRules {
    /// Parses a grammar.
    ///
    /// # Errors
    /// If it is invalid, or has elements that no regular expression has.
    pub(crate) fn parse(definition: &str) -> Result<Self, GrammarError> {
        let mut rules = Self::default();
        let mut parser = Parser(tokens(definition)?.into_iter().peekable());
        while let Some(token) = parser.0.next() {
            match token {
                Token::Line | Token::Sign('!' | '?') => continue,
                Token::Ignore => {
                    let ignored = parser.choices(DEPTH_MAX)?;
                    rules.ignored.push(ignored);
                }
                Token::Imported(name, expression) => {
                    let terminal = Node::Terminal(parsed(expression)?);
                    rules.by_name.insert(name, terminal);
                }
                Token::Name(name) => {
                    // A priority decides between terminals that both fit; here either does.
                    if parser.takes(&Token::Sign('.')) {
                        parser.number()?;
                    }
                    parser.expect(':')?;
                    let node = parser.choices(DEPTH_MAX)?;
                    if rules.by_name.insert(name.clone(), node).is_some() {
                        return Err(GrammarError::whole(format!("`{name}` is there twice")));
                    }
                }
                other => return Err(other.unexpected()),
            }
            let ends = |next: &Token| matches!(next, Token::Line | Token::Imported(..));
            if let Some(next) = parser.0.next_if(|next| !ends(next)) {
                return Err(next.unexpected());
            }
        }
        Ok(rules)
    }
}

struct Parser(Peekable<vec::IntoIter<Token>>);

impl Parser {
    fn takes(&mut self, token: &Token) -> bool {
        self.0.next_if_eq(token).is_some()
    }

    fn expect(&mut self, sign: char) -> Result<(), GrammarError> {
        match self.takes(&Token::Sign(sign)) {
            true => Ok(()),
            false => Err(GrammarError::whole(format!("`{sign}` is missing"))),
        }
    }

    fn number(&mut self) -> Result<u32, GrammarError> {
        match self.0.next() {
            Some(Token::Number(number)) => Ok(number),
            _ => Err(GrammarError::whole("a number is missing")),
        }
    }

    fn choices(&mut self, depth: usize) -> Result<Node, GrammarError> {
        let mut choices = vec![self.sequence(depth)?];
        while self.takes(&Token::Sign('|')) {
            choices.push(self.sequence(depth)?);
        }
        Ok(Node::AnyOf(choices))
    }

    fn sequence(&mut self, depth: usize) -> Result<Node, GrammarError> {
        let mut parts = Vec::new();
        while let Some(part) = self.part(depth)? {
            parts.push(part);
        }
        if self.takes(&Token::Arrow) && !matches!(self.0.next(), Some(Token::Name(_))) {
            return Err(GrammarError::whole("a name is missing"));
        }
        Ok(Node::AllOf(parts))
    }

    fn part(&mut self, depth: usize) -> Result<Option<Node>, GrammarError> {
        let depth = depth.checked_sub(1);
        let depth = depth.ok_or_else(|| GrammarError::whole("the grammar is too deep"))?;
        let starts = |token: &Token| {
            matches!(
                token,
                Token::Name(_) | Token::Terminal(_) | Token::Sign('(' | '[')
            )
        };
        let node = match self.0.next_if(starts) {
            None => return Ok(None),
            Some(Token::Name(name)) => Node::Name(name),
            Some(Token::Terminal(hir)) => Node::Terminal(hir),
            Some(Token::Sign('(')) => {
                let inner = self.choices(depth)?;
                self.expect(')')?;
                inner
            }
            Some(_) => {
                let inner = self.choices(depth)?;
                self.expect(']')?;
                Node::Repeated(Box::new(inner), 0, Some(1))
            }
        };
        let (min, max) = if self.takes(&Token::Sign('?')) {
            (0, Some(1))
        } else if self.takes(&Token::Sign('*')) {
            (0, None)
        } else if self.takes(&Token::Sign('+')) {
            (1, None)
        } else if self.takes(&Token::Sign('~')) {
            let (min, max) = self.bounds()?;
            (min, Some(max))
        } else if self.takes(&Token::Sign('{')) {
            self.braced_bounds()?
        } else {
            return Ok(Some(node));
        };
        Ok(Some(Node::Repeated(Box::new(node), min, max)))
    }

    /// `3`, or `3..5`.
    fn bounds(&mut self) -> Result<(u32, u32), GrammarError> {
        let min = self.number()?;
        let max = match self.takes(&Token::To) {
            true => self.number()?,
            false => min,
        };
        in_order(min, max)?;
        Ok((min, max))
    }

    /// `3}`, `3,}`, `,5}` or `3,5}`.
    fn braced_bounds(&mut self) -> Result<(u32, Option<u32>), GrammarError> {
        let is_number = |token: &Token| matches!(token, Token::Number(_));
        let min = match self.0.peek() {
            Some(next) if is_number(next) => self.number()?,
            _ => 0,
        };
        let max = match self.takes(&Token::Sign(',')) {
            true if self.0.peek().is_some_and(is_number) => Some(self.number()?),
            true => None,
            false => Some(min),
        };
        self.expect('}')?;
        in_order(min, max.unwrap_or(min))?;
        Ok((min, max))
    }
}

fn in_order(min: u32, max: u32) -> Result<(), GrammarError> {
    match min <= max {
        true => Ok(()),
        false => Err(GrammarError::whole(format!("{min}..{max} is no range"))),
    }
}
