//! Encodes the output events of a response as its numbered stream events.
//!
//! The order cannot go wrong. [`EventEncoder::start`] returns the first events together with the
//! encoder. An [`OutputBuilder`](crate::conversation::OutputBuilder) nests items by construction.
//! The terminal event consumes the encoder.

use super::{logprobs, outbound};
use crate::{
    conversation::{Output, OutputEvent, OutputItem, ResponseState, Status, TokenLogprobs},
    wire::{Event, EventBody, response as wire},
};

/// Each item of ours has one part.
const CONTENT_INDEX: usize = 0;

/// Numbers the events of one response.
#[derive(Debug)]
pub struct EventEncoder {
    next_number: u64,
    open: Option<Open>,
}

/// The state of the open item that its deltas need.
#[derive(Debug)]
struct Open {
    index: usize,
    id: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Message,
    Reasoning,
    FunctionCall,
    CustomCall,
}

impl EventEncoder {
    /// Begins the stream of a response that is in progress.
    pub fn start(record: &ResponseState) -> (Self, Vec<Event>) {
        let mut events = Self {
            next_number: 0,
            open: None,
        };
        let first = vec![
            events.lifecycle("response.created", record),
            events.lifecycle("response.in_progress", record),
        ];
        (events, first)
    }

    /// Says that the response is still in progress.
    pub fn still_in_progress(&mut self, record: &ResponseState) -> Event {
        self.lifecycle("response.in_progress", record)
    }

    /// Tells what happened to the answer.
    pub fn answer(&mut self, event: OutputEvent) -> Vec<Event> {
        match event {
            OutputEvent::ItemAdded { index, item } => self.opened(index, item),
            OutputEvent::Delta { delta, logprobs } => {
                self.grown(delta, &logprobs).into_iter().collect()
            }
            OutputEvent::ItemDone { index, item } => self.closed(index, &item),
        }
    }

    /// Ends the stream of a response that has ended.
    pub fn end(mut self, record: &ResponseState) -> Vec<Event> {
        let mut events = Vec::new();
        let name = match record.status {
            Status::Failed(failure) => {
                let error = outbound::failure(failure);
                let body = EventBody::Error {
                    code: error.code,
                    message: error.message.clone(),
                    param: error.param.clone(),
                    error,
                };
                events.push(self.number("error", body));
                "response.failed"
            }
            Status::Incomplete | Status::Cancelled => "response.incomplete",
            Status::Completed | Status::InProgress => "response.completed",
        };
        events.push(self.lifecycle(name, record));
        events
    }

    fn opened(&mut self, index: usize, item: OutputItem) -> Vec<Event> {
        let (kind, part) = match item.content {
            Output::Message(_) => (Kind::Message, Some(outbound::text_part(String::new(), &[]))),
            Output::Reasoning(_) => (
                Kind::Reasoning,
                Some(outbound::reasoning_part(String::new())),
            ),
            Output::FunctionCall(_) => (Kind::FunctionCall, None),
            Output::CustomCall(_) => (Kind::CustomCall, None),
        };
        let added = EventBody::Item {
            output_index: index,
            item: without_content(outbound::item(&item)),
        };
        let mut events = vec![self.number("response.output_item.added", added)];
        if let Some(part) = part {
            let body = part_body(item.id.clone(), index, part);
            events.push(self.number("response.content_part.added", body));
        }
        self.open = Some(Open {
            index,
            id: item.id,
            kind,
        });
        events
    }

