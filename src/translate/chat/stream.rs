//! Encodes the output events of one request as chat chunks.

use super::outbound::{self, ReasoningAlias};
use crate::{
    conversation::{Output, OutputEvent, OutputItem, ResponseState},
    translate::{chunk_encoder::ChunkEncoder, logprobs},
    wire::chat::{
        CalledCustom, CalledFunction, ChatChunk, ChatUsage, ChunkChoice, Delta, ToolCall,
    },
};

/// Makes the chunks of one stream.
#[derive(Debug)]
pub struct ChatChunkEncoder {
    id: String,
    created: i64,
    model: String,
    include_usage: bool,
    alias: ReasoningAlias,
    answers: Vec<Answer>,
}

/// Progress of a choice.
#[derive(Debug, Default)]
struct Answer {
    open: Open,
    /// Calls so far.
    calls: usize,
    ended: Option<Box<ResponseState>>,
}

/// The kind of the open item.
#[derive(Debug, Default, Clone, Copy)]
enum Open {
    #[default]
    Nothing,
    Message,
    Reasoning,
    FunctionCall,
    CustomCall,
}

impl ChatChunkEncoder {
    /// The stream of these answers, of which there is at least one, and its first chunks.
    pub fn start(
        answers: &[&ResponseState],
        include_usage: bool,
        alias: ReasoningAlias,
    ) -> (Self, Vec<ChatChunk>) {
        let first = answers.first();
        let chunks = Self {
            id: first.map(|first| outbound::id(first)).unwrap_or_default(),
            created: first.map_or(0, |first| first.created_at.as_second()),
            model: first.map(|first| first.model.clone()).unwrap_or_default(),
            include_usage,
            alias,
            answers: answers.iter().map(|_| Answer::default()).collect(),
        };
        let opening = Delta {
            role: Some("assistant"),
            content: Some(String::new()),
            ..Delta::default()
        };
        let first = (0..answers.len())
            .map(|index| chunks.of(index, opening.clone(), None))
            .collect();
        (chunks, first)
    }

    /// An item begins: calls are told by their names, the others by what they hold.
    fn opened(&mut self, index: usize, item: &OutputItem) -> Option<Delta> {
        let answer = &mut self.answers[index];
        answer.open = match item.content {
            Output::Message(_) => Open::Message,
            Output::Reasoning(_) => Open::Reasoning,
            Output::FunctionCall(_) => Open::FunctionCall,
            Output::CustomCall(_) => Open::CustomCall,
        };
        let call = outbound::call(item)?;
        answer.calls += 1;
        Some(of_call(ToolCall {
            index: Some(answer.calls - 1),
            ..call
        }))
    }

    fn grown(&self, index: usize, delta: String) -> Option<Delta> {
        let answer = &self.answers[index];
        let call = || ToolCall {
            index: Some(answer.calls.saturating_sub(1)),
            ..ToolCall::default()
        };
        Some(match answer.open {
            Open::Nothing => return None,
            Open::Message => Delta {
                content: Some(delta),
                ..Delta::default()
            },
            Open::Reasoning => Delta {
                reasoning: self.alias.reasoning(delta),
                ..Delta::default()
            },
            Open::FunctionCall => of_call(ToolCall {
                function: Some(CalledFunction {
                    name: None,
                    arguments: Some(delta),
                }),
                ..call()
            }),
            Open::CustomCall => of_call(ToolCall {
                custom: Some(CalledCustom {
                    name: None,
                    input: Some(delta),
                }),
                ..call()
            }),
        })
    }

    fn usage(&self) -> ChatUsage {
        let ended = self
            .answers
            .iter()
            .filter_map(|answer| answer.ended.as_deref().cloned());
        outbound::usage(&ended.collect::<Vec<_>>())
    }

    fn of(&self, index: usize, delta: Delta, finish_reason: Option<&'static str>) -> ChatChunk {
        let choice = ChunkChoice {
            index,
            delta,
            logprobs: None,
            finish_reason,
        };
        ChatChunk {
            choices: vec![choice],
            ..self.chunk()
        }
    }

    fn chunk(&self) -> ChatChunk {
        ChatChunk {
            id: self.id.clone(),
            object: "chat.completion.chunk",
            created: self.created,
            model: self.model.clone(),
            choices: Vec::new(),
            usage: self.include_usage.then_some(None),
            service_tier: "default",
            system_fingerprint: None,
        }
    }
}

fn of_call(call: ToolCall) -> Delta {
    Delta {
        tool_calls: vec![call],
        ..Delta::default()
    }
}

impl ChunkEncoder for ChatChunkEncoder {
    type Chunk = ChatChunk;

    fn answer(&mut self, index: usize, event: OutputEvent) -> Option<ChatChunk> {
        let (delta, tokens) = match event {
            OutputEvent::ItemAdded { item, .. } => (self.opened(index, &item)?, Vec::new()),
            OutputEvent::Delta { delta, logprobs } => (self.grown(index, delta)?, logprobs),
            OutputEvent::ItemDone { .. } => {
                self.answers[index].open = Open::Nothing;
                return None;
            }
        };
        let mut chunk = self.of(index, delta, None);
        if !tokens.is_empty() {
            chunk.choices[0].logprobs = Some(logprobs::in_chat(&tokens));
        }
        Some(chunk)
    }

    fn end(&mut self, index: usize, record: ResponseState) -> Vec<ChatChunk> {
        let reason = outbound::finish_reason(&record);
        let mut chunks = vec![self.of(index, Delta::default(), Some(reason))];
        self.answers[index].ended = Some(Box::new(record));
        if self.include_usage && self.is_over() {
            chunks.push(ChatChunk {
                choices: Vec::new(),
                usage: Some(Some(self.usage())),
                ..self.chunk()
            });
        }
        chunks
    }

    fn is_over(&self) -> bool {
        self.answers.iter().all(|answer| answer.ended.is_some())
    }
}
