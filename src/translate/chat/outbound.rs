//! The domain → chat completions.

use crate::{
    conversation::{Output, OutputItem, Record, Status, Usage},
    translate::logprobs,
    wire::chat::{
        AssistantMessage, ChatChoice, ChatCompletion, ChatUsage, CompletionTokensDetails,
        PromptTokensDetails,
    },
};

/// The completion that the ended answers to one request make; there is at least one.
pub fn completion(answers: &[Record]) -> Option<ChatCompletion> {
    let first = answers.first()?;
    Some(ChatCompletion {
        id: id(first),
        object: "chat.completion",
        created: first.created_at.as_second(),
        model: first.model.clone(),
        choices: answers.iter().enumerate().map(choice).collect(),
        usage: usage(answers),
        service_tier: "default",
        system_fingerprint: None,
    })
}

/// The name of a completion: that of its first answer.
pub(super) fn id(first: &Record) -> String {
    format!("chatcmpl-{:032x}", first.id.bits())
}

fn choice((index, record): (usize, &Record)) -> ChatChoice {
    ChatChoice {
        index,
        message: AssistantMessage {
            role: "assistant",
            content: record.output.iter().filter_map(text).collect(),
            refusal: None,
            annotations: [],
        },
        logprobs: record.turn.sampling.logprobs.map(|_| {
            let tokens = record.output.iter().flat_map(|item| &item.logprobs);
            logprobs::in_chat(&tokens.cloned().collect::<Vec<_>>())
        }),
        finish_reason: finish_reason(&record.status),
    }
}

fn text(item: &OutputItem) -> Option<&str> {
    match &item.content {
        Output::Message(text) => Some(text),
        Output::Reasoning(_) | Output::FunctionCall(_) => None,
    }
}

/// Why an answer ended.
pub(in crate::translate) fn finish_reason(status: &Status) -> &'static str {
    match status {
        Status::Cut => "length",
        Status::Completed | Status::InProgress | Status::Cancelled | Status::Failed(_) => "stop",
    }
}

/// Token counts of all answers; they share one prompt, which counts once.
pub(in crate::translate) fn usage(answers: &[Record]) -> ChatUsage {
    let usages = || answers.iter().filter_map(|answer| answer.usage);
    let first: Usage = usages().next().unwrap_or_default();
    let completion_tokens = usages().map(|usage| usage.output_tokens).sum();
    ChatUsage {
        prompt_tokens: first.input_tokens,
        completion_tokens,
        total_tokens: first.input_tokens + completion_tokens,
        prompt_tokens_details: PromptTokensDetails {
            cached_tokens: first.cached_tokens,
            audio_tokens: 0,
        },
        completion_tokens_details: CompletionTokensDetails {
            reasoning_tokens: usages().map(|usage| usage.reasoning_tokens).sum(),
            ..CompletionTokensDetails::default()
        },
    }
}
