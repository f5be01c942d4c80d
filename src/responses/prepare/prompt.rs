//! Builds the prompt of a turn from its conversation.

use std::{borrow::Cow, sync::Arc};

use jiff::{Timestamp, tz::TimeZone};
use sha2::{Digest as _, Sha256};

use super::{
    super::{
        CreateError, ServedModel,
        continuation::{self, ForkKey, Parent, RebuildReason},
    },
    parent::ParentState,
    preamble, truncation,
};
use crate::{
    conversation::{ContentPart, Item, Preamble, RawPrompt, Truncation, Turn},
    id::TokenId,
    session::ForkPoint,
    template::{ChatTemplate, Rendering, TemplateError},
    tokenizer::PromptSegment,
    translate::{Code, RequestError, inbound, log_codec},
};

/// The prompt of a turn.
pub(crate) struct Prompt {
    pub(crate) tokens: Vec<TokenId>,
    /// The fork point in the parent's session, and the number of tokens before it.
    pub(crate) fork: Option<(ForkPoint, usize)>,
    /// The reason for a rebuild; `None` if the prompt forks or has no parent.
    pub(crate) rebuilt: Option<RebuildReason>,
    /// The preamble, as the log stores it.
    pub(crate) head: String,
    pub(crate) head_digest: [u8; 32],
    /// The prompt as the template rendered it; `None` without a template.
    pub(crate) text: Option<Arc<str>>,
}

impl Prompt {
    /// Builds the prompt of a turn. `parent` is the continued response, with its rendered prompt if
    /// that is cached.
    pub(crate) fn of(
        model: &ServedModel,
        turn: &Turn,
        parent: Option<(&ParentState, Option<&str>)>,
        now: Timestamp,
    ) -> Result<Self, CreateError> {
        if let Some(raw) = &turn.raw {
            let head = log_codec::head(&turn.head, 0);
            return Ok(Self {
                tokens: raw_tokens(model, raw)?,
                fork: None,
                rebuilt: None,
                head_digest: Sha256::digest(&head).into(),
                head,
                text: None,
            });
        }
        let items = match parent {
            Some((parent, _)) => Cow::Owned(parent.with(&turn.items)),
            None => Cow::Borrowed(turn.items.as_slice()),
        };
        inbound::reject_empty(&turn.head, &items)?;
        if parent.is_some() {
            inbound::check_call_outputs(&turn.items, &items)?;
        }
        let conversation = Conversation {
            model,
            head: preamble::head(model, turn)?,
            parent: parent.map(|(parent, _)| parent),
            parent_prompt: parent.and_then(|(_, prompt)| prompt),
            items: &items,
            now,
        };
        match turn.truncation {
            Truncation::Disabled => conversation.prompt(0),
            Truncation::Auto => conversation.shortened(),
        }
    }
}

/// The inputs of a turn's prompt.
struct Conversation<'a> {
    model: &'a ServedModel,
    head: Preamble,
    parent: Option<&'a ParentState>,
    /// The parent's prompt as its template rendered it, if that is cached.
    parent_prompt: Option<&'a str>,
    items: &'a [Item],
    now: Timestamp,
}

