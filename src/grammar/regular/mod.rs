//! Lark grammars in which no rule needs itself → regular expressions of the same texts.

mod library;
mod rules;
mod terminals;
mod tokens;

use std::collections::HashMap;

use regex_syntax::hir::{Hir, Repetition};
use rules::{Node, Rules};

use super::GrammarError;

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
    let Rules { by_name, ignored } = Rules::parse(definition)?;
    let mut grammar = Grammar {
        rules: by_name,
        between: None,
        expanded: HashMap::new(),
    };
    let ignored = ignored.iter();
    let ignored = ignored.map(|node| grammar.expand(node, false, DEPTH_MAX));
    let ignored = Expression::any_of(ignored.collect::<Result<_, _>>()?)?;
    grammar.between = ignored.map(|ignored| ignored.repeated(0, None));
    let start = grammar.named("start", DEPTH_MAX)?;
    let before = grammar.between.iter().cloned();
    Ok(Expression::all_of(before.chain([start]).collect())?.hir)
}

/// An expression, and how many terminals it has.
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
            return Err(GrammarError::whole(
                "the grammar is too large for one expression",
            ));
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

/// Rules that become expressions.
struct Grammar {
    rules: HashMap<String, Node>,
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
            Some(None) => return Err(GrammarError::whole(format!("`{name}` needs itself"))),
            None => {}
        }
        let node = self.rules.get(name).cloned();
        let node = node.ok_or_else(|| GrammarError::whole(format!("there is no `{name}`")))?;
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
        let depth = depth.ok_or_else(|| GrammarError::whole("the grammar is too deep"))?;
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
                any.ok_or_else(|| GrammarError::whole("there is nothing to choose from"))
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
}

fn is_terminal(name: &str) -> bool {
    name.trim_start_matches('_')
        .starts_with(|c: char| c.is_ascii_uppercase())
}
