//! The domain → response objects.

use jiff::Timestamp;

use super::{format, logprobs};
use crate::{
    conversation::{
        CallKind, CustomFormat, Failure, FunctionTool, GrammarSyntax, ItemStatus, NamedTool,
        Output, OutputItem, ResponseState, Status, TokenLogprobs, Tool, ToolChoice, Truncation,
        Usage, Verbosity,
    },
    wire::{ErrorObject, Response, response as wire},
};

/// Returns the response object of a response, as far as it has come.
pub fn response(record: &ResponseState) -> Response {
    let turn = &record.turn;
    let labels = &turn.labels;
    Response {
        id: record.id.to_string(),
        object: "response",
        created_at: record.created_at.as_second(),
        completed_at: record.completed_at.map(Timestamp::as_second),
        status: status(&record.status),
        error: error(&record.status),
        incomplete_details: (record.status == Status::Incomplete).then_some(
            wire::IncompleteDetails {
                reason: "max_output_tokens",
            },
        ),
        model: record.model.clone(),
        instructions: turn.head.instructions.clone(),
        previous_response_id: turn.previous.map(|id| id.to_string()),
        output: record.output.iter().map(item).collect(),
        // As clients' libraries compute it, too.
        output_text: record.contents().filter_map(Output::message).collect(),
        tools: turn.tools.iter().map(tool).collect(),
        tool_choice: tool_choice(&turn.tool_rules.choice),
        parallel_tool_calls: turn.tool_rules.parallel,
        max_tool_calls: turn.tool_rules.calls_max,
        truncation: match turn.truncation {
            Truncation::Disabled => "disabled",
            Truncation::Auto => "auto",
        },
        text: wire::TextConfig {
            format: format::shown(&turn.format),
            verbosity: turn.verbosity.map(verbosity),
        },
        reasoning: wire::ReasoningConfig {
            effort: turn.effort.clone(),
            summary: None,
        },
        temperature: record.sampling.temperature,
        top_p: record.sampling.top_p,
        presence_penalty: record.sampling.presence_penalty,
        frequency_penalty: record.sampling.frequency_penalty,
        top_logprobs: turn.sampling.logprobs.unwrap_or(0),
        max_output_tokens: turn.max_output_tokens,
        store: turn.store,
        background: false,
        service_tier: "default",
        metadata: labels.metadata.clone(),
        safety_identifier: labels.safety_identifier.clone(),
        prompt_cache_key: labels.prompt_cache_key.clone(),
        user: labels.user.clone(),
        usage: record.usage.as_ref().map(usage),
    }
}

/// One item of the output.
pub fn item(item: &OutputItem) -> wire::OutputItem {
    let id = item.id.clone();
    let status = item_status(item.status);
    match &item.content {
        Output::Message(text) => wire::OutputItem::Message {
            id,
            status,
            role: "assistant",
            content: vec![text_part(text.clone(), &item.logprobs)],
        },
        Output::Reasoning(text) => wire::OutputItem::Reasoning {
            id,
            status,
            summary: [],
            content: vec![reasoning_part(text.clone())],
        },
        Output::FunctionCall(call) => wire::OutputItem::FunctionCall {
            id,
            status,
            call_id: call.call_id.clone(),
            name: call.name.clone(),
            namespace: call.namespace.clone(),
            arguments: call.arguments.clone(),
        },
        Output::CustomCall(call) => wire::OutputItem::CustomToolCall {
            id,
            status,
            call_id: call.call_id.clone(),
            name: call.name.clone(),
            input: call.input.clone(),
        },
    }
}

/// Returns the error object for a failure.
pub fn failure(failure: Failure) -> ErrorObject {
    ErrorObject {
        message: failure_text(failure).to_owned(),
        kind: match failure {
            Failure::Server | Failure::ShuttingDown | Failure::Storage => "server_error",
            Failure::QueueTimeout => "rate_limit_error",
        },
        param: None,
        code: Some(failure_code(failure)),
    }
}

fn failure_code(failure: Failure) -> &'static str {
    match failure {
        Failure::Server | Failure::ShuttingDown => "server_error",
        Failure::Storage => "storage_unavailable",
        Failure::QueueTimeout => "rate_limit_exceeded",
    }
}

fn failure_text(failure: Failure) -> &'static str {
    match failure {
        Failure::Server => "The server had an error while generating the response.",
        Failure::ShuttingDown => "The server is shutting down.",
        Failure::Storage => "The response could not be stored.",
        Failure::QueueTimeout => {
            "The server had no time for the request while it might wait; try again later."
        }
    }
}

fn status(status: &Status) -> &'static str {
    match status {
        Status::InProgress => "in_progress",
        Status::Completed => "completed",
        Status::Incomplete => "incomplete",
        Status::Cancelled => "cancelled",
        Status::Failed(_) => "failed",
    }
}

fn error(status: &Status) -> Option<wire::ResponseError> {
    match status {
        Status::Failed(failure) => Some(wire::ResponseError {
            code: failure_code(*failure),
            message: failure_text(*failure).to_owned(),
        }),
        Status::InProgress | Status::Completed | Status::Incomplete | Status::Cancelled => None,
    }
}