    fn grown(&mut self, delta: String, logprobs: &[TokenLogprobs]) -> Option<Event> {
        let open = self.open.as_ref()?;
        let (item_id, output_index) = (open.id.clone(), open.index);
        let content_index = CONTENT_INDEX;
        let (name, body) = match open.kind {
            Kind::Message => (
                "response.output_text.delta",
                EventBody::TextDelta {
                    item_id,
                    output_index,
                    content_index,
                    delta,
                    logprobs: logprobs::in_event(logprobs),
                },
            ),
            Kind::Reasoning => (
                "response.reasoning_text.delta",
                EventBody::ReasoningDelta {
                    item_id,
                    output_index,
                    content_index,
                    delta,
                },
            ),
            Kind::FunctionCall => (
                "response.function_call_arguments.delta",
                EventBody::ArgumentsDelta {
                    item_id,
                    output_index,
                    delta,
                },
            ),
            Kind::CustomCall => (
                "response.custom_tool_call_input.delta",
                EventBody::InputDelta {
                    item_id,
                    output_index,
                    delta,
                },
            ),
        };
        Some(self.number(name, body))
    }

    fn closed(&mut self, index: usize, item: &OutputItem) -> Vec<Event> {
        self.open = None;
        let (name, body, part) = done(index, item);
        let mut events = vec![self.number(name, body)];
        if let Some(part) = part {
            let body = part_body(item.id.clone(), index, part);
            events.push(self.number("response.content_part.done", body));
        }
        let body = EventBody::Item {
            output_index: index,
            item: outbound::item(item),
        };
        events.push(self.number("response.output_item.done", body));
        events
    }

    fn lifecycle(&mut self, name: &'static str, record: &ResponseState) -> Event {
        let response = Box::new(outbound::response(record));
        self.number(name, EventBody::Response { response })
    }

    fn number(&mut self, name: &'static str, body: EventBody) -> Event {
        let sequence_number = self.next_number;
        self.next_number += 1;
        Event {
            name,
            sequence_number,
            body,
        }
    }
}

/// The event that repeats the whole text or arguments of an item, and the part that then ends.
fn done(
    output_index: usize,
    item: &OutputItem,
) -> (&'static str, EventBody, Option<wire::OutputPart>) {
    let item_id = item.id.clone();
    let content_index = CONTENT_INDEX;
    match &item.content {
        Output::Message(text) => (
            "response.output_text.done",
            EventBody::TextDone {
                item_id,
                output_index,
                content_index,
                text: text.clone(),
                logprobs: logprobs::in_event(&item.logprobs),
            },
            Some(outbound::text_part(text.clone(), &item.logprobs)),
        ),
        Output::Reasoning(text) => (
            "response.reasoning_text.done",
            EventBody::ReasoningDone {
                item_id,
                output_index,
                content_index,
                text: text.clone(),
            },
            Some(outbound::reasoning_part(text.clone())),
        ),
        Output::FunctionCall(call) => (
            "response.function_call_arguments.done",
            EventBody::ArgumentsDone {
                item_id,
                output_index,
                name: call.name.clone(),
                arguments: call.arguments.clone(),
            },
            None,
        ),
        Output::CustomCall(call) => (
            "response.custom_tool_call_input.done",
            EventBody::InputDone {
                item_id,
                output_index,
                input: call.input.clone(),
            },
            None,
        ),
    }
}

fn part_body(item_id: String, output_index: usize, part: wire::OutputPart) -> EventBody {
    EventBody::Part {
        item_id,
        output_index,
        content_index: CONTENT_INDEX,
        part,
    }
}

