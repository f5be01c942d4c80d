//! Compiles Lark grammars to regular expressions of the same texts.
//!
//! A rule that is recursive at an end of an alternative is a list, which a regular expression can
//! express. A rule that is recursive in the middle nests. A regular expression can express it to a
//! bounded depth only. It then admits fewer texts than the grammar, and only texts that the grammar
//! admits.

pub(super) mod fragment;
pub(super) mod guard;
pub(super) mod lexer;
pub(super) mod parser;
pub(super) mod recursion;
pub(super) mod std_terminals;
pub(super) mod terminals;

use std::collections::HashMap;

use fragment::RegexFragment;
use parser::{LarkRules, Node};

use super::{
    GrammarError,
    json::escape::{self, Writing},
};

/// Groups within groups at most.
const DEPTH_MAX: usize = 100;

/// Groups and rules within each other at most.
const EXPANDED_DEPTH_MAX: usize = 400;

/// Nesting depths to try for recursive rules: the first one within the other limits.
const LEVELS: [usize; 5] = [8, 4, 2, 1, 0];

/// A terminal, and those that it consists of.
#[derive(Debug)]
pub(super) struct Terminals {
    /// Their definitions.
    pub(super) lines: String,
    /// Name of the terminal for the whole grammar.
    pub(super) whole: String,
}

