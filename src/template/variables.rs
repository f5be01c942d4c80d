//! The variables a template sees.

use std::{borrow::Cow, fmt::Write as _};

use jiff::ZonedDateTime;
use minijinja::Value;
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};

use crate::{
    conversation::{FunctionTool, Preamble},
    tokenizer::SpecialTokens,
};

use super::{
    Rendering, environment,
    messages::{AssistantMessage, ChatCall, ChatMessage, ToolMessage},
    repr::float_value,
    sentinel::{EscapedValues, SENTINELS},
};

/// Length of the call ids of templates that insist on one.
const SHORT_CALL_ID: usize = 9;

/// The inputs of the variables, besides the messages and the time.
pub(super) struct Variables<'a> {
    pub(super) rendering: &'a Rendering<'a>,
    pub(super) special: &'a SpecialTokens,
    pub(super) disguise: &'a EscapedValues<'a>,
    /// True if call ids must have nine characters.
    pub(super) short_ids: bool,
    /// True if arguments of calls are objects, where they can be; texts otherwise.
    pub(super) arguments_as_objects: bool,
}

/// Variables that no template argument replaces.
pub(super) const RESERVED: [&str; 5] = [
    "messages",
    "tools",
    "add_generation_prompt",
    "strftime_now",
    SENTINELS,
];

impl Variables<'_> {
    /// All variables. Template arguments win over special tokens, never over the conversation.
    pub(super) fn values(&self, messages: &[ChatMessage<'_>], now: &ZonedDateTime) -> Value {
        let head = self.rendering.head;
        let mut all = vec![(Cow::from("documents"), Value::from(()))];
        all.extend(self.special_tokens());
        for (key, argument) in &head.template_args {
            all.push((Cow::from(key.clone()), self.json(argument)));
        }
        let messages: Vec<Value> = messages
            .iter()
            .map(|message| self.message(message))
            .collect();
        // As in Python, a conversation without tools has `None`, not an empty list.
        let tools: Vec<Value> = head.tools.iter().map(|tool| self.tool(tool)).collect();
        let tools = (!tools.is_empty()).then_some(tools);
        let prompted = self.rendering.add_generation_prompt;
        all.push(("strftime_now".into(), environment::strftime_now(now)));
        let sentinels = Value::from_object(self.disguise.sentinels().clone());
        all.push((SENTINELS.into(), sentinels));
        all.push(("messages".into(), messages.into()));
        all.push(("tools".into(), tools.into()));
        all.push(("add_generation_prompt".into(), prompted.into()));
        Value::from_pairs(all)
    }

    fn special_tokens(&self) -> impl Iterator<Item = (Cow<'static, str>, Value)> {
        let special = self.special;
        [
            ("bos_token", &special.bos),
            ("eos_token", &special.eos),
            ("unk_token", &special.unk),
            ("pad_token", &special.pad),
        ]
        .into_iter()
        .filter_map(|(name, token)| Some((name.into(), Value::from(token.as_deref()?))))
    }

    fn message(&self, message: &ChatMessage<'_>) -> Value {
        match message {
            ChatMessage::System(text) => self.plain_message("system", text),
            ChatMessage::User(text) => self.plain_message("user", text),
            ChatMessage::Assistant(message) => self.assistant(message),
            ChatMessage::Tool(message) => self.tool_message(message),
        }
    }

    fn plain_message(&self, role: &str, text: &str) -> Value {
        Value::from_pairs([("role", role.into()), ("content", self.text(text))])
    }

    /// Templates know reasoning by three names.
    fn assistant(&self, message: &AssistantMessage<'_>) -> Value {
        let answer = |text: &str| Value::from(self.disguise.hide_in_answer(text));
        let mut fields = vec![
            ("role", "assistant".into()),
            ("content", answer(&message.content)),
        ];
        if let Some(reasoning) = &message.reasoning {
            let reasoning = answer(reasoning);
            for name in ["reasoning_content", "reasoning", "thinking"] {
                fields.push((name, reasoning.clone()));
            }
        }
        if !message.calls.is_empty() {
            let calls: Vec<Value> = message.calls.iter().map(|call| self.call(call)).collect();
            fields.push(("tool_calls", calls.into()));
        }
        Value::from_pairs(fields)
    }

    fn call(&self, call: &ChatCall<'_>) -> Value {
        let arguments = match &call.object {
            Some(object) if self.arguments_as_objects => self.object(object),
            _ => self.text(&call.text),
        };
        let function =
            Value::from_pairs([("name", self.text(&call.name)), ("arguments", arguments)]);
        Value::from_pairs([
            ("type", Value::from("function")),
            ("id", self.call_id(call.call_id)),
            ("function", function),
        ])
    }

    fn tool_message(&self, message: &ToolMessage<'_>) -> Value {
        let mut fields = vec![
            ("role", "tool".into()),
            ("tool_call_id", self.call_id(message.call_id)),
            ("content", self.text(&message.content)),
        ];
        if let Some(name) = &message.name {
            fields.push(("name", self.text(name)));
        }
        Value::from_pairs(fields)
    }

    fn call_id(&self, id: &str) -> Value {
        if self.short_ids && id.chars().count() != SHORT_CALL_ID {
            return Value::from(short_call_id(id));
        }
        self.text(id)
    }

    fn tool(&self, tool: &FunctionTool) -> Value {
        let mut function = vec![("name", self.text(&tool.name))];
        if let Some(description) = &tool.description {
            function.push(("description", self.text(description)));
        }
        let parameters = tool
            .parameters
            .as_ref()
            .map_or_else(no_parameters, |map| self.object(map));
        function.push(("parameters", parameters));
        Value::from_pairs([
            ("type", "function".into()),
            ("function", Value::from_pairs(function)),
        ])
    }

    fn text(&self, text: &str) -> Value {
        Value::from(self.disguise.hide(text))
    }

    fn object(&self, map: &Map<String, Json>) -> Value {
        Value::from_pairs(
            map.iter()
                .map(|(key, value)| (self.text(key), self.json(value))),
        )
    }

    fn json(&self, value: &Json) -> Value {
        match value {
            Json::Null => Value::from(()),
            Json::Bool(value) => Value::from(*value),
            Json::Number(number) => number_value(number),
            Json::String(text) => self.text(text),
            Json::Array(items) => items.iter().map(|item| self.json(item)).collect(),
            Json::Object(map) => self.object(map),
        }
    }
}