/// Returns an item as its `added` event shows it: without content, which has events of its own.
fn without_content(mut item: wire::OutputItem) -> wire::OutputItem {
    match &mut item {
        wire::OutputItem::Message { content, .. } | wire::OutputItem::Reasoning { content, .. } => {
            content.clear();
        }
        wire::OutputItem::FunctionCall { .. } | wire::OutputItem::CustomToolCall { .. } => {}
    }
    item
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        conversation::{
            CustomFormat, CustomTool, Failure, ItemStatus, OutputBuilder, OutputDelta, Tool,
        },
        translate::sample,
    };

    /// Returns the whole stream of an answer with these deltas; `None` is an idle period.
    fn stream(pieces: &[Option<OutputDelta>], status: Status) -> Vec<Value> {
        let mut record = sample::record();
        let (mut events, mut all) = EventEncoder::start(&record);
        let custom = Tool::Custom(CustomTool {
            name: "c".to_owned(),
            description: None,
            format: CustomFormat::Text,
        });
        let mut answer = OutputBuilder::new(record.id, Arc::new([custom]));
        for piece in pieces {
            let Some(piece) = piece else {
                all.push(events.still_in_progress(&record));
                continue;
            };
            for event in answer.push(piece.clone()) {
                all.extend(events.answer(event));
            }
        }
        let last = match status {
            Status::Failed(_) => answer.break_off(),
            Status::Incomplete | Status::Cancelled => answer.finish(ItemStatus::Incomplete),
            _ => answer.finish(ItemStatus::Completed),
        };
        for event in last {
            all.extend(events.answer(event));
        }
        record.status = status;
        record.output = answer.into_items();
        all.extend(events.end(&record));
        let json = |event: &Event| serde_json::to_value(event).expect("an event is JSON");
        all.iter().map(json).collect()
    }

    /// Takes an event with this name and returns it.
    fn take<'a>(events: &mut &'a [Value], name: &str) -> &'a Value {
        let (first, rest) = events.split_first().expect("an event");
        assert_eq!(first["type"], name, "{first}");
        *events = rest;
        first
    }

    /// Reads the events of one item and returns the item as it was closed.
    fn take_item(events: &mut &[Value], index: usize) -> Value {
        let added = &take(events, "response.output_item.added")["item"];
        assert_eq!(added["status"], "in_progress");
        let (deltas, done, field) = match added["type"].as_str().expect("a type") {
            "message" => (
                "response.output_text.delta",
                "response.output_text.done",
                "text",
            ),
            "reasoning" => (
                "response.reasoning_text.delta",
                "response.reasoning_text.done",
                "text",
            ),
            "function_call" => (
                "response.function_call_arguments.delta",
                "response.function_call_arguments.done",
                "arguments",
            ),
            "custom_tool_call" => (
                "response.custom_tool_call_input.delta",
                "response.custom_tool_call_input.done",
                "input",
            ),
            other => panic!("{other}"),
        };
        let has_part = field == "text";
        if has_part {
            assert_eq!(added["content"], json!([]));
            let part = take(events, "response.content_part.added");
            assert_eq!(part["part"]["text"], "");
        } else {
            assert_eq!(added[field], "");
        }
        let mut text = String::new();
        while events[0]["type"] == deltas {
            let delta = &take(events, deltas);
            assert_eq!(delta["item_id"], added["id"]);
            assert_eq!(delta["output_index"], index);
            text.push_str(delta["delta"].as_str().expect("text"));
        }
        assert_eq!(take(events, done)[field], text);
        if has_part {
            let part = take(events, "response.content_part.done");
            assert_eq!(part["part"]["text"], text);
        }
        let closed = take(events, "response.output_item.done");
        assert_eq!(closed["output_index"], index);
        let item = &closed["item"];
        assert_eq!(item["id"], added["id"]);
        let whole = if has_part {
            &item["content"][0]["text"]
        } else {
            &item[field]
        };
        assert_eq!(whole, &text);
        item.clone()
    }

    /// Checks a whole stream against the rules and returns its terminal response.
    fn check(stream: &[Value]) -> Value {
        for (number, event) in stream.iter().enumerate() {
            assert_eq!(event["sequence_number"], number, "{event}");
        }
        let is_begun = |event: &&Value| event["response"]["status"] == "in_progress";
        for (index, begun) in stream.iter().filter(is_begun).enumerate() {
            let name = match index {
                0 => "response.created",
                _ => "response.in_progress",
            };
            assert_eq!(begun["type"], name);
            assert_eq!(begun["response"]["output"], json!([]));
        }
        assert!(stream[..2].iter().all(|event| is_begun(&event)));
        // That it is still in progress may come between any two others.
        let others: Vec<Value> = stream.iter().filter(|e| !is_begun(e)).cloned().collect();
        let mut events = others.as_slice();
        let mut items = Vec::new();
        while events[0]["type"] == "response.output_item.added" {
            items.push(take_item(&mut events, items.len()));
        }
        if events[0]["type"] == "error" {
            let error = take(&mut events, "error");
            assert_eq!(error["message"], error["error"]["message"]);
            assert_eq!(error["code"], "server_error");
            assert_eq!(events[0]["type"], "response.failed");
        }
        let [last] = events else {
            panic!("one terminal event, not {events:?}");
        };
        let status = last["response"]["status"].as_str().expect("a status");
        let name = match status {
            "cancelled" => "response.incomplete".to_owned(),
            other => format!("response.{other}"),
        };
        assert_eq!(last["type"], name);
        assert_eq!(last["response"]["output"], Value::Array(items));
        last["response"].clone()
    }

    fn piece() -> impl Strategy<Value = OutputDelta> {
        prop_oneof![
            "[a\u{e9}\n]{0,3}".prop_map(OutputDelta::Text),
            "[a\u{e9}\n]{0,3}".prop_map(OutputDelta::Reasoning),
            "[a\"]{0,3}".prop_map(OutputDelta::Arguments),
            "[fgc]".prop_map(|name| OutputDelta::Call { name }),
            Just(OutputDelta::End),
        ]
    }

    fn status() -> impl Strategy<Value = Status> {
        prop_oneof![
            Just(Status::Completed),
            Just(Status::Incomplete),
            Just(Status::Cancelled),
            Just(Status::Failed(Failure::Server)),
            Just(Status::Failed(Failure::ShuttingDown)),
        ]
    }

    proptest! {
        #[test]
        fn any_pieces_give_a_stream_by_the_rules(
            heard in prop::collection::vec(prop::option::weighted(0.9, piece()), 0..12),
            status in status(),
        ) {
            let cut = !matches!(status, Status::Completed);
            let pieces: Vec<OutputDelta> = heard.iter().flatten().cloned().collect();
            let brings = |piece: &OutputDelta| matches!(piece, OutputDelta::Call { .. }) || text_len(piece) > 0;
            let mut parts = pieces.rsplit(|piece| *piece == OutputDelta::End);
            // Without any item there will be an empty message, which is not ended by a piece.
            let open = parts.next().is_some_and(|last| last.iter().any(brings))
                || !pieces.iter().any(brings);
            let response = check(&stream(&heard, status));
            let output = response["output"].as_array().expect("a list");
            // Only the last item can be cut, and whether it is, the status says.
            for (index, item) in output.iter().enumerate() {
                let expected = match index + 1 == output.len() && cut && open {
                    true => "incomplete",
                    false => "completed",
                };
                prop_assert_eq!(&item["status"], expected);
            }
            // Nothing that came in is lost.
            let came: usize = pieces.iter().map(text_len).sum();
            let defaulted = output.iter().filter(|item| item["arguments"] == "{}").count() * 2;
            let went: usize = output.iter().map(shown_len).sum();
            prop_assert_eq!(went, came + defaulted);
        }
    }

    fn text_len(piece: &OutputDelta) -> usize {
        match piece {
            OutputDelta::Text(text)
            | OutputDelta::Reasoning(text)
            | OutputDelta::Arguments(text) => text.len(),
            OutputDelta::Call { .. } | OutputDelta::End => 0,
        }
    }

    fn shown_len(item: &Value) -> usize {
        let text = match item["type"].as_str() {
            Some("function_call") => &item["arguments"],
            Some("custom_tool_call") => &item["input"],
            _ => &item["content"][0]["text"],
        };
        text.as_str().expect("text").len()
    }

    #[test]
    fn a_short_answer_is_this_stream() {
        let text = |text: &str| Some(OutputDelta::Text(text.to_owned()));
        let stream = stream(&[text("Hel"), text("lo")], Status::Completed);
        insta::assert_json_snapshot!(stream, {
            "[0].response" => "…", "[1].response" => "…", "[9].response" => "…",
        });
    }
}
