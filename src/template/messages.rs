//! The conversation as the chat messages that templates expect.

use std::{borrow::Cow, collections::HashMap};

use serde_json::{Map, Value as Json};

use crate::conversation::{
    ContentPart, CustomCall, FunctionCall, Item, Preamble, Role,
    tool::{custom_arguments, shown_name},
};

/// One message of a template's `messages`.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ChatMessage<'a> {
    /// `role: system`.
    System(String),
    /// `role: user`.
    User(String),
    /// `role: assistant`: everything the model said in one turn.
    Assistant(AssistantMessage<'a>),
    /// `role: tool`: what one call gave.
    Tool(ToolMessage<'a>),
}

/// All adjacent items of the model as one message.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct AssistantMessage<'a> {
    /// The answer; empty where the turn consists of calls.
    pub(super) content: String,
    /// The reasoning, if any.
    pub(super) reasoning: Option<String>,
    /// The calls, in order.
    pub(super) calls: Vec<ChatCall<'a>>,
}

/// One call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChatCall<'a> {
    /// Links the call to its output.
    pub(super) call_id: &'a str,
    /// Name by which the model called the function.
    pub(super) name: Cow<'a, str>,
    /// The arguments as the model wrote them.
    pub(super) text: Cow<'a, str>,
    /// The arguments as an object, if they parse to one; most templates expect that.
    pub(super) object: Option<Map<String, Json>>,
}

impl<'a> From<&'a FunctionCall> for ChatCall<'a> {
    fn from(call: &'a FunctionCall) -> Self {
        Self {
            call_id: &call.call_id,
            name: match &call.namespace {
                Some(namespace) => shown_name(Some(namespace), &call.name).into(),
                None => Cow::from(&call.name),
            },
            text: Cow::from(&call.arguments),
            object: serde_json::from_str(&call.arguments).ok(),
        }
    }
}

impl<'a> From<&'a CustomCall> for ChatCall<'a> {
    fn from(call: &'a CustomCall) -> Self {
        let arguments = custom_arguments(&call.input);
        Self {
            call_id: &call.call_id,
            name: Cow::from(&call.name),
            text: Json::from(arguments.clone()).to_string().into(),
            object: Some(arguments),
        }
    }
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolMessage<'a> {
    /// The call that this answers.
    pub(super) call_id: &'a str,
    /// Name of the function that was called, where the call is in the conversation.
    pub(super) name: Option<Cow<'a, str>>,
    /// The result as text.
    pub(super) content: String,
}

/// Separates texts that become one message: the instructions and a system item, or two answers.
const BETWEEN_TEXTS: &str = "\n\n";

/// Converts a conversation to chat messages.
///
/// The instructions and the leading system items form one system message, because most templates
/// know only one. A later system item stays in place. Adjacent items of the model form one
/// assistant message. The instruction to call stands at the end of the first system message, else
/// of the last user message, else first.
pub(super) fn chat_messages<'a>(head: &Preamble, items: &'a [Item]) -> Vec<ChatMessage<'a>> {
    let instructions = head.instructions.iter().filter(|text| !text.is_empty());
    let mut messages: Vec<ChatMessage<'a>> =
        instructions.cloned().map(ChatMessage::System).collect();
    let mut names: HashMap<&str, Cow<'a, str>> = HashMap::new();
    for item in items {
        match item {
            Item::Message(message) => push_message(&mut messages, message.role, &message.content),
            Item::Reasoning(reasoning) if reasoning.text.is_empty() => {}
            Item::Reasoning(reasoning) => add_to_answer(&mut messages, |answer| {
                append(answer.reasoning.get_or_insert_default(), &reasoning.text);
            }),
            Item::FunctionCall(call) => add_call(&mut messages, &mut names, call.into()),
            Item::CustomCall(call) => add_call(&mut messages, &mut names, call.into()),
            Item::CallOutput(output) => messages.push(ChatMessage::Tool(ToolMessage {
                call_id: &output.call_id,
                name: names.get(output.call_id.as_str()).cloned(),
                content: joined(&output.output),
            })),
        }
    }
    if let Some(instruction) = &head.tool_instruction {
        instruct(&mut messages, instruction);
    }
    messages
}

