//! The domain → chat completions.

use crate::{
    conversation::{Output, OutputItem, ResponseState, Status, Usage, tool::shown_name},
    translate::logprobs,
    wire::chat::{
        AssistantMessage, CalledCustom, CalledFunction, ChatChoice, ChatCompletion, ChatUsage,
        CompletionTokensDetails, PromptTokensDetails, ReasoningText, ToolCall,
    },
};

/// Second name of reasoning in chat completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasoningAlias {
    /// As `reasoning_content` and as `reasoning`.
    Reasoning,
    /// As `reasoning_content` only.
    None,
}

impl ReasoningAlias {
    /// Returns reasoning text under its names.
    pub(super) fn reasoning(self, text: String) -> ReasoningText {
        ReasoningText {
            reasoning: (self == Self::Reasoning).then(|| text.clone()),
            reasoning_content: Some(text),
        }
    }
}

/// Returns the completion of a request's ended choices; there is at least one.
pub fn completion(answers: &[ResponseState], alias: ReasoningAlias) -> Option<ChatCompletion> {
    let first = answers.first()?;
    Some(ChatCompletion {
        id: id(first),
        object: "chat.completion",
        created: first.created_at.as_second(),
        model: first.model.clone(),
        choices: answers
            .iter()
            .enumerate()
            .map(|(index, record)| choice(index, record, alias))
            .collect(),
        usage: usage(answers),
        service_tier: "default",
        system_fingerprint: None,
    })
}

/// The name of a completion: that of its first answer.
pub(super) fn id(first: &ResponseState) -> String {
    format!("chatcmpl-{:032x}", first.id.bits())
}

fn choice(index: usize, record: &ResponseState, alias: ReasoningAlias) -> ChatChoice {
    let reasoning: Vec<&str> = record.contents().filter_map(Output::reasoning).collect();
    let texts: Vec<&str> = record.contents().filter_map(Output::message).collect();
    let tool_calls: Vec<ToolCall> = record.output.iter().filter_map(call).collect();
    ChatChoice {
        index,
        message: AssistantMessage {
            role: "assistant",
            // A message of calls alone has no content.
            content: (!texts.is_empty() || tool_calls.is_empty()).then(|| texts.concat()),
            refusal: None,
            annotations: [],
            reasoning: match reasoning.is_empty() {
                true => ReasoningText::default(),
                false => alias.reasoning(reasoning.concat()),
            },
            tool_calls,
        },
        logprobs: record.logprobs().map(logprobs::in_chat),
        finish_reason: finish_reason(record),
    }
}

/// Returns the call of an item, as far as it has come.
pub(super) fn call(item: &OutputItem) -> Option<ToolCall> {
    match &item.content {
        Output::Message(_) | Output::Reasoning(_) => None,
        Output::FunctionCall(call) => Some(ToolCall {
            id: Some(call.call_id.clone()),
            kind: Some("function"),
            function: Some(CalledFunction {
                name: Some(shown_name(call.namespace.as_deref(), &call.name)),
                arguments: Some(call.arguments.clone()),
            }),
            ..ToolCall::default()
        }),
        Output::CustomCall(call) => Some(ToolCall {
            id: Some(call.call_id.clone()),
            kind: Some("custom"),
            custom: Some(CalledCustom {
                name: Some(call.name.clone()),
                input: Some(call.input.clone()),
            }),
            ..ToolCall::default()
        }),
    }
}

/// Returns the finish reason of an answer.
pub(in crate::translate) fn finish_reason(record: &ResponseState) -> &'static str {
    match record.status {
        Status::Incomplete => "length",
        Status::Completed if record.contents().any(Output::is_call) => "tool_calls",
        Status::Completed | Status::InProgress | Status::Cancelled | Status::Failed(_) => "stop",
    }
}

/// Token counts of all answers; they share one prompt, which counts once.
pub(in crate::translate) fn usage(answers: &[ResponseState]) -> ChatUsage {
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