impl Conversation<'_> {
    /// Builds the prompt without the first `left_out` items.
    fn prompt(&self, left_out: usize) -> Result<Prompt, CreateError> {
        let (model, parent) = (self.model, self.parent);
        let head = log_codec::head(&self.head, left_out);
        let head_digest = Sha256::digest(&head).into();
        let items = truncation::without(self.items, left_out);
        let pieces = self.render(&items, self.now)?;
        refuse_hopeless(model, pieces.iter().map(|piece| piece.text().len()).sum())?;
        let forked = parent.map(|parent| self.added(parent, head_digest, left_out, &pieces));
        let (tokens, fork, rebuilt) = match (parent, forked) {
            (Some(parent), Some(Ok(added))) => {
                let parent = &parent.source;
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
        Ok(Prompt {
            tokens,
            fork,
            rebuilt,
            head,
            head_digest,
            text: Some(text_of(&pieces).into()),
        })
    }

    /// Builds the prompt without the items that the parent left out, if that fits. Otherwise leaves
    /// out enough items to make room for more turns.
    fn shortened(&self) -> Result<Prompt, CreateError> {
        let context = self.model.engine.context_length();
        let as_before = self.prompt(self.left_out_before());
        if as_before
            .as_ref()
            .is_ok_and(|prompt| prompt.tokens.len() < context)
        {
            return as_before;
        }
        let cuts = truncation::cuts(self.items);
        let tokens_max = truncation::tokens_max(context);
        let fits = |&left_out: &usize| {
            let prompt = self.prompt(left_out);
            prompt.is_ok_and(|prompt| prompt.tokens.len() <= tokens_max)
        };
        let too_long = cuts.partition_point(|left_out| !fits(left_out));
        match cuts.get(too_long).or(cuts.last()) {
            Some(&left_out) => self.prompt(left_out),
            None => as_before,
        }
    }

    /// Returns the number of items that the parent left out, if its tokens are of the same model.
    fn left_out_before(&self) -> usize {
        let parent = self.parent.map(|parent| &parent.source);
        let parent = parent.filter(|parent| parent.record.model == self.model.id);
        parent.map_or(0, |parent| log_codec::left_out(&parent.head))
    }

    /// Returns what the new rendering adds to the parent's tokens, if they can be continued.
    fn added(
        &self,
        state: &ParentState,
        head_digest: [u8; 32],
        left_out: usize,
        pieces: &[PromptSegment],
    ) -> Result<Vec<PromptSegment>, RebuildReason> {
        let model = self.model;
        let record = &state.source.record;
        let parent = ForkKey {
            model: &record.model,
            preamble_digest: record.preamble_digest,
        };
        let next = ForkKey {
            model: &model.id,
            preamble_digest: head_digest,
        };
        continuation::may_fork(parent, record.forkable, next)?;
        let prompt = match self.parent_prompt {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(self.rendered_then(state, left_out)?),
        };
        let end_tokens = model.end_tokens.iter();
        let end_texts = end_tokens.map(|&id| model.tokenizer.token_text(id));
        let end_texts: Vec<String> = end_texts.filter(|text| !text.is_empty()).collect();
        let answer = generated(&state.output);
        let shown: Vec<&str> = state.output.iter().flat_map(texts).collect();
        let parent = Parent {
            prompt: &prompt,
            answer: answer.as_deref(),
            shown: &shown,
        };
        continuation::added(parent, pieces, &end_texts)
    }

    /// Renders the parent's prompt again.
    fn rendered_then(&self, state: &ParentState, left_out: usize) -> Result<String, RebuildReason> {
        let then = state.created_at().ok_or(RebuildReason::Rendering)?;
        let before = truncation::without(&state.before, left_out);
        let pieces = self.render(&before, then);
        pieces
            .map(|pieces| text_of(&pieces))
            .map_err(|_| RebuildReason::Rendering)
    }

    fn render(&self, items: &[Item], now: Timestamp) -> Result<Vec<PromptSegment>, CreateError> {
        let rendering = Rendering {
            head: &self.head,
            items,
            add_generation_prompt: true,
        };
        let now = now.to_zoned_datetime(TimeZone::system());
        let rendered = template(self.model)?.render(&rendering, &now);
        rendered.map_err(|error| match error {
            TemplateError::Refused(reason) => {
                let message =
                    format!("The model's chat template refuses the conversation: {reason}");
                RequestError::of(Code::TemplateRefused, "input", message).into()
            }
            TemplateError::Broken(reason) => {
                CreateError::Broken(format!("model `{}`: {reason}", self.model.id))
            }
        })
    }
}

fn text_of(pieces: &[PromptSegment]) -> String {
    pieces.iter().map(PromptSegment::text).collect()
}

/// Encodes a prompt without a template.
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
        return Err(RequestError::of(Code::InvalidValue, "input", message).into());
    }
    if tokens.is_empty() {
        let message = "The model has no token that begins a text, so there must be one.";
        return Err(RequestError::of(Code::EmptyInput, "input", message).into());
    }
    Ok(tokens)
}

/// Returns an answer as the model wrote it, if that is known: a single message without markers.
fn generated(answer: &[Item]) -> Option<String> {
    match answer {
        [message @ Item::Message(_)] => Some(texts(message).concat()),
        _ => None,
    }
}

/// Returns the texts of an output item that every rendering contains.
fn texts(item: &Item) -> Vec<&str> {
    match item {
        Item::Message(message) => message
            .content
            .iter()
            .map(|ContentPart::Text(text)| text.as_str())
            .collect(),
        Item::Reasoning(reasoning) => vec![&reasoning.text],
        Item::FunctionCall(call) => vec![&call.name],
        Item::CustomCall(call) => vec![&call.name],
        Item::CallOutput(_) => Vec::new(),
    }
}

fn template(model: &ServedModel) -> Result<&ChatTemplate, RequestError> {
    model.template.as_deref().ok_or_else(|| {
        let message = format!(
            "The model `{}` has no chat template, so it cannot hold a conversation.",
            model.id
        );
        RequestError::of(Code::UnsupportedModel, "model", message)
    })
}

/// Rejects a text that exceeds the context for any tokenisation, before it is tokenised.
fn refuse_hopeless(model: &ServedModel, bytes: usize) -> Result<(), RequestError> {
    let tokens_min = bytes / model.longest_token_bytes.max(1);
    match tokens_min >= model.engine.context_length() {
        true => Err(too_long(model, &format!("at least {tokens_min}"))),
        false => Ok(()),
    }
}

/// Builds the error for a prompt that exceeds the context.
pub(crate) fn too_long(model: &ServedModel, prompt: &str) -> RequestError {
    let context = model.engine.context_length();
    let message = format!(
        "The prompt has {prompt} tokens, but the context of `{}` holds {context}, the answer \
         included.",
        model.id
    );
    RequestError::of(Code::ContextLengthExceeded, "input", message)
}
