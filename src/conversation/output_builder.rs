//! The answer as it grows: pieces of text go in, items come out, one open at a time.

use std::sync::Arc;

use super::{
    ContentPart, CustomCall, FunctionCall, Item, Message, Reasoning, Role, TokenLogprobs, Tool,
    custom_input::CustomInput, tool,
};
use crate::id::ResponseId;

/// A delta of the output, as the output parser reads it from the model's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputDelta {
    /// More of what is said to the user.
    Text(String),
    /// More reasoning.
    Reasoning(String),
    /// A call begins.
    Call {
        /// Name of the function.
        name: String,
    },
    /// More of the arguments of the call that began last.
    Arguments(String),
    /// The open item is complete. The next delta belongs to another item, even of the same kind.
    End,
}

/// One item of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputItem {
    /// Its name within the API.
    pub id: String,
    /// The item's status.
    pub status: ItemStatus,
    /// The item's content.
    pub content: Output,
    /// Log probabilities of a message's tokens, if the request asks for them.
    pub logprobs: Vec<TokenLogprobs>,
}

/// The kinds of output items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Something said to the user.
    Message(String),
    /// The model's reasoning.
    Reasoning(String),
    /// A function to be run.
    FunctionCall(FunctionCall),
    /// A tool of the client's own kind to be run.
    CustomCall(CustomCall),
}

impl Output {
    /// True if the client is to run something.
    pub fn is_call(&self) -> bool {
        matches!(self, Self::FunctionCall(_) | Self::CustomCall(_))
    }

    /// Returns the text of a message.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Message(text) => Some(text),
            Self::Reasoning(_) | Self::FunctionCall(_) | Self::CustomCall(_) => None,
        }
    }

    /// Returns the text of a reasoning item.
    pub fn reasoning(&self) -> Option<&str> {
        match self {
            Self::Reasoning(text) => Some(text),
            Self::Message(_) | Self::FunctionCall(_) | Self::CustomCall(_) => None,
        }
    }

    fn text_mut(&mut self) -> &mut String {
        match self {
            Self::Message(text) | Self::Reasoning(text) => text,
            Self::FunctionCall(call) => &mut call.arguments,
            Self::CustomCall(call) => &mut call.input,
        }
    }
}

impl From<Output> for Item {
    fn from(output: Output) -> Self {
        match output {
            Output::Message(text) => Self::Message(Message {
                role: Role::Assistant,
                content: vec![ContentPart::Text(text)],
            }),
            Output::Reasoning(text) => Self::Reasoning(Reasoning { text }),
            Output::FunctionCall(call) => Self::FunctionCall(call),
            Output::CustomCall(call) => Self::CustomCall(call),
        }
    }
}

/// The status of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemStatus {
    /// More may follow.
    InProgress,
    /// It is whole.
    Completed,
    /// It was cut.
    Incomplete,
}

/// An event of the output's items. Only an [`OutputBuilder`] makes these, always in this order:
/// item added, any number of deltas, item done, before the next item.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum OutputEvent {
    /// An item begins, still empty.
    ItemAdded {
        /// Its place in the output.
        index: usize,
        /// The item.
        item: OutputItem,
    },
    /// The open item's text or arguments grow.
    Delta {
        /// The added text; never empty.
        delta: String,
        /// The tokens of it, if that is asked for and the item is a message.
        logprobs: Vec<TokenLogprobs>,
    },
    /// The open item ends.
    ItemDone {
        /// Its place in the output.
        index: usize,
        /// The item, whole or cut.
        item: OutputItem,
    },
}

/// The items of one answer, built from pieces. Any sequence of pieces gives well-formed items.
#[derive(Debug)]
pub struct OutputBuilder {
    response: ResponseId,
    tools: Arc<[Tool]>,
    items: Vec<OutputItem>,
    /// Reads the arguments of the call that is open, if it is one of a custom tool.
    input: CustomInput,
}

impl OutputBuilder {
    /// An answer without items, of a model that may call these tools.
    pub fn new(response: ResponseId, tools: Arc<[Tool]>) -> Self {
        Self {
            response,
            tools,
            items: Vec::new(),
            input: CustomInput::default(),
        }
    }

    /// Adds a piece.
    pub fn push(&mut self, piece: OutputDelta) -> Vec<OutputEvent> {
        self.push_with_logprobs(piece, Vec::new())
    }

