//! Encodes a turn for the session log as JSON texts in the API's own shapes, and decodes them.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{inbound, outbound};
use crate::{
    conversation::{
        CallKind, CallOutput, ContentPart, FunctionCall, Item, Message, Preamble, Role,
    },
    id::ResponseId,
    wire::{InputItem, TextOrList},
};

/// A request's own items as the API lists them, each with an id that stays.
pub fn input_items(response: ResponseId, items: &[Item]) -> Vec<String> {
    let text = |(index, item): (usize, &Item)| input_item(response, index, item).to_string();
    items.iter().enumerate().map(text).collect()
}

fn input_item(response: ResponseId, index: usize, item: &Item) -> Value {
    let id = |prefix: &str| response.item(prefix, index);
    match item {
        Item::Message(message) => json!({
            "id": id("msg_in"), "type": "message", "status": "completed",
            "role": role(message.role), "content": content(message),
        }),
        Item::FunctionCall(call) => function_call(&id("fc_in"), call),
        Item::CustomCall(call) => json!({
            "id": id("ctc_in"), "type": "custom_tool_call", "status": "completed",
            "call_id": call.call_id, "name": call.name, "input": call.input,
        }),
        Item::CallOutput(output) => {
            let (prefix, kind) = match output.of {
                CallKind::Function => ("fco_in", "function_call_output"),
                CallKind::Custom => ("cto_in", "custom_tool_call_output"),
            };
            json!({
                "id": id(prefix), "type": kind, "status": "completed",
                "call_id": output.call_id, "output": call_output(output),
            })
        }
        Item::Reasoning(reasoning) => json!({
            "id": id("rs_in"), "type": "reasoning", "status": "completed", "summary": [],
            "content": [{"type": "reasoning_text", "text": reasoning.text}],
        }),
    }
}

fn function_call(id: &str, call: &FunctionCall) -> Value {
    let mut item = json!({
        "id": id, "type": "function_call", "status": "completed",
        "call_id": call.call_id, "name": call.name, "arguments": call.arguments,
    });
    if let Some(namespace) = &call.namespace {
        item["namespace"] = namespace.as_str().into();
    }
    item
}

