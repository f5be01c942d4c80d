//! Truncation: the part of a conversation that a prompt shows if the whole does not fit.

use crate::conversation::{Item, Role};

/// Share of the context that a shortened prompt may take, so that the next turns fit too and fork
/// its tokens.
const SHARE_MAX: (usize, usize) = (3, 4);

/// Most tokens of a shortened prompt.
pub(crate) fn tokens_max(context_length: usize) -> usize {
    context_length / SHARE_MAX.1 * SHARE_MAX.0
}

/// Returns the conversation without its first `left_out` items; leading system messages stay.
pub(crate) fn without(items: &[Item], left_out: usize) -> Vec<Item> {
    let (leading, rest) = items.split_at(leading(items));
    let rest = rest.get(left_out..).unwrap_or_default();
    [leading, rest].concat()
}

/// Returns the numbers of items that can be left out, ascending: whole turns, each of which begins
/// with a user message. So calls keep their outputs.
pub(crate) fn cuts(items: &[Item]) -> Vec<usize> {
    let rest = items[leading(items)..].iter().enumerate();
    let begins = |item: &Item| matches!(item, Item::Message(message) if message.role == Role::User);
    let cuts = rest.filter(|(index, item)| *index > 0 && begins(item));
    cuts.map(|(index, _)| index).collect()
}

fn leading(items: &[Item]) -> usize {
    let is_system =
        |item: &&Item| matches!(item, Item::Message(message) if message.role == Role::System);
    items.iter().take_while(is_system).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{CallKind, CallOutput, ContentPart, FunctionCall, Message};

    fn says(role: Role, text: &str) -> Item {
        Item::Message(Message {
            role,
            content: vec![ContentPart::Text(text.to_owned())],
        })
    }

    fn conversation() -> Vec<Item> {
        vec![
            says(Role::System, "s"),
            says(Role::User, "u1"),
            Item::FunctionCall(FunctionCall {
                call_id: "c".into(),
                name: "f".into(),
                namespace: None,
                arguments: "{}".into(),
            }),
            Item::CallOutput(CallOutput {
                call_id: "c".into(),
                of: CallKind::Function,
                output: Vec::new(),
            }),
            says(Role::Assistant, "a1"),
            says(Role::User, "u2"),
            says(Role::Assistant, "a2"),
            says(Role::System, "t"),
            says(Role::User, "u3"),
        ]
    }

    #[test]
    fn only_whole_turns_are_left_out() {
        let items = conversation();
        assert_eq!(cuts(&items), [4, 7]);
        let kept = without(&items, 4);
        assert_eq!(kept, [&items[..1], &items[5..]].concat());
        assert_eq!(without(&items, 0), items);
        assert_eq!(without(&items, 99), items[..1]);
        assert!(cuts(&items[..2]).is_empty() && cuts(&[]).is_empty());
    }

    #[test]
    fn a_quarter_of_the_context_is_left_for_what_follows() {
        assert_eq!(tokens_max(8192), 6144);
    }
}
