//! Lark grammars in which no rule needs itself → regular expressions of the same texts.

use std::{collections::HashMap, iter::Peekable, vec};

use regex_syntax::{
    escape,
    hir::{Hir, Repetition},
};

use super::{GrammarError, lark::Part, quoted::parsed};

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

/// Groups within groups, and rules within rules, at most.
const DEPTH_MAX: usize = 100;

/// Terminals of the expression, with those that are repeated by being used again.
const TERMINALS_MAX: usize = 5_000;

/// The expression of all texts that a grammar admits. Where Lark would take as much as it can for a
/// terminal, it may take less.
///
/// # Errors
/// When a rule needs itself, the expression would be too long, or the grammar has something that no
/// expression has, or is none.
pub(super) fn expression(definition: &str) -> Result<Hir, GrammarError> {
    let mut grammar = Grammar::parse(definition)?;
    let ignored = Expression::any_of(
        std::mem::take(&mut grammar.ignored)
            .iter()
            .map(|node| grammar.expand(node, false, DEPTH_MAX))
            .collect::<Result<_, _>>()?,
    )?;
    grammar.between = ignored.map(|ignored| ignored.repeated(0, None));
    let start = grammar.named("start", DEPTH_MAX)?;
    let before = grammar.between.iter().cloned();
    Ok(Expression::all_of(before.chain([start]).collect())?.hir)
}

fn refused(reason: impl Into<String>) -> GrammarError {
    GrammarError::whole(reason)
}

/// What stands on the right of a rule.
#[derive(Debug, Clone)]
enum Node {
    Terminal(Hir),
    Name(String),
    AllOf(Vec<Node>),
    AnyOf(Vec<Node>),
    Repeated(Box<Node>, u32, Option<u32>),
}

#[derive(Debug, Clone)]
struct Expression {
    hir: Hir,
    terminals: usize,
}

impl Expression {
    fn all_of(parts: Vec<Self>) -> Result<Self, GrammarError> {
        Self::of(parts, Hir::concat)
    }

    /// Nothing, where there are none to choose from.
    fn any_of(parts: Vec<Self>) -> Result<Option<Self>, GrammarError> {
        match parts.is_empty() {
            true => Ok(None),
            false => Self::of(parts, Hir::alternation).map(Some),
        }
    }

    fn of(parts: Vec<Self>, join: fn(Vec<Hir>) -> Hir) -> Result<Self, GrammarError> {
        let terminals = parts.iter().map(|part| part.terminals).sum();
        if terminals > TERMINALS_MAX {
            return Err(refused("the grammar is too large for one expression"));
        }
        let hirs = parts.into_iter().map(|part| part.hir);
        Ok(Self {
            hir: join(hirs.collect()),
            terminals,
        })
    }

    fn repeated(self, min: u32, max: Option<u32>) -> Self {
        let repetition = Repetition {
            min,
            max,
            greedy: true,
            sub: Box::new(self.hir),
        };
        Self {
            hir: Hir::repetition(repetition),
            ..self
        }
    }
}

#[derive(Debug, Default)]
struct Grammar {
    rules: HashMap<String, Node>,
    ignored: Vec<Node>,
    /// What may stand between terminals.
    between: Option<Expression>,
    /// Rules that are expanded; `None` while they are.
    expanded: HashMap<String, Option<Expression>>,
}

impl Grammar {
    /// The expression of a rule or of a terminal.
    fn named(&mut self, name: &str, depth: usize) -> Result<Expression, GrammarError> {
        match self.expanded.get(name) {
            Some(Some(done)) => return Ok(done.clone()),
            Some(None) => return Err(refused(format!("`{name}` needs itself"))),
            None => {}
        }
        let node = self.rules.get(name).cloned();
        let node = node.ok_or_else(|| refused(format!("there is no `{name}`")))?;
        self.expanded.insert(name.to_owned(), None);
        let expression = self.expand(&node, !is_terminal(name), depth)?;
        self.expanded
            .insert(name.to_owned(), Some(expression.clone()));
        Ok(expression)
    }