    /// Adds a piece made of these tokens.
    pub fn push_with_logprobs(
        &mut self,
        piece: OutputDelta,
        logprobs: Vec<TokenLogprobs>,
    ) -> Vec<OutputEvent> {
        let mut events = Vec::new();
        match piece {
            OutputDelta::Call { name } => self.open_call(&name, &mut events),
            OutputDelta::End => self.close(ItemStatus::Completed, &mut events),
            OutputDelta::Text(text)
            | OutputDelta::Reasoning(text)
            | OutputDelta::Arguments(text)
                if text.is_empty() => {}
            OutputDelta::Text(text) => {
                if !matches!(self.open_item(), Some(Output::Message(_))) {
                    self.open("msg", Output::Message(String::new()), &mut events);
                }
                self.grow(text, logprobs, &mut events);
            }
            OutputDelta::Reasoning(text) => {
                if !matches!(self.open_item(), Some(Output::Reasoning(_))) {
                    self.open("rs", Output::Reasoning(String::new()), &mut events);
                }
                self.grow(text, logprobs, &mut events);
            }
            OutputDelta::Arguments(text) => match self.open_item() {
                Some(Output::FunctionCall(_)) => self.grow(text, logprobs, &mut events),
                Some(Output::CustomCall(_)) => {
                    let input = self.input.push(&text);
                    self.grow(input, logprobs, &mut events);
                }
                // Without a call there is nothing these could be arguments of.
                _ => return self.push_with_logprobs(OutputDelta::Text(text), logprobs),
            },
        }
        events
    }

    /// Ends an answer that the model or a limit ended, `status` saying which. It then has at least
    /// one item, because clients look at the first without asking whether there is one.
    pub fn finish(&mut self, status: ItemStatus) -> Vec<OutputEvent> {
        let mut events = Vec::new();
        if self.items.is_empty() {
            self.open("msg", Output::Message(String::new()), &mut events);
        }
        self.close(status, &mut events);
        events
    }

    /// Ends an answer because something broke.
    pub fn break_off(&mut self) -> Vec<OutputEvent> {
        let mut events = Vec::new();
        self.close(ItemStatus::Incomplete, &mut events);
        events
    }

    /// Returns the number of calls so far.
    pub fn calls(&self) -> u64 {
        let calls = self.items.iter().filter(|item| item.content.is_call());
        calls.count() as u64
    }

    /// The items.
    pub fn into_items(self) -> Vec<OutputItem> {
        self.items
    }

    fn open_item(&self) -> Option<&Output> {
        let last = self.items.last()?;
        (last.status == ItemStatus::InProgress).then_some(&last.content)
    }

    fn open_call(&mut self, name: &str, events: &mut Vec<OutputEvent>) {
        self.close(ItemStatus::Completed, events);
        let call_id = self.response.item("call", self.items.len());
        let call = tool::call(&self.tools, name, call_id);
        let prefix = match call {
            Output::CustomCall(_) => "ctc",
            _ => "fc",
        };
        self.input = CustomInput::default();
        self.open(prefix, call, events);
    }

    fn open(&mut self, prefix: &str, content: Output, events: &mut Vec<OutputEvent>) {
        self.close(ItemStatus::Completed, events);
        let index = self.items.len();
        let item = OutputItem {
            id: self.response.item(prefix, index),
            status: ItemStatus::InProgress,
            content,
            logprobs: Vec::new(),
        };
        self.items.push(item.clone());
        events.push(OutputEvent::ItemAdded { index, item });
    }

    /// Adds to the open item, of which there must be one.
    fn grow(
        &mut self,
        delta: String,
        mut logprobs: Vec<TokenLogprobs>,
        events: &mut Vec<OutputEvent>,
    ) {
        let Some(last) = self.items.last_mut() else {
            return;
        };
        if delta.is_empty() {
            return;
        }
        last.content.text_mut().push_str(&delta);
        match last.content {
            Output::Message(_) => last.logprobs.extend_from_slice(&logprobs),
            Output::Reasoning(_) | Output::FunctionCall(_) | Output::CustomCall(_) => {
                logprobs.clear();
            }
        }
        events.push(OutputEvent::Delta { delta, logprobs });
    }

