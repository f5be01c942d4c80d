//! Reasoning of earlier turns: kept in prompts or dropped.

use serde_json::{Map, Value};

use super::messages::ChatMessage;

/// The template argument that keeps reasoning; some templates read it themselves.
pub const ARGUMENT: &str = "preserve_thinking";

const MARKERS: (&str, &str) = ("<think>", "</think>");

/// True if reasoning of earlier turns is kept; the default.
pub(super) fn are_kept(template_args: &Map<String, Value>) -> bool {
    template_args.get(ARGUMENT) != Some(&Value::Bool(false))
}

/// Drops the reasoning of all turns before the last user message: separate reasoning, and reasoning
/// within an answer.
pub(super) fn drop_earlier(messages: &mut [ChatMessage<'_>]) {
    let last = messages
        .iter()
        .rposition(|message| matches!(message, ChatMessage::User(_)));
    for message in &mut messages[..last.unwrap_or(0)] {
        if let ChatMessage::Assistant(answer) = message {
            answer.reasoning = None;
            answer.content = without(&answer.content);
        }
    }
}

/// Returns a text without its reasoning. Reasoning that the prompt opened has an end marker only.
fn without(text: &str) -> String {
    let (open, close) = MARKERS;
    let mut rest = text;
    let mut kept = String::new();
    while let Some((before, after)) = rest.split_once(close) {
        kept.push_str(before.split_once(open).map_or("", |(said, _)| said));
        rest = after.trim_start_matches('\n');
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        conversation::{ContentPart, Item, Message, Preamble, Reasoning, Role},
        template::messages::chat_messages,
    };

    #[test]
    fn marked_reasoning_is_cut_out() {
        for (text, expected) in [
            ("Yes.", "Yes."),
            ("<think>\nHm.\n</think>\n\nYes.", "Yes."),
            ("Hm.</think>\nYes.", "Yes."),
            ("A<think>b</think>C<think>d</think>E", "ACE"),
            ("A <think> b", "A <think> b"),
        ] {
            assert_eq!(without(text), expected);
        }
    }

    #[test]
    fn earlier_reasoning_is_dropped_if_the_argument_says_so() {
        let said = |role, text: &str| {
            let content = vec![ContentPart::Text(text.to_owned())];
            Item::Message(Message { role, content })
        };
        let reasoning = |text: &str| {
            let text = text.to_owned();
            Item::Reasoning(Reasoning { text })
        };
        let items = [
            said(Role::User, "u"),
            reasoning("first"),
            said(Role::Assistant, "<think>inner</think>a"),
            said(Role::User, "v"),
            reasoning("second"),
            said(Role::Assistant, "b"),
        ];
        let reasoning = |args: Value| {
            let head = Preamble {
                template_args: args.as_object().cloned().expect("an object"),
                ..Preamble::default()
            };
            let of = |message: ChatMessage<'_>| match message {
                ChatMessage::Assistant(answer) => Some((answer.reasoning, answer.content)),
                _ => None,
            };
            let mut messages = chat_messages(&head, &items);
            if !are_kept(&head.template_args) {
                drop_earlier(&mut messages);
            }
            messages.into_iter().filter_map(of).collect::<Vec<_>>()
        };
        let of = |reasoning: Option<&str>, content: &str| {
            (reasoning.map(str::to_owned), content.to_owned())
        };
        let second = of(Some("second"), "b");
        let all = vec![of(Some("first"), "<think>inner</think>a"), second.clone()];
        assert_eq!(reasoning(serde_json::json!({})), all);
        assert_eq!(reasoning(serde_json::json!({ARGUMENT: true})), all);
        let some = vec![of(None, "a"), second];
        assert_eq!(reasoning(serde_json::json!({ARGUMENT: false})), some);
    }
}