fn add_call<'a>(
    messages: &mut Vec<ChatMessage<'a>>,
    names: &mut HashMap<&'a str, Cow<'a, str>>,
    call: ChatCall<'a>,
) {
    names.insert(call.call_id, call.name.clone());
    add_to_answer(messages, |answer| answer.calls.push(call));
}

fn instruct(messages: &mut Vec<ChatMessage<'_>>, instruction: &str) {
    let system = messages
        .iter()
        .position(|m| matches!(m, ChatMessage::System(_)));
    let user = || {
        messages
            .iter()
            .rposition(|m| matches!(m, ChatMessage::User(_)))
    };
    let place = system.or_else(user);
    match place.and_then(|place| messages.get_mut(place)) {
        Some(ChatMessage::System(text) | ChatMessage::User(text)) => append(text, instruction),
        _ => messages.insert(0, ChatMessage::System(instruction.to_owned())),
    }
}

fn push_message(messages: &mut Vec<ChatMessage<'_>>, role: Role, content: &[ContentPart]) {
    let text = joined(content);
    match role {
        Role::System => match messages.as_mut_slice() {
            [ChatMessage::System(leading)] => append(leading, &text),
            _ => messages.push(ChatMessage::System(text)),
        },
        Role::User => messages.push(ChatMessage::User(text)),
        Role::Assistant => add_to_answer(messages, |answer| append(&mut answer.content, &text)),
    }
}

/// Adds to the assistant message at the end, or to a new one.
fn add_to_answer<'a>(
    messages: &mut Vec<ChatMessage<'a>>,
    add: impl FnOnce(&mut AssistantMessage<'a>),
) {
    let mut answer = match messages.pop() {
        Some(ChatMessage::Assistant(answer)) => answer,
        other => {
            messages.extend(other);
            AssistantMessage::default()
        }
    };
    add(&mut answer);
    messages.push(ChatMessage::Assistant(answer));
}

/// The text of several parts, one to a line.
fn joined(parts: &[ContentPart]) -> String {
    let texts: Vec<&str> = parts
        .iter()
        .map(|ContentPart::Text(text)| text.as_str())
        .collect();
    texts.join("\n")
}