    fn close(&mut self, status: ItemStatus, events: &mut Vec<OutputEvent>) {
        let Some(item) = self.open_item() else {
            return;
        };
        if let Output::FunctionCall(call) = item
            && call.arguments.is_empty()
            && status == ItemStatus::Completed
        {
            self.grow("{}".to_owned(), Vec::new(), events);
        }
        let index = self.items.len() - 1;
        self.items[index].status = status;
        let item = self.items[index].clone();
        events.push(OutputEvent::ItemDone { index, item });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{CustomFormat, CustomTool};

    fn answer() -> OutputBuilder {
        OutputBuilder::new(ResponseId::from_bits(7), Arc::new([]))
    }

    fn shape(events: &[OutputEvent]) -> String {
        let letter = |event: &OutputEvent| match event {
            OutputEvent::ItemAdded { index, .. } => format!("({index}"),
            OutputEvent::Delta { delta, .. } => format!(" {delta}"),
            OutputEvent::ItemDone { item, .. } => match item.status {
                ItemStatus::Incomplete => " cut)".to_owned(),
                _ => ")".to_owned(),
            },
        };
        events.iter().map(letter).collect()
    }

    fn run(pieces: Vec<OutputDelta>) -> String {
        let mut answer = answer();
        let mut events: Vec<_> = pieces.into_iter().flat_map(|p| answer.push(p)).collect();
        events.extend(answer.finish(ItemStatus::Completed));
        shape(&events)
    }

    fn text(text: &str) -> OutputDelta {
        OutputDelta::Text(text.to_owned())
    }

    #[test]
    fn adjacent_pieces_of_a_kind_form_one_item() {
        let reasoning = OutputDelta::Reasoning("hm".into());
        assert_eq!(
            run(vec![reasoning, text("a"), text(""), text("b")]),
            "(0 hm)(1 a b)"
        );
    }

    #[test]
    fn each_call_is_an_item_and_has_arguments() {
        let call = |name: &str| OutputDelta::Call { name: name.into() };
        let pieces = vec![call("f"), call("g"), OutputDelta::Arguments("[1]".into())];
        assert_eq!(run(pieces), "(0 {})(1 [1])");
    }

    #[test]
    fn an_end_parts_items_of_a_kind() {
        let call = OutputDelta::Call { name: "f".into() };
        let pieces = vec![
            OutputDelta::End,
            text("a"),
            OutputDelta::End,
            text("b"),
            OutputDelta::End,
        ];
        assert_eq!(run(pieces), "(0 a)(1 b)");
        let pieces = vec![
            call,
            OutputDelta::End,
            OutputDelta::End,
            OutputDelta::Arguments("x".into()),
        ];
        assert_eq!(run(pieces), "(0 {})(1 x)");
    }

    #[test]
    fn a_custom_call_has_the_text_of_its_one_argument() {
        let custom = Tool::Custom(CustomTool {
            name: "c".into(),
            description: None,
            format: CustomFormat::Text,
        });
        let mut answer = OutputBuilder::new(ResponseId::from_bits(7), Arc::new([custom]));
        let mut events = answer.push(OutputDelta::Call { name: "c".into() });
        for part in ["{\"in", "put\": \"a\\", "nb\"", "}"] {
            events.extend(answer.push(OutputDelta::Arguments(part.into())));
        }
        events.extend(answer.finish(ItemStatus::Completed));
        assert_eq!(shape(&events), "(0 a \nb)");
        let items = answer.into_items();
        assert!(items[0].id.starts_with("ctc_"), "{items:?}");
        assert!(matches!(&items[0].content, Output::CustomCall(call) if call.input == "a\nb"));
    }

    #[test]
    fn arguments_without_a_call_are_text() {
        assert_eq!(run(vec![OutputDelta::Arguments("x".into())]), "(0 x)");
    }

    #[test]
    fn an_answer_of_nothing_is_an_empty_message() {
        assert_eq!(run(vec![]), "(0)");
    }

    #[test]
    fn what_broke_is_cut_and_gets_no_empty_message() {
        assert_eq!(shape(&answer().break_off()), "");
        let mut begun = answer();
        begun.push(text("a"));
        assert_eq!(shape(&begun.break_off()), " cut)");
        assert_eq!(begun.into_items()[0].status, ItemStatus::Incomplete);
    }
}