fn call_output(output: &CallOutput) -> Value {
    match output.output.as_slice() {
        [ContentPart::Text(only)] => only.as_str().into(),
        parts => input_parts(parts),
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

fn content(message: &Message) -> Value {
    let output_part =
        |ContentPart::Text(text): &ContentPart| json!(outbound::text_part(text.clone(), &[]));
    match message.role {
        Role::Assistant => message.content.iter().map(output_part).collect(),
        Role::System | Role::User => input_parts(&message.content),
    }
}

fn input_parts(parts: &[ContentPart]) -> Value {
    let part = |ContentPart::Text(text): &ContentPart| json!({"type": "input_text", "text": text});
    parts.iter().map(part).collect()
}

/// Encodes a preamble and the number of items left out; equal ones give equal texts.
pub fn head(of: &Preamble, left_out: usize) -> String {
    let tools: Vec<_> = of.tools.iter().map(outbound::function).collect();
    let mut head = json!({
        "instructions": of.instructions,
        "tools": tools,
        "template_args": of.template_args,
    });
    if let Some(instruction) = &of.tool_instruction {
        head["tool_instruction"] = instruction.as_str().into();
    }
    if left_out > 0 {
        head["left_out"] = left_out.into();
    }
    head.to_string()
}

/// Returns the number of the conversation's oldest items that a prompt left out, from its encoded
/// preamble.
pub fn left_out(head: &str) -> usize {
    #[derive(Deserialize)]
    struct Truncated {
        #[serde(default)]
        left_out: usize,
    }
    serde_json::from_str(head).map_or(0, |Truncated { left_out }| left_out)
}

/// Decodes the items of a stored turn: its input and its output.
///
/// # Errors
/// If the texts are no stored turn.
pub fn items(input_items: &[String], body: &str) -> Result<(Vec<Item>, Vec<Item>), String> {
    let input: Result<Vec<InputItem>, _> = input_items
        .iter()
        .map(|text| serde_json::from_str(text))
        .collect();
    let input = input.map_err(|error| format!("a stored item: {error}"))?;
    let Answered { output } =
        serde_json::from_str(body).map_err(|error| format!("a stored response: {error}"))?;
    Ok((translated(input)?, translated(output)?))
}

/// Of a stored response, what a continuation needs.
#[derive(Deserialize)]
struct Answered {
    output: Vec<InputItem>,
}

fn translated(items: Vec<InputItem>) -> Result<Vec<Item>, String> {
    inbound::items(Some(TextOrList::List(items))).map_err(|refusal| refusal.message)
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, sync::Arc};

    use super::*;
    use crate::{
        conversation::{CustomCall, ItemStatus, OutputBuilder, OutputDelta, Reasoning},
        translate::sample,
    };

    fn said(role: Role, texts: &[&str]) -> Item {
        let part = |text: &&str| ContentPart::Text((*text).to_owned());
        let content = texts.iter().map(part).collect();
        Item::Message(Message { role, content })
    }

    fn output(call_id: &str, of: CallKind, texts: &[&str]) -> Item {
        let part = |text: &&str| ContentPart::Text((*text).to_owned());
        Item::CallOutput(CallOutput {
            call_id: call_id.to_owned(),
            of,
            output: texts.iter().map(part).collect(),
        })
    }

    #[test]
    fn what_is_stored_is_read_back() {
        let input = vec![
            said(Role::System, &["Rules."]),
            said(Role::User, &["a", "b"]),
            said(Role::Assistant, &["<|im_end|>"]),
            said(Role::User, &[]),
            Item::Reasoning(Reasoning { text: "Hm.".into() }),
            Item::FunctionCall(FunctionCall {
                call_id: "1".into(),
                name: "f".into(),
                namespace: Some("n".into()),
                arguments: "{".into(),
            }),
            Item::CustomCall(CustomCall {
                call_id: "2".into(),
                name: "c".into(),
                input: "".into(),
            }),
            output("1", CallKind::Function, &["a"]),
            output("2", CallKind::Custom, &["a", "b"]),
            output("2", CallKind::Custom, &[]),
        ];
        let mut record = sample::record();
        let mut answer = OutputBuilder::new(record.id, Arc::new([]));
        answer.push(OutputDelta::Text("Yes.".to_owned()));
        answer.finish(ItemStatus::Completed);
        record.output = answer.into_items();
        let body = serde_json::to_string(&outbound::response(&record)).expect("JSON");
        let texts = input_items(record.id, &input);
        let output = vec![said(Role::Assistant, &["Yes."])];
        assert_eq!(items(&texts, &body), Ok((input, output)));
    }

    #[test]
    fn every_item_has_an_id_of_its_own() {
        let items = [said(Role::User, &["a"]), said(Role::User, &["a"])];
        let texts = input_items(ResponseId::from_bits(1), &items);
        assert_ne!(texts[0], texts[1]);
        assert!(texts[0].contains("msg_in_00000000000000000000000000000001_0"));
    }

    #[test]
    fn heads_differ_by_all_that_leads_a_prompt() {
        let instructed = Preamble {
            instructions: Some("Be terse.".to_owned()),
            ..Preamble::default()
        };
        let mut thinking = Preamble::default();
        thinking
            .template_args
            .insert("enable_thinking".to_owned(), true.into());
        let told = Preamble {
            tool_instruction: Some("Call.".to_owned()),
            ..Preamble::default()
        };
        let heads = [Preamble::default(), instructed, thinking, told].map(|of| head(&of, 0));
        let different: HashSet<&String> = heads.iter().collect();
        assert_eq!(different.len(), heads.len());
        let shortened = head(&Preamble::default(), 3);
        assert_ne!(shortened, heads[0]);
        assert_eq!((left_out(&shortened), left_out(&heads[0])), (3, 0));
    }

    #[test]
    fn damage_is_told() {
        assert!(items(&["[".to_owned()], "{\"output\": []}").is_err());
        assert!(items(&[], "{}").is_err());
    }
}
