//! A conversation → the tokens of its prompt.

use std::borrow::Cow;

use jiff::{Timestamp, tz::TimeZone};
use sha2::{Digest as _, Sha256};

use super::{
    CreateError, ServedModel,
    continuation::{self, Rebuild, Trait},
    past::Past,
};
use crate::{
    conversation::{Head, Item, Part, RawPrompt, Turn},
    id::TokenId,
    session::ForkPoint,
    template::{ChatTemplate, Rendering, TemplateError},
    tokenizer::PromptPiece,
    translate::{Code, Refusal, inbound, stored},
};

/// The prompt of a turn.
pub(super) struct Prompt {
    pub(super) tokens: Vec<TokenId>,
    /// Where it leaves its parent's session, and how many of the tokens are from there.
    pub(super) fork: Option<(ForkPoint, usize)>,
    /// Why it was rebuilt, if it continues a response and does not fork it.
    pub(super) rebuilt: Option<Rebuild>,
    /// What leads it, as the log keeps it.
    pub(super) head: String,
    pub(super) head_digest: [u8; 32],
}

impl Prompt {
    /// Makes the prompt of a turn, with what it continues.
    pub(super) fn of(
        model: &ServedModel,
        turn: &Turn,
        past: Option<&Past>,
        now: Timestamp,
    ) -> Result<Self, CreateError> {
        let head = stored::head(&turn.head);
        let head_digest = Sha256::digest(&head).into();
        if let Some(raw) = &turn.raw {
            return Ok(Self {
                tokens: raw_tokens(model, raw)?,
                fork: None,
                rebuilt: None,
                head,
                head_digest,
            });
        }
        let items = match past {
            Some(past) => Cow::Owned(past.with(&turn.items)),
            None => Cow::Borrowed(turn.items.as_slice()),
        };
        inbound::refuse_nothing(&turn.head, &items)?;
        let pieces = render(model, &turn.head, &items, now)?;
        refuse_hopeless(model, pieces.iter().map(|piece| text(piece).len()).sum())?;
        let forked = past.map(|past| added(model, turn, past, head_digest, &pieces));
        let (tokens, fork, rebuilt) = match (past, forked) {
            (Some(past), Some(Ok(added))) => {
                let parent = &past.parent;
                let added = model.tokenizer.encode_prompt(&added);
                let fork = (parent.fork, parent.tokens.len());
                let tokens = [parent.tokens.as_slice(), &added].concat();
                (tokens, Some(fork), None)
            }
            (_, reason) => {
                let tokens = model.tokenizer.encode_prompt(&pieces);
                (tokens, None, reason.and_then(Result::err))
            }
        };
        Ok(Self {
            tokens,
            fork,
            rebuilt,
            head,
            head_digest,
        })
    }
}

/// The tokens of a prompt that no template makes.
fn raw_tokens(model: &ServedModel, raw: &RawPrompt) -> Result<Vec<TokenId>, CreateError> {
    let tokens = match raw {
        RawPrompt::Text(text) => {
            refuse_hopeless(model, text.len())?;
            model.tokenizer.encode_text(text, true)
        }
        RawPrompt::Tokens(tokens) => tokens.clone(),
    };
    let vocabulary = model.engine.vocab_size();
    if let Some(unknown) = tokens.iter().find(|&&id| id as usize >= vocabulary) {
        let message = format!("The model has {vocabulary} tokens; there is no {unknown}.");
        return Err(Refusal::of(Code::InvalidValue, "input", message).into());
    }
    if tokens.is_empty() {
        let message = "The model has no token that begins a text, so there must be one.";
        return Err(Refusal::of(Code::EmptyInput, "input", message).into());
    }
    Ok(tokens)
}

/// What the new rendering adds to the parent's tokens, if those can be continued.
fn added(
    model: &ServedModel,
    turn: &Turn,
    past: &Past,
    head_digest: [u8; 32],
    pieces: &[PromptPiece],
) -> Result<Vec<PromptPiece>, Rebuild> {
    let record = &past.parent.record;
    let parent = Trait {
        model: &record.model,
        head_digest: record.head_digest,
    };
    let next = Trait {
        model: &model.id,
        head_digest,
    };
    continuation::may_fork(parent, record.forkable, next)?;
    let then = past.created_at().ok_or(Rebuild::Rendering)?;
    let before = render(model, &turn.head, &past.before, then).map_err(|_| Rebuild::Rendering)?;
    let mut said: String = before.iter().map(text).collect();
    said.extend(past.answer.iter().flat_map(texts));
    let end_tokens = model.end_tokens.iter();
    let end_texts = end_tokens.map(|&id| model.tokenizer.token_text(id));
    let end_texts: Vec<String> = end_texts.filter(|text| !text.is_empty()).collect();
    continuation::suffix(&said, pieces, &end_texts)
}

fn text(piece: &PromptPiece) -> &str {
    match piece {
        PromptPiece::Markup(text) | PromptPiece::Literal(text) => text,
    }
}

/// The texts of an answer, in the order in which the model generated them.
fn texts(item: &Item) -> impl Iterator<Item = &str> {
    let parts = match item {
        Item::Message(message) => message.content.as_slice(),
        Item::Reasoning(_) | Item::FunctionCall(_) | Item::FunctionOutput(_) => &[],
    };
    parts.iter().map(|Part::Text(text)| text.as_str())
}

fn render(
    model: &ServedModel,
    head: &Head,
    items: &[Item],
    now: Timestamp,
) -> Result<Vec<PromptPiece>, CreateError> {
    let rendering = Rendering {
        head,
        items,
        add_generation_prompt: true,
    };
    let now = now.to_zoned_datetime(TimeZone::system());
    let rendered = template(model)?.render(&rendering, &now);
    rendered.map_err(|error| match error {
        TemplateError::Refused(reason) => {
            let message = format!("The model's chat template refuses the conversation: {reason}");
            Refusal::of(Code::TemplateRefused, "input", message).into()
        }
        TemplateError::Broken(reason) => {
            CreateError::Broken(format!("model `{}`: {reason}", model.id))
        }
    })
}

fn template(model: &ServedModel) -> Result<&ChatTemplate, Refusal> {
    model.template.as_deref().ok_or_else(|| {
        let message = format!(
            "The model `{}` has no chat template, so it cannot hold a conversation.",
            model.id
        );
        Refusal::of(Code::UnsupportedModel, "model", message)
    })
}

/// Refuses a text that cannot fit, whatever its tokens are, before time is spent on them.
fn refuse_hopeless(model: &ServedModel, bytes: usize) -> Result<(), Refusal> {
    let tokens_min = bytes / model.longest_token_bytes.max(1);
    match tokens_min >= model.engine.context_length() {
        true => Err(too_long(model, &format!("at least {tokens_min}"))),
        false => Ok(()),
    }
}

/// The refusal of a prompt of so many tokens.
pub(super) fn too_long(model: &ServedModel, prompt: &str) -> Refusal {
    let context = model.engine.context_length();
    let message = format!(
        "The prompt has {prompt} tokens, but the context of `{}` holds {context}, the answer \
         included.",
        model.id
    );
    Refusal::of(Code::ContextLengthExceeded, "input", message)
}
