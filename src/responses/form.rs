//! The form that an answer must have → what keeps the model to it.

use super::{CreateError, ServedModel, calls, reader::prompt_end};
use crate::{
    conversation::{Format, JsonSchema, Turn},
    dialect::Family,
    grammar::{Form, GrammarError, Shape, Spec, Start},
    id::TokenId,
    sampling::Constraint,
    translate::{Code, Refusal},
};

/// Begins what a Harmony model says to the user, after all else.
const HARMONY_ANSWER: &str = "<|channel|>final<|message|>";

/// What keeps the answer to a turn to its form, if it must have one.
pub(super) fn constraint(
    model: &ServedModel,
    turn: &Turn,
    prompt: &[TokenId],
) -> Result<Option<Box<dyn Constraint>>, CreateError> {
    let (form, path) = match &turn.format {
        Format::Text => return calls::constraint(model, turn, prompt),
        Format::JsonObject => (Form::object(), "text.format"),
        Format::JsonSchema(JsonSchema { schema, path, .. }) => {
            (Form::Schema(schema.clone().into()), path.as_str())
        }
    };
    let spec = Spec {
        shape: Shape::Form(form),
        start: start(model, turn, prompt),
    };
    let constraint = model.grammars.constraint(&spec);
    constraint
        .map(Some)
        .map_err(|error| refusal_of(error, path))
}

/// Where the form begins: behind the model's thoughts, if it has any.
pub(super) fn start(model: &ServedModel, turn: &Turn, prompt: &[TokenId]) -> Start {
    if model.dialect.family == Some(Family::Harmony) {
        return Start::AfterThoughts {
            open: None,
            close: HARMONY_ANSWER.to_owned(),
        };
    }
    let end = prompt_end(model, prompt);
    match model.dialect.thinking {
        None => Start::Now,
        // A text without a template, and thoughts that the prompt has closed.
        Some(_) if turn.raw.is_some() => Start::Now,
        Some(thinking) if end.trim_end().ends_with(thinking.close) => Start::Now,
        Some(thinking) => Start::AfterThoughts {
            open: match model.dialect.thinks_after(&end) {
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
    Refusal::of(Code::InvalidValue, param, message).into()
}
