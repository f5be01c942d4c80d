//! The events of a streamed response.

use serde::Serialize;
use utoipa::ToSchema;

use super::{
    ErrorObject, Response,
    response::{OutputItem, OutputPart, TokenLogprob},
};

/// One event: its name, its number, and what it carries.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Event {
    /// Such as `response.output_text.delta`.
    #[serde(rename = "type")]
    pub name: &'static str,
    /// Counts from 0 without gaps.
    pub sequence_number: u64,
    /// The other keys.
    #[serde(flatten)]
    pub body: EventBody,
}

/// Body of an event; its keys depend on the type.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub enum EventBody {
    Response {
        response: Box<Response>,
    },
    Item {
        output_index: usize,
        item: OutputItem,
    },
    Part {
        item_id: String,
        output_index: usize,
        content_index: usize,
        part: OutputPart,
    },
    TextDelta {
        item_id: String,
        output_index: usize,
        content_index: usize,
        delta: String,
        logprobs: Vec<TokenLogprob>,
    },
    TextDone {
        item_id: String,
        output_index: usize,
        content_index: usize,
        text: String,
        logprobs: Vec<TokenLogprob>,
    },
    ReasoningDelta {
        item_id: String,
        output_index: usize,
        content_index: usize,
        delta: String,
    },
    ReasoningDone {
        item_id: String,
        output_index: usize,
        content_index: usize,
        text: String,
    },
    ArgumentsDelta {
        item_id: String,
        output_index: usize,
        delta: String,
    },
    ArgumentsDone {
        item_id: String,
        output_index: usize,
        name: String,
        arguments: String,
    },
    InputDelta {
        item_id: String,
        output_index: usize,
        delta: String,
    },
    InputDone {
        item_id: String,
        output_index: usize,
        input: String,
    },
    /// The error both flat and nested: clients differ in where they look.
    Error {
        #[schema(required)]
        code: Option<&'static str>,
        message: String,
        #[schema(required)]
        param: Option<String>,
        error: ErrorObject,
    },
}