/// Returns the terminal of all texts that a grammar admits. Lark matches terminals greedily; this
/// one may match them shorter. The names of the terminals start with `prefix`.
///
/// # Errors
/// If the expression would be too long, or the grammar is invalid, admits no text, or has elements
/// that no regular expression has.
pub(super) fn terminals(
    definition: &str,
    writing: Writing,
    prefix: &str,
) -> Result<Terminals, GrammarError> {
    let mut rules = LarkRules::parse(definition)?;
    for (name, node) in rules
        .by_name
        .iter_mut()
        .filter(|(name, _)| !is_terminal(name))
    {
        recursion::repeat_at_ends(name, node);
    }
    let mut refused = None;
    for level in LEVELS {
        let grammar = Grammar {
            rules: &rules.by_name,
            writing,
            prefix,
            between: None,
            written: HashMap::new(),
            lines: Vec::new(),
        };
        match grammar.write(&rules.ignored, level) {
            Ok(terminals) => return Ok(terminals),
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.unwrap_or_else(|| GrammarError::whole("there is nothing to write")))
}

/// Progress of expanding a rule or a terminal.
#[derive(Debug, Clone)]
enum Written {
    /// It is being written.
    Now,
    /// Expanded; `None` if it admits no text.
    Done(Option<RegexFragment>),
}

/// Rules that become terminals.
struct Grammar<'a> {
    rules: &'a HashMap<String, Node>,
    writing: Writing,
    prefix: &'a str,
    /// Ignored text between terminals.
    between: Option<RegexFragment>,
    /// By names and levels.
    written: HashMap<(&'a str, usize), Written>,
    lines: Vec<String>,
}

impl<'a> Grammar<'a> {
    /// Expands rules, recursive ones to `level` levels.
    fn write(mut self, ignored: &[Node], level: usize) -> Result<Terminals, GrammarError> {
        let ignored = ignored.iter();
        let ignored = ignored.map(|node| self.expand(node, None, EXPANDED_DEPTH_MAX));
        let ignored: Vec<RegexFragment> = ignored
            .filter_map(Result::transpose)
            .collect::<Result<_, _>>()?;
        if !ignored.is_empty() {
            let ignored = RegexFragment::joined(ignored, " | ")?.repeated(0, None);
            self.between = Some(self.line(&ignored));
        }
        let start = self.named("start", level, EXPANDED_DEPTH_MAX)?;
        let start = start.ok_or_else(|| {
            GrammarError::whole(
                "`start` needs itself, whatever it chooses, so that there is no text",
            )
        })?;
        let before = self.between.iter().cloned();
        let whole = RegexFragment::joined(before.chain([start]).collect(), " ")?;
        let whole = self.line(&whole).source;
        let lines = self.lines.concat();
        Ok(Terminals { lines, whole })
    }

    /// Gives a part a name, under which it can be used again.
    fn line(&mut self, part: &RegexFragment) -> RegexFragment {
        let name = format!("{}{}", self.prefix, self.lines.len());
        self.lines.push(format!("{name}: {}\n", part.source));
        RegexFragment {
            source: name,
            terminals: part.terminals,
        }
    }

    /// Returns a rule at a level, or a terminal; `None` if it admits no text.
    fn named(
        &mut self,
        name: &str,
        level: usize,
        depth: usize,
    ) -> Result<Option<RegexFragment>, GrammarError> {
        let rules = self.rules;
        let Some((name, node)) = rules.get_key_value(name) else {
            return Err(GrammarError::whole(format!("there is no `{name}`")));
        };
        let name = name.as_str();
        let level = if is_terminal(name) { 0 } else { level };
        match self.written.get(&(name, level)) {
            Some(Written::Done(part)) => return Ok(part.clone()),
            Some(Written::Now) if is_terminal(name) => {
                return Err(GrammarError::whole(format!("`{name}` needs itself")));
            }
            Some(Written::Now) => {
                return match level.checked_sub(1) {
                    Some(level) => self.named(name, level, depth),
                    None => Ok(None),
                };
            }
            None => {}
        }
        self.written.insert((name, level), Written::Now);
        let in_rule = (!is_terminal(name)).then_some(level);
        let part = self.expand(node, in_rule, depth)?;
        let part = part.map(|part| self.line(&part));
        self.written
            .insert((name, level), Written::Done(part.clone()));
        Ok(part)
    }

    /// Expands the right side of a rule at a level, or the definition of a terminal. Ignored text
    /// may stand between terminals of a rule. `None` if it admits no text.
    fn expand(
        &mut self,
        node: &Node,
        in_rule: Option<usize>,
        depth: usize,
    ) -> Result<Option<RegexFragment>, GrammarError> {
        let depth = depth.checked_sub(1);
        let depth = depth.ok_or_else(|| GrammarError::whole("the grammar is too deep"))?;
        match node {
            Node::Terminal(hir) => {
                let terminal = RegexFragment {
                    source: escape::source(hir.clone(), self.writing)?,
                    terminals: 1,
                };
                self.followed(terminal, in_rule.is_some()).map(Some)
            }
            Node::Name(name) => {
                let Some(named) = self.named(name, in_rule.unwrap_or(0), depth)? else {
                    return Ok(None);
                };
                let is_followed = in_rule.is_some() && is_terminal(name);
                self.followed(named, is_followed).map(Some)
            }
            Node::AllOf(nodes) => {
                let parts = nodes.iter().map(|part| self.expand(part, in_rule, depth));
                let parts = parts.collect::<Result<Option<Vec<_>>, _>>()?;
                parts
                    .map(|parts| RegexFragment::joined(parts, " "))
                    .transpose()
            }
            Node::AnyOf(nodes) => {
                let parts = nodes.iter().map(|part| self.expand(part, in_rule, depth));
                let parts: Vec<RegexFragment> = parts
                    .filter_map(Result::transpose)
                    .collect::<Result<_, _>>()?;
                match parts.is_empty() {
                    true => Ok(None),
                    false => RegexFragment::joined(parts, " | ").map(Some),
                }
            }
            Node::Repeated(node, min, max) => match self.expand(node, in_rule, depth)? {
                Some(part) => Ok(Some(part.repeated(*min, *max))),
                None if *min == 0 => RegexFragment::joined(Vec::new(), " ").map(Some),
                None => Ok(None),
            },
        }
    }

    fn followed(
        &self,
        terminal: RegexFragment,
        is_followed: bool,
    ) -> Result<RegexFragment, GrammarError> {
        match &self.between {
            Some(between) if is_followed => {
                RegexFragment::joined(vec![terminal, between.clone()], " ")
            }
            _ => Ok(terminal),
        }
    }
}

fn is_terminal(name: &str) -> bool {
    name.trim_start_matches('_')
        .starts_with(|c: char| c.is_ascii_uppercase())
}