fn item_status(status: ItemStatus) -> &'static str {
    match status {
        ItemStatus::InProgress => "in_progress",
        ItemStatus::Completed => "completed",
        ItemStatus::Incomplete => "incomplete",
    }
}

/// The part that a message has.
pub(super) fn text_part(text: String, likely: &[TokenLogprobs]) -> wire::OutputPart {
    wire::OutputPart::OutputText {
        text,
        annotations: [],
        logprobs: logprobs::in_part(likely),
    }
}

/// The part that a reasoning item has.
pub(super) fn reasoning_part(text: String) -> wire::OutputPart {
    wire::OutputPart::ReasoningText { text }
}

/// A tool as it was declared.
fn tool(tool: &Tool) -> wire::Tool {
    match tool {
        Tool::Function(tool) => function(tool),
        Tool::Namespace(namespace) => wire::Tool::Namespace {
            name: namespace.name.clone(),
            // Clients require one.
            description: namespace.description.clone().unwrap_or_default(),
            tools: namespace.tools.iter().map(function).collect(),
        },
        Tool::Custom(custom) => wire::Tool::Custom {
            name: custom.name.clone(),
            description: custom.description.clone(),
            format: match &custom.format {
                CustomFormat::Text => wire::CustomFormat::Text,
                CustomFormat::Grammar {
                    syntax, definition, ..
                } => wire::CustomFormat::Grammar {
                    syntax: match syntax {
                        GrammarSyntax::Lark => "lark",
                        GrammarSyntax::Regex => "regex",
                    },
                    definition: definition.clone(),
                },
            },
        },
    }
}

fn tool_choice(choice: &ToolChoice) -> wire::ToolChoice {
    match choice {
        ToolChoice::Auto => wire::ToolChoice::Word("auto"),
        ToolChoice::None => wire::ToolChoice::Word("none"),
        ToolChoice::Required => wire::ToolChoice::Word("required"),
        ToolChoice::Named(tool) => wire::ToolChoice::Tool(named_tool(tool)),
        ToolChoice::Allowed { required, tools } => wire::ToolChoice::Allowed {
            kind: "allowed_tools",
            mode: if *required { "required" } else { "auto" },
            tools: tools.iter().map(named_tool).collect(),
        },
    }
}

fn named_tool(tool: &NamedTool) -> wire::NamedTool {
    wire::NamedTool {
        kind: match tool.kind {
            CallKind::Function => "function",
            CallKind::Custom => "custom",
        },
        namespace: tool.namespace.clone(),
        name: tool.name.clone(),
    }
}

/// A function as it was declared, or as a model is shown it.
pub(super) fn function(tool: &FunctionTool) -> wire::Tool {
    wire::Tool::Function(wire::FunctionTool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.clone(),
        strict: tool.strict,
    })
}

fn verbosity(verbosity: Verbosity) -> &'static str {
    match verbosity {
        Verbosity::Low => "low",
        Verbosity::Medium => "medium",
        Verbosity::High => "high",
    }
}

fn usage(usage: &Usage) -> wire::Usage {
    wire::Usage {
        input_tokens: usage.input_tokens,
        input_tokens_details: wire::InputTokensDetails {
            cached_tokens: usage.cached_tokens,
            cache_write_tokens: usage.cache_write_tokens,
        },
        output_tokens: usage.output_tokens,
        output_tokens_details: wire::OutputTokensDetails {
            reasoning_tokens: usage.reasoning_tokens,
        },
        total_tokens: usage.input_tokens + usage.output_tokens,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        conversation::{OutputBuilder, OutputDelta},
        translate::sample,
    };

    fn answered() -> Vec<OutputItem> {
        let mut answer = OutputBuilder::new(sample::record().id, Arc::new([]));
        for piece in [
            OutputDelta::Reasoning("Hm.".into()),
            OutputDelta::Text("It ".into()),
            OutputDelta::Text("depends.".into()),
            OutputDelta::Call { name: "f".into() },
        ] {
            answer.push(piece);
        }
        answer.finish(ItemStatus::Completed);
        answer.into_items()
    }

    #[test]
    fn a_completed_response_has_every_key() {
        let record = ResponseState {
            status: Status::Completed,
            completed_at: Timestamp::from_second(5).ok(),
            output: answered(),
            usage: Some(sample::usage()),
            ..sample::record()
        };
        insta::assert_json_snapshot!(response(&record));
    }

    #[test]
    fn each_status_shows_what_belongs_to_it() {
        let shown = |status: Status| {
            let shown = response(&ResponseState {
                status,
                ..sample::record()
            });
            let reason = shown.incomplete_details.map(|details| details.reason);
            (shown.status, reason, shown.error.map(|error| error.code))
        };
        assert_eq!(shown(Status::InProgress), ("in_progress", None, None));
        let cut = ("incomplete", Some("max_output_tokens"), None);
        assert_eq!(shown(Status::Incomplete), cut);
        let failed = ("failed", None, Some("server_error"));
        assert_eq!(shown(Status::Failed(Failure::Server)), failed);
        let unstored = ("failed", None, Some("storage_unavailable"));
        assert_eq!(shown(Status::Failed(Failure::Storage)), unstored);
    }
}