    /// The expression of what stands in a rule, where something may stand between terminals, or in the
    /// definition of a terminal.
    fn expand(
        &mut self,
        node: &Node,
        in_rule: bool,
        depth: usize,
    ) -> Result<Expression, GrammarError> {
        let depth = depth.checked_sub(1);
        let depth = depth.ok_or_else(|| refused("the grammar is too deep"))?;
        let all = |grammar: &mut Self, nodes: &[Node]| {
            let parts = nodes.iter();
            let parts = parts.map(|part| grammar.expand(part, in_rule, depth));
            parts.collect::<Result<Vec<_>, _>>()
        };
        match node {
            Node::Terminal(hir) => {
                let terminal = Expression {
                    hir: hir.clone(),
                    terminals: 1,
                };
                self.followed(terminal, in_rule)
            }
            Node::Name(name) => {
                let named = self.named(name, depth)?;
                self.followed(named, in_rule && is_terminal(name))
            }
            Node::AllOf(nodes) => Expression::all_of(all(self, nodes)?),
            Node::AnyOf(nodes) => {
                let any = Expression::any_of(all(self, nodes)?)?;
                any.ok_or_else(|| refused("there is nothing to choose from"))
            }
            Node::Repeated(node, min, max) => {
                Ok(self.expand(node, in_rule, depth)?.repeated(*min, *max))
            }
        }
    }

    fn followed(&self, terminal: Expression, in_rule: bool) -> Result<Expression, GrammarError> {
        match &self.between {
            Some(between) if in_rule => Expression::all_of(vec![terminal, between.clone()]),
            _ => Ok(terminal),
        }
    }

    fn parse(definition: &str) -> Result<Self, GrammarError> {
        let mut grammar = Self::default();
        let mut parser = Parser(tokens(definition)?.into_iter().peekable());
        while let Some(token) = parser.0.next() {
            match token {
                Token::Line | Token::Sign('!' | '?') => continue,
                Token::Ignore => {
                    let ignored = parser.choices(DEPTH_MAX)?;
                    grammar.ignored.push(ignored);
                }
                Token::Imported(name, expression) => {
                    let terminal = Node::Terminal(parsed(expression)?);
                    grammar.rules.insert(name, terminal);
                }
                Token::Name(name) => {
                    // A priority decides between terminals that both fit; here either does.
                    if parser.takes(&Token::Sign('.')) {
                        parser.number()?;
                    }
                    parser.expect(':')?;
                    let node = parser.choices(DEPTH_MAX)?;
                    if grammar.rules.insert(name.clone(), node).is_some() {
                        return Err(refused(format!("`{name}` is there twice")));
                    }
                }
                other => return Err(other.unexpected()),
            }
            if !matches!(
                parser.0.peek(),
                None | Some(Token::Line | Token::Imported(..))
            ) {
                let next = parser.0.next();
                return Err(next.map_or_else(|| refused("it ends too soon"), Token::unexpected));
            }
        }
        Ok(grammar)
    }
}

fn is_terminal(name: &str) -> bool {
    name.trim_start_matches('_')
        .starts_with(|c: char| c.is_ascii_uppercase())
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
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
    fn unexpected(self) -> GrammarError {
        refused(format!("{self:?} is not expected where it is"))
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
            false => Err(refused(format!("`{sign}` is missing"))),
        }
    }

    fn number(&mut self) -> Result<u32, GrammarError> {
        match self.0.next() {
            Some(Token::Number(number)) => Ok(number),
            _ => Err(refused("a number is missing")),
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
            return Err(refused("a name is missing"));
        }
        Ok(Node::AllOf(parts))
    }

    fn part(&mut self, depth: usize) -> Result<Option<Node>, GrammarError> {
        let depth = depth.checked_sub(1);
        let depth = depth.ok_or_else(|| refused("the grammar is too deep"))?;
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
        let (min, max) = match self.0.peek() {
            Some(Token::Sign('?')) => (0, Some(1)),
            Some(Token::Sign('*')) => (0, None),
            Some(Token::Sign('+')) => (1, None),
            Some(Token::Sign('~')) => {
                self.0.next();
                let (min, max) = self.bounds()?;
                return Ok(Some(Node::Repeated(Box::new(node), min, Some(max))));
            }
            _ => return Ok(Some(node)),
        };
        self.0.next();
        Ok(Some(Node::Repeated(Box::new(node), min, max)))
    }

    /// `3`, or `3..5`.
    fn bounds(&mut self) -> Result<(u32, u32), GrammarError> {
        let min = self.number()?;
        let max = match self.takes(&Token::To) {
            true => self.number()?,
            false => min,
        };
        match min <= max {
            true => Ok((min, max)),
            false => Err(refused(format!("{min}..{max} is no range"))),
        }
    }
}

