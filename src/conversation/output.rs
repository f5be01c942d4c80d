//! The items of an answer.

use super::{ContentPart, CustomCall, FunctionCall, Item, Message, Reasoning, Role, TokenLogprobs};

/// One item of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputItem {
    /// Id for the API.
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
    /// Message text.
    Message(String),
    /// The model's reasoning.
    Reasoning(String),
    /// A function call.
    FunctionCall(FunctionCall),
    /// A call of a custom tool.
    CustomCall(CustomCall),
}

impl Output {
    /// True if the client has to run something.
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

    pub(super) fn text_mut(&mut self) -> &mut String {
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
    /// The item is complete.
    Completed,
    /// It was cut.
    Incomplete,
}
