//! What happens to the answers of one request → the chunks of its stream.

use super::outbound;
use crate::{
    conversation::{AnswerEvent, Output, Record},
    translate::{choices::Choices, logprobs},
    wire::chat::{ChatChunk, ChatUsage, ChunkChoice, Delta},
};

/// Makes the chunks of one stream.
#[derive(Debug)]
pub struct Chunks {
    id: String,
    created: i64,
    model: String,
    include_usage: bool,
    answers: Vec<Answer>,
}

/// How far an answer has come.
#[derive(Debug)]
enum Answer {
    /// The item that is open holds what is said to the user.
    Speaks,
    /// It holds something else, or none is open.
    Silent,
    Ended(Box<Record>),
}

impl Chunks {
    /// The stream of these answers, of which there is at least one, and its first chunks.
    pub fn start(answers: &[&Record], include_usage: bool) -> (Self, Vec<ChatChunk>) {
        let first = answers.first();
        let chunks = Self {
            id: first.map(|first| outbound::id(first)).unwrap_or_default(),
            created: first.map_or(0, |first| first.created_at.as_second()),
            model: first.map(|first| first.model.clone()).unwrap_or_default(),
            include_usage,
            answers: answers.iter().map(|_| Answer::Silent).collect(),
        };
        let opening = Delta {
            role: Some("assistant"),
            content: Some(String::new()),
        };
        let first = (0..answers.len())
            .map(|index| chunks.of(index, opening.clone(), None))
            .collect();
        (chunks, first)
    }

    fn usage(&self) -> ChatUsage {
        let ended = self.answers.iter().filter_map(|answer| match answer {
            Answer::Ended(record) => Some((**record).clone()),
            Answer::Speaks | Answer::Silent => None,
        });
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

impl Choices for Chunks {
    type Chunk = ChatChunk;

    fn answer(&mut self, index: usize, event: AnswerEvent) -> Option<ChatChunk> {
        match event {
            AnswerEvent::Opened { item, .. } => {
                let speaks = matches!(item.content, Output::Message(_));
                self.answers[index] = if speaks {
                    Answer::Speaks
                } else {
                    Answer::Silent
                };
                None
            }
            AnswerEvent::Grown { delta, logprobs } => match self.answers[index] {
                Answer::Speaks => {
                    let delta = Delta {
                        content: Some(delta),
                        ..Delta::default()
                    };
                    let mut chunk = self.of(index, delta, None);
                    if !logprobs.is_empty() {
                        chunk.choices[0].logprobs = Some(logprobs::in_chat(&logprobs));
                    }
                    Some(chunk)
                }
                Answer::Silent | Answer::Ended(_) => None,
            },
            AnswerEvent::Closed { .. } => {
                self.answers[index] = Answer::Silent;
                None
            }
        }
    }

    fn end(&mut self, index: usize, record: Record) -> Vec<ChatChunk> {
        let reason = outbound::finish_reason(&record.status);
        let mut chunks = vec![self.of(index, Delta::default(), Some(reason))];
        self.answers[index] = Answer::Ended(Box::new(record));
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
        let ended = |answer: &Answer| matches!(answer, Answer::Ended(_));
        self.answers.iter().all(ended)
    }
}
