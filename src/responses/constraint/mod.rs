//! Output constraints: structured output and forced tool calls.

pub(super) mod tool_calls;
pub(super) mod tools;

use super::{CreateError, ServedModel, run::decoder::prompt_end};
use crate::{
    conversation::{JsonSchema, OutputFormat, Turn},
    grammar::{GrammarError, GrammarSpec, Shape, StartAt, ValueGrammar},
    id::TokenId,
    output_parser::Family,
    sampling::Constraint,
    translate::{Code, RequestError},
};

/// Opens the answer of a Harmony model, after reasoning and other channels.
const HARMONY_ANSWER: &str = "<|channel|>final<|message|>";

/// Builds a turn's output constraint; `None` if unconstrained.
pub(super) fn constraint(
    model: &ServedModel,
    turn: &Turn,
    prompt: &[TokenId],
) -> Result<Option<Box<dyn Constraint>>, CreateError> {
    let (form, path) = match &turn.format {
        OutputFormat::Text => return tool_calls::constraint(model, turn, prompt),
        OutputFormat::JsonObject => (ValueGrammar::object(), "text.format"),
        OutputFormat::JsonSchema(JsonSchema { schema, path, .. }) => {
            (ValueGrammar::Schema(schema.clone().into()), path.as_str())
        }
    };
    let spec = GrammarSpec {
        shape: Shape::Value(form),
        start: start(model, turn, prompt),
    };
    let constraint = model.grammars.constraint(&spec);
    constraint
        .map(Some)
        .map_err(|error| refusal_of(error, path))
}

/// Returns where the grammar starts: after the model's reasoning, if it has any.
pub(super) fn start(model: &ServedModel, turn: &Turn, prompt: &[TokenId]) -> StartAt {
    if model.parser_spec.family == Some(Family::Harmony) {
        return StartAt::AfterReasoning {
            open: None,
            close: HARMONY_ANSWER.to_owned(),
        };
    }
    let end = prompt_end(model, prompt);
    match model.parser_spec.thinking {
        None => StartAt::Immediately,
        // Raw text without a template, or reasoning that the prompt has closed.
        Some(_) if turn.raw.is_some() => StartAt::Immediately,
        Some(thinking) if end.trim_end().ends_with(thinking.close) => StartAt::Immediately,
        Some(thinking) => StartAt::AfterReasoning {
            open: match model.parser_spec.opens_reasoning(&end) {
                true => None,
                false => Some(thinking.open.to_owned()),
            },
            close: thinking.close.to_owned(),
        },
    }
}

/// The refusal of what the request has at this path.
pub(super) fn refusal_of(error: GrammarError, path: &str) -> CreateError {
    let (steps, reason) = match error {
        GrammarError::Unsupported { path, reason } => (path, reason),
        GrammarError::Broken(reason) => return CreateError::Broken(reason),
    };
    let mut param = path.to_owned();
    for step in steps {
        param.push('.');
        param.push_str(&step);
    }
    let message = format!("`{param}`: {reason}.");
    RequestError::of(Code::InvalidValue, param, message).into()
}
