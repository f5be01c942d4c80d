//! The domain → completions, whole and in chunks.

use crate::{
    conversation::{Output, OutputEvent, RawPrompt, ResponseState},
    translate::{
        chat::{self, finish_reason},
        chunk_encoder::ChunkEncoder,
        logprobs,
    },
    wire::{
        chat::ChatUsage,
        completion::{Completion, CompletionChoice},
    },
};

/// Returns the completion of a request's ended choices: `answers` for each prompt, with the prompts
/// in front if `echo` is set. There is at least one.
pub fn completion(records: &[ResponseState], answers: usize, echo: bool) -> Option<Completion> {
    let first = records.first()?;
    let choices = records.iter().enumerate().map(|(index, record)| {
        let said = record.contents().filter_map(Output::message);
        let repeated = echoed(record, echo);
        CompletionChoice {
            index,
            text: repeated.into_iter().chain(said).collect(),
            logprobs: record
                .logprobs()
                .map(|tokens| logprobs::in_completion(tokens, 0).0),
            finish_reason: Some(finish_reason(record)),
        }
    });
    Some(Completion {
        choices: choices.collect(),
        usage: Some(Some(usage(records, answers))),
        ..frame(first)
    })
}

fn echoed(record: &ResponseState, echo: bool) -> Option<&str> {
    match &record.turn.raw {
        Some(RawPrompt::Text(text)) if echo => Some(text),
        _ => None,
    }
}

fn frame(first: &ResponseState) -> Completion {
    Completion {
        id: format!("cmpl-{:032x}", first.id.bits()),
        object: "text_completion",
        created: first.created_at.as_second(),
        model: first.model.clone(),
        choices: Vec::new(),
        usage: None,
        system_fingerprint: None,
    }
}

/// Returns the token counts of all choices; choices of one prompt share its count.
fn usage(records: &[ResponseState], answers: usize) -> ChatUsage {
    let mut all = ChatUsage::default();
    for records in records.chunks(answers.max(1)) {
        let usage = chat::usage(records);
        all.prompt_tokens += usage.prompt_tokens;
        all.completion_tokens += usage.completion_tokens;
        all.total_tokens += usage.total_tokens;
        all.prompt_tokens_details.cached_tokens += usage.prompt_tokens_details.cached_tokens;
    }
    all
}

/// Makes the chunks of one stream.
#[derive(Debug)]
pub struct CompletionChunkEncoder {
    frame: Completion,
    /// Answers to each prompt.
    answers: usize,
    include_usage: bool,
    ended: Vec<Option<ResponseState>>,
    /// Characters of each choice whose log probabilities were sent.
    offsets: Vec<usize>,
}

impl CompletionChunkEncoder {
    /// The stream of these answers, and its first chunks.
    pub fn start(
        records: &[&ResponseState],
        answers: usize,
        echo: bool,
        include_usage: bool,
    ) -> Option<(Self, Vec<Completion>)> {
        let first = records.first()?;
        let chunks = Self {
            frame: Completion {
                usage: include_usage.then_some(None),
                ..frame(first)
            },
            answers,
            include_usage,
            ended: vec![None; records.len()],
            offsets: vec![0; records.len()],
        };
        let repeated = records.iter().enumerate().filter_map(|(index, record)| {
            let text = echoed(record, echo)?;
            Some(chunks.of(index, text.to_owned(), None))
        });
        let repeated = repeated.collect();
        Some((chunks, repeated))
    }

    fn of(&self, index: usize, text: String, finish_reason: Option<&'static str>) -> Completion {
        let choice = CompletionChoice {
            index,
            text,
            logprobs: None,
            finish_reason,
        };
        Completion {
            choices: vec![choice],
            ..self.frame.clone()
        }
    }
}

impl ChunkEncoder for CompletionChunkEncoder {
    type Chunk = Completion;

    fn answer(&mut self, index: usize, event: OutputEvent) -> Option<Completion> {
        // Without a template there is nothing but text.
        match event {
            OutputEvent::Delta { delta, logprobs } => {
                let mut chunk = self.of(index, delta, None);
                if !logprobs.is_empty() {
                    let (shown, end) = logprobs::in_completion(&logprobs, self.offsets[index]);
                    self.offsets[index] = end;
                    chunk.choices[0].logprobs = Some(shown);
                }
                Some(chunk)
            }
            OutputEvent::ItemAdded { .. } | OutputEvent::ItemDone { .. } => None,
        }
    }

    fn end(&mut self, index: usize, record: ResponseState) -> Vec<Completion> {
        let reason = finish_reason(&record);
        let mut chunks = vec![self.of(index, String::new(), Some(reason))];
        self.ended[index] = Some(record);
        if self.include_usage && self.is_over() {
            let records: Vec<ResponseState> = self.ended.iter().flatten().cloned().collect();
            chunks.push(Completion {
                usage: Some(Some(usage(&records, self.answers))),
                ..self.frame.clone()
            });
        }
        chunks
    }

    fn is_over(&self) -> bool {
        self.ended.iter().all(Option::is_some)
    }
}