fn tokens(definition: &str) -> Result<Vec<Token>, GrammarError> {
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

/// The end of a range of characters, if this is the rest of one, and the bytes up to there.
fn range_end(rest: &str) -> Result<Option<(&str, usize)>, GrammarError> {
    let blank = [' ', '\t'];
    let Some(after) = rest.trim_start_matches(blank).strip_prefix("..") else {
        return Ok(None);
    };
    let end = after.trim_start_matches(blank);
    Ok(match Part::first(end)? {
        Some(Part::Text(to)) => Some((to, rest.len() - end.len() + to.len())),
        _ => None,
    })
}

fn range(from: &str, to: &str) -> Result<Hir, GrammarError> {
    let character = |source: &str| {
        let value = value_of(source)?;
        let mut characters = value.chars();
        match (characters.next(), characters.next()) {
            (Some(only), None) => Ok(u32::from(only)),
            _ => Err(refused(format!("{source} is not one character"))),
        }
    };
    let (from, to) = (character(from)?, character(to)?);
    parsed(&format!("[\\x{{{from:x}}}-\\x{{{to:x}}}]"))
}

/// A text in double quotes, perhaps with the flag that lets case be anything.
fn text(source: &str) -> Result<Hir, GrammarError> {
    match source.strip_suffix('i') {
        Some(source) => parsed(&format!("(?i:{})", escape(&value_of(source)?))),
        None => Ok(Hir::literal(value_of(source)?.into_bytes())),
    }
}

/// What a text in double quotes means.
fn value_of(source: &str) -> Result<String, GrammarError> {
    let mut json = String::new();
    let mut characters = source.chars();
    while let Some(character) = characters.next() {
        json.push(character);
        if character == '\\' {
            match characters.next() {
                // Lark's own.
                Some('x') => json.push_str("u00"),
                other => json.extend(other),
            }
        }
    }
    serde_json::from_str(&json).map_err(|_| refused(format!("{source} is no text")))
}

/// An expression in slashes with its flags.
fn slashed(source: &str) -> Result<Hir, GrammarError> {
    let end = source.rfind('/').unwrap_or_default();
    let (pattern, flags) = (source.get(1..end).unwrap_or_default(), &source[end + 1..]);
    if flags.contains('l') {
        return Err(refused("an expression may not depend on a locale"));
    }
    // The last of it may be a comment.
    let end = if flags.contains('x') { "\n" } else { "" };
    parsed(&format!("(?{flags}:{pattern}{end})"))
}

/// What follows `%import` on its line: `common.NAME`, perhaps with `-> OTHER`, or `common (NAME, NAME)`.
fn imports(line: &str) -> Result<Vec<Token>, GrammarError> {
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

fn imported(library: &str, name: &str, alias: &str) -> Result<Token, GrammarError> {
    let known = COMMON.iter().find(|(known, _)| *known == name);
    match known.filter(|_| library == "common") {
        Some((_, expression)) => Ok(Token::Imported(alias.to_owned(), expression)),
        None => Err(refused(format!("there is no `{library}.{name}`"))),
    }
}
