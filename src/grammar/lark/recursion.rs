//! Rules that need themselves at the ends of their choices → repetitions of the same texts.

use super::parser::Node;

/// Alternatives of a rule, by the position of the recursion in them.
#[derive(Default)]
struct Choices {
    /// Nowhere at an end.
    single: Vec<Node>,
    /// Recursion at the end: the nodes before it.
    before: Vec<Node>,
    /// Recursion at the start: the nodes after it.
    after: Vec<Node>,
    /// Recursion at both ends: the nodes between.
    between: Vec<Node>,
}

/// Writes `list: item | list "," item` and the like as `item ("," item)*`.
pub(crate) fn repeat_at_ends(name: &str, rule: &mut Node) {
    let Node::AnyOf(nodes) = rule else { return };
    let mut choices = Choices::default();
    for node in nodes.iter().cloned() {
        choices.add(name, node);
    }
    if choices.single.len() < nodes.len() {
        *rule = choices.repeated();
    }
}

impl Choices {
    fn add(&mut self, name: &str, node: Node) {
        let Node::AllOf(mut parts) = node else {
            return self.single.push(node);
        };
        let is_itself = |part: Option<&Node>| matches!(part, Some(Node::Name(it)) if it == name);
        let begins = is_itself(parts.first());
        if begins {
            parts.remove(0);
        }
        let ends = is_itself(parts.last());
        if ends {
            parts.pop();
        }
        let rest = Node::AllOf(parts);
        match (begins, ends) {
            (true, true) => self.between.push(rest),
            (true, false) if matches!(&rest, Node::AllOf(parts) if parts.is_empty()) => {
                // A rule that is itself adds nothing.
            }
            (true, false) => self.after.push(rest),
            (false, true) => self.before.push(rest),
            (false, false) => self.single.push(rest),
        }
    }

    fn repeated(self) -> Node {
        let Self {
            single,
            before,
            after,
            between,
        } = self;
        let one = [
            any_times(before),
            Some(Node::AnyOf(single)),
            any_times(after),
        ];
        let one = Node::AllOf(one.into_iter().flatten().collect());
        match between.is_empty() {
            true => one,
            false => {
                let next = Node::AllOf(vec![Node::AnyOf(between), one.clone()]);
                let more = Node::Repeated(Box::new(next), 0, None);
                Node::AllOf(vec![one, more])
            }
        }
    }
}

/// Nothing, where there are none to choose from.
fn any_times(choices: Vec<Node>) -> Option<Node> {
    match choices.is_empty() {
        true => None,
        false => Some(Node::Repeated(Box::new(Node::AnyOf(choices)), 0, None)),
    }
}