fn append(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push_str(BETWEEN_TEXTS);
    }
    text.push_str(more);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{CallKind, CallOutput, Message, Reasoning};

    fn said(role: Role, texts: &[&str]) -> Item {
        let content = texts
            .iter()
            .map(|text| ContentPart::Text((*text).to_owned()))
            .collect();
        Item::Message(Message { role, content })
    }

    fn call(call_id: &str) -> Item {
        Item::FunctionCall(FunctionCall {
            call_id: call_id.to_owned(),
            name: format!("f_{call_id}"),
            namespace: None,
            arguments: "{}".to_owned(),
        })
    }

    fn output(call_id: &str) -> Item {
        let output = vec![
            ContentPart::Text("a".to_owned()),
            ContentPart::Text("b".to_owned()),
        ];
        Item::CallOutput(CallOutput {
            call_id: call_id.to_owned(),
            of: CallKind::Function,
            output,
        })
    }

    fn reasoning(text: &str) -> Item {
        Item::Reasoning(Reasoning {
            text: text.to_owned(),
        })
    }

    #[test]
    fn leading_system_items_form_one_message() {
        let head = Preamble {
            instructions: Some("I".to_owned()),
            ..Preamble::default()
        };
        let items = [
            said(Role::System, &["S", "T"]),
            said(Role::User, &["u"]),
            said(Role::System, &["later"]),
        ];
        let expected = [
            ChatMessage::System("I\n\nS\nT".to_owned()),
            ChatMessage::User("u".to_owned()),
            ChatMessage::System("later".to_owned()),
        ];
        assert_eq!(chat_messages(&head, &items), expected);
    }

    #[test]
    fn adjacent_items_of_the_model_form_one_message() {
        let items = [
            said(Role::User, &["u"]),
            reasoning("r"),
            said(Role::Assistant, &["a"]),
            call("1"),
            call("2"),
            output("1"),
            output("2"),
            said(Role::Assistant, &["b"]),
            said(Role::Assistant, &["c"]),
            said(Role::User, &["v"]),
            said(Role::User, &["w"]),
        ];
        let messages = chat_messages(&Preamble::default(), &items);
        assert_eq!(messages.len(), 7);
        let ChatMessage::Assistant(first) = &messages[1] else {
            panic!("{messages:?}")
        };
        assert_eq!(
            (first.content.as_str(), first.reasoning.as_deref()),
            ("a", Some("r"))
        );
        let names: Vec<&str> = first.calls.iter().map(|call| &*call.name).collect();
        assert_eq!(names, ["f_1", "f_2"]);
        let answer = AssistantMessage {
            content: "b\n\nc".to_owned(),
            ..Default::default()
        };
        assert_eq!(messages[4], ChatMessage::Assistant(answer));
    }

    #[test]
    fn an_instruction_about_calls_stands_with_the_system_or_the_last_user() {
        let head = Preamble {
            tool_instruction: Some("Call.".to_owned()),
            ..Preamble::default()
        };
        let texts = |items: &[Item]| {
            let text = |message: &ChatMessage<'_>| match message {
                ChatMessage::System(text) => format!("s:{text}"),
                ChatMessage::User(text) => format!("u:{text}"),
                other => panic!("{other:?}"),
            };
            chat_messages(&head, items)
                .iter()
                .map(text)
                .collect::<Vec<_>>()
        };
        let user = |text: &str| said(Role::User, &[text]);
        let system = |text: &str| said(Role::System, &[text]);
        let between = [user("a"), system("b"), user("c")];
        assert_eq!(texts(&between), ["u:a", "s:b\n\nCall.", "u:c"]);
        assert_eq!(texts(&[user("a"), user("b")]), ["u:a", "u:b\n\nCall."]);
        assert_eq!(texts(&[]), ["s:Call."]);
    }

    #[test]
    fn calls_appear_by_the_names_and_arguments_that_the_model_wrote() {
        let items = [
            Item::FunctionCall(FunctionCall {
                call_id: "1".to_owned(),
                name: "f".to_owned(),
                namespace: Some("n".to_owned()),
                arguments: "{}".to_owned(),
            }),
            Item::CustomCall(CustomCall {
                call_id: "2".to_owned(),
                name: "c".to_owned(),
                input: "a\"b".to_owned(),
            }),
            output("1"),
        ];
        let messages = chat_messages(&Preamble::default(), &items);
        let [ChatMessage::Assistant(answer), ChatMessage::Tool(result)] = &messages[..] else {
            panic!("{messages:?}")
        };
        assert_eq!(answer.calls[0].name, "n.f");
        assert_eq!(answer.calls[1].text, "{\"input\":\"a\\\"b\"}");
        assert_eq!(result.name.as_deref(), Some("n.f"));
    }

    #[test]
    fn arguments_are_an_object_if_they_parse_to_one() {
        let cases = [
            ("{\"a\": [1]}", true),
            ("{}", true),
            ("[1]", false),
            ("{\"a\"", false),
            ("", false),
        ];
        for (text, is_object) in cases {
            let call = FunctionCall {
                call_id: "1".to_owned(),
                name: "f".to_owned(),
                namespace: None,
                arguments: text.to_owned(),
            };
            assert_eq!(ChatCall::from(&call).object.is_some(), is_object, "{text}");
        }
    }

    #[test]
    fn outputs_carry_the_name_of_the_latest_call_with_their_id() {
        let items = [call("1"), output("1"), output("unknown")];
        let messages = chat_messages(&Preamble::default(), &items);
        let content = "a\nb".to_owned();
        let known = ToolMessage {
            call_id: "1",
            name: Some("f_1".into()),
            content: content.clone(),
        };
        let unknown = ToolMessage {
            call_id: "unknown",
            name: None,
            content,
        };
        assert_eq!(
            messages[1..],
            [ChatMessage::Tool(known), ChatMessage::Tool(unknown)]
        );
    }
}
