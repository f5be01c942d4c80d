//! A turn → a job for the engine.

use std::sync::Arc;

use jiff::{Timestamp, tz::TimeZone};

use super::{CreateError, ServedModel, Service, settings};
use crate::{
    cache::CacheScope,
    conversation::{Record, Status, Turn},
    engine::Job,
    id::{ResponseId, TokenId},
    template::{Rendering, TemplateError},
    tokenizer::PromptPiece,
    translate::{Code, Refusal},
};

/// A turn that is ready to begin.
pub struct Prepared {
    pub(super) model: Arc<ServedModel>,
    pub(super) job: Job,
    /// The response at its beginning.
    pub(super) record: Record,
}

pub(super) fn prepare(service: &Service, turn: Turn) -> Result<Prepared, CreateError> {
    let model = Arc::clone(service.models.resolve(turn.model.as_deref())?);
    let created_at = service.clock.now();
    let prompt = prompt(&model, &turn, created_at)?;
    let room = room_after(&model, prompt.len())?;
    refuse_unknown_tokens(&model, &turn)?;

    let id = ResponseId::from_bits(service.entropy.draw());
    let seed = service.entropy.draw() as u64;
    let (settings, sampling) = settings::settle(&turn.sampling, &model.defaults, seed);
    let wanted = turn.max_output_tokens.or(model.max_output_tokens);
    let wanted = wanted.and_then(|wanted| usize::try_from(wanted).ok());
    let job = Job {
        prompt,
        max_new_tokens: wanted.map_or(room, |wanted| wanted.min(room)),
        sampling,
        end_tokens: match turn.ignore_eos {
            true => Arc::new([]),
            false => Arc::clone(&model.end_tokens),
        },
        cache_scope: CacheScope::default(),
    };
    let record = Record {
        id,
        created_at,
        completed_at: None,
        model: model.id.clone(),
        turn: Arc::new(turn),
        settings,
        status: Status::InProgress,
        output: Vec::new(),
        usage: None,
    };
    Ok(Prepared { model, job, record })
}

/// The tokens of the whole prompt.
fn prompt(model: &ServedModel, turn: &Turn, now: Timestamp) -> Result<Vec<TokenId>, CreateError> {
    let Some(template) = &model.template else {
        let message = format!(
            "The model `{}` has no chat template, so it cannot hold a conversation.",
            model.id
        );
        return Err(Refusal::of(Code::UnsupportedModel, "model", message).into());
    };
    let rendering = Rendering {
        head: &turn.head,
        items: &turn.items,
        add_generation_prompt: true,
    };
    let now = now.to_zoned_datetime(TimeZone::system());
    let pieces = template
        .render(&rendering, &now)
        .map_err(|error| match error {
            TemplateError::Refused(reason) => {
                let message =
                    format!("The model's chat template refuses the conversation: {reason}");
                Refusal::of(Code::TemplateRefused, "input", message).into()
            }
            TemplateError::Broken(reason) => {
                CreateError::Broken(format!("model `{}`: {reason}", model.id))
            }
        })?;
    refuse_hopeless(model, &pieces)?;
    Ok(model.tokenizer.encode_prompt(&pieces))
}

/// Refuses a text that cannot fit, whatever its tokens are, before time is spent on them.
fn refuse_hopeless(model: &ServedModel, pieces: &[PromptPiece]) -> Result<(), Refusal> {
    let bytes = |piece: &PromptPiece| match piece {
        PromptPiece::Markup(text) | PromptPiece::Literal(text) => text.len(),
    };
    let bytes: usize = pieces.iter().map(bytes).sum();
    let tokens_min = bytes / model.longest_token_bytes.max(1);
    match tokens_min >= model.engine.context_length() {
        true => Err(too_long(model, &format!("at least {tokens_min}"))),
        false => Ok(()),
    }
}

/// The number of tokens that an answer may have after a prompt of so many.
fn room_after(model: &ServedModel, prompt: usize) -> Result<usize, CreateError> {
    match model.engine.context_length().checked_sub(prompt) {
        _ if prompt == 0 => Err(CreateError::Broken(format!(
            "model `{}`: the chat template makes an empty prompt",
            model.id
        ))),
        None | Some(0) => Err(too_long(model, &prompt.to_string()).into()),
        Some(room) => Ok(room),
    }
}

fn too_long(model: &ServedModel, prompt: &str) -> Refusal {
    let context = model.engine.context_length();
    let message = format!(
        "The prompt has {prompt} tokens, but the context of `{}` holds {context}, the answer \
         included.",
        model.id
    );
    Refusal::of(Code::ContextLengthExceeded, "input", message)
}

fn refuse_unknown_tokens(model: &ServedModel, turn: &Turn) -> Result<(), Refusal> {
    let vocabulary = model.engine.vocab_size();
    let unknown = |&&(id, _): &&(TokenId, f64)| id as usize >= vocabulary;
    match turn.sampling.logit_bias.iter().find(unknown) {
        None => Ok(()),
        Some((id, _)) => {
            let message = format!("The model has {vocabulary} tokens; there is no {id}.");
            let param = format!("logit_bias.{id}");
            Err(Refusal::of(Code::InvalidValue, param, message))
        }
    }
}