/// A number as Python's `json` reads it.
pub(super) fn number_value(number: &serde_json::Number) -> Value {
    if let Some(number) = number.as_i64() {
        return Value::from(number);
    }
    if let Some(number) = number.as_u64() {
        return Value::from(number);
    }
    number.as_f64().map_or(Value::UNDEFINED, float_value)
}

/// The schema of a function without arguments, since templates expect one.
fn no_parameters() -> Value {
    let properties = Value::from_pairs::<[(&str, Value); 0], _, _>([]);
    Value::from_pairs([("type", "object".into()), ("properties", properties)])
}

/// Nine characters that stand for a call id, the same ones each time.
fn short_call_id(id: &str) -> String {
    let mut short = String::new();
    for byte in Sha256::digest(id.as_bytes()).iter().take(SHORT_CALL_ID) {
        // Writing to a string cannot fail.
        let _ = write!(short, "{byte:02x}");
    }
    short.truncate(SHORT_CALL_ID);
    short
}

/// All texts that will be among the variables.
pub(super) fn texts<'a>(head: &'a Preamble, messages: &'a [ChatMessage<'_>]) -> Vec<&'a str> {
    let mut texts = Vec::new();
    for tool in &head.tools {
        texts.push(tool.name.as_str());
        texts.extend(tool.description.as_deref());
        texts_of_object(tool.parameters.iter().flatten(), &mut texts);
    }
    texts_of_object(head.template_args.iter(), &mut texts);
    for message in messages {
        texts_of_message(message, &mut texts);
    }
    texts
}

fn texts_of_message<'a>(message: &'a ChatMessage<'_>, texts: &mut Vec<&'a str>) {
    match message {
        ChatMessage::System(text) | ChatMessage::User(text) => texts.push(text),
        ChatMessage::Assistant(message) => {
            texts.push(&message.content);
            texts.extend(message.reasoning.as_deref());
            for call in &message.calls {
                texts.extend([call.call_id, &call.name, &call.text]);
                texts_of_object(call.object.iter().flatten(), texts);
            }
        }
        ChatMessage::Tool(message) => {
            texts.extend([message.call_id, message.content.as_str()]);
            texts.extend(message.name.as_deref());
        }
    }
}

fn texts_of_json<'a>(value: &'a Json, texts: &mut Vec<&'a str>) {
    match value {
        Json::String(text) => texts.push(text),
        Json::Array(items) => items.iter().for_each(|item| texts_of_json(item, texts)),
        Json::Object(map) => texts_of_object(map.iter(), texts),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

fn texts_of_object<'a>(
    entries: impl Iterator<Item = (&'a String, &'a Json)>,
    texts: &mut Vec<&'a str>,
) {
    for (key, value) in entries {
        texts.push(key);
        texts_of_json(value, texts);
    }
}
