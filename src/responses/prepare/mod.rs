//! Prepares a turn: the engine's job, and the first events of its session.

pub(super) mod parent;
pub(super) mod parent_cache;
pub(super) mod preamble;
pub(super) mod prompt;
pub(super) mod sampling;
pub(super) mod truncation;

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use self::{parent::ParentState, prompt::Prompt};
use super::{
    CreateError, ServedModel, Service, constraint,
    continuation::{RebuildReason, resend::ResendScope},
};
use crate::{
    auth::Caller,
    cache::{CacheScope, PromptCacheKey},
    conversation::{ResponseState, Status, Turn},
    engine::Job,
    id::{ResponseId, TokenId},
    session::{ForkPoint, NewSession, format::event::InputAppended},
    translate::{Code, RequestError, log_codec},
};

/// A turn that is ready to run.
pub struct Prepared {
    pub(super) model: Arc<ServedModel>,
    pub(super) job: Job,
    /// The response at its start.
    pub(super) state: ResponseState,
    pub(super) session: SessionStart,
}

/// The session's first events for the log.
pub(super) struct SessionStart {
    pub(super) opening: NewSession,
    pub(super) input: InputAppended,
    /// The tokens of the whole prompt.
    pub(super) prompt: Vec<TokenId>,
    /// The rendered prompt, for the parent cache; `None` if the turn is not stored.
    pub(super) text: Option<Arc<str>>,
    /// Number of tokens that the session shares with its parent.
    pub(super) shared: usize,
    /// The reason for a rebuild; `None` if the turn forks or has no parent.
    pub(super) rebuilt: Option<RebuildReason>,
    pub(super) head_digest: [u8; 32],
}

impl Prepared {
    /// Returns the number of prompt tokens.
    pub fn input_tokens(&self) -> usize {
        self.job.prompt.len()
    }
}

pub(super) fn prepare(
    service: &Service,
    caller: &Caller,
    mut turn: Turn,
) -> Result<Prepared, CreateError> {
    turn.store &= !service.log.retention().persistence_disabled();
    let load = |id| ParentState::load(service, caller, id);
    let parent = turn.previous.map(load).transpose()?;
    let named = turn.model.as_deref();
    let parents_model = parent
        .as_ref()
        .map(|parent| parent.source.record.model.as_str());
    let model = Arc::clone(service.models.resolve(named.or(parents_model))?);
    refuse_forbidden(&model, caller)?;
    let created_at = service.clock.now();
    let parent_prompt = parent
        .as_ref()
        .and_then(|parent| service.parent_cache.prompt(parent.id()));
    let known = parent
        .as_deref()
        .map(|parent| (parent, parent_prompt.as_deref()));
    let prompt = Prompt::of(&model, &turn, known, created_at)?;
    let room = room_after(&model, prompt.tokens.len())?;
    refuse_unknown_tokens(&model, &turn)?;

    let constraint = constraint::constraint(&model, &turn, &prompt.tokens)?;
    let id = ResponseId::new(created_at.as_millisecond(), service.entropy.draw());
    let seed = service.entropy.draw() as u64;
    let (settings, sampling) = sampling::settle(&turn.sampling, &model.defaults, seed);
    let wanted = turn.max_output_tokens.or(model.max_output_tokens);
    let record = ResponseState {
        id,
        created_at,
        completed_at: None,
        model: model.id.clone(),
        turn: Arc::new(turn),
        sampling: settings,
        status: Status::InProgress,
        output: Vec::new(),
        usage: None,
    };
    let owner = owner_of(caller, parent.as_deref());
    let fork = match &parent {
        Some(_) => prompt.fork,
        None => resent(service, &model.id, owner.as_deref(), &prompt),
    };
    let session = beginning(&record, owner, parent.as_deref(), &prompt, fork);
    let cache_scope = cache_scope(caller);
    let snapshots = model.snapshots.as_ref();
    let job = Job {
        restore: snapshots.and_then(|snapshots| snapshots.find(cache_scope, &prompt.tokens)),
        prompt: prompt.tokens,
        max_new_tokens: wanted.map_or(room, |wanted| {
            room.min(usize::try_from(wanted).unwrap_or(room))
        }),
        sampling,
        end_tokens: match record.turn.ignore_eos && constraint.is_none() {
            true => Arc::new([]),
            false => Arc::clone(&model.end_tokens),
        },
        constraint,
        cache_scope,
        cache_key: record
            .turn
            .labels
            .prompt_cache_key
            .as_deref()
            .map(cache_key),
    };
    Ok(Prepared {
        model,
        job,
        state: record,
        session,
    })
}

/// Returns the owner of the new response: that of its parent if the caller may continue all.
fn owner_of(caller: &Caller, parent: Option<&ParentState>) -> Option<String> {
    match parent {
        Some(parent) if caller.continues_all => parent.source.record.owner.clone(),
        _ => caller.owner.as_deref().map(str::to_owned),
    }
}

/// Returns the fork point of a conversation that the client resends, and the number of tokens before
/// it; `None` if the log does not have its tokens.
fn resent(
    service: &Service,
    model: &str,
    owner: Option<&str>,
    prompt: &Prompt,
) -> Option<(ForkPoint, usize)> {
    let scope = ResendScope { model, owner };
    service
        .resend_index
        .find(&service.log, scope, &prompt.tokens)
}

fn beginning(
    record: &ResponseState,
    owner: Option<String>,
    parent: Option<&ParentState>,
    prompt: &Prompt,
    fork: Option<(ForkPoint, usize)>,
) -> SessionStart {
    let (fork, shared) = fork.unzip();
    SessionStart {
        opening: NewSession {
            id: parent::session_of(record.id),
            owner,
            model: record.model.clone(),
            fork,
            continues: parent.map(ParentState::id),
            created_at_ms: record.created_at.as_millisecond(),
        },
        input: InputAppended {
            items: log_codec::input_items(record.id, &record.turn.items),
            head: prompt.head.clone(),
        },
        prompt: prompt.tokens.clone(),
        text: prompt.text.clone().filter(|_| record.turn.store),
        shared: shared.unwrap_or(0),
        rebuilt: prompt.rebuilt,
        head_digest: prompt.head_digest,
    }
}

/// Returns the cache scope: keys that do not share the cache have one each.
fn cache_scope(caller: &Caller) -> CacheScope {
    match &caller.owner {
        Some(owner) if !caller.shares_cache => CacheScope(digest(owner)),
        _ => CacheScope::default(),
    }
}

/// Returns the cache key of a `prompt_cache_key`.
fn cache_key(name: &str) -> PromptCacheKey {
    PromptCacheKey(digest(name))
}

fn digest(text: &str) -> u64 {
    let digest = Sha256::digest(text.as_bytes());
    u64::from_le_bytes(digest.first_chunk().copied().unwrap_or_default())
}

fn refuse_forbidden(model: &ServedModel, caller: &Caller) -> Result<(), RequestError> {
    match caller.may_use(&model.id) {
        true => Ok(()),
        false => Err(RequestError::model_not_allowed(&model.id)),
    }
}

/// Returns the most tokens that an answer may have after a prompt of `prompt` tokens.
fn room_after(model: &ServedModel, prompt: usize) -> Result<usize, CreateError> {
    match model.engine.context_length().checked_sub(prompt) {
        _ if prompt == 0 => Err(CreateError::Broken(format!(
            "model `{}`: the chat template makes an empty prompt",
            model.id
        ))),
        None | Some(0) => Err(prompt::too_long(model, &prompt.to_string()).into()),
        Some(room) => Ok(room),
    }
}

fn refuse_unknown_tokens(model: &ServedModel, turn: &Turn) -> Result<(), RequestError> {
    let vocabulary = model.engine.vocab_size();
    let unknown = |&&(id, _): &&(TokenId, f64)| id as usize >= vocabulary;
    match turn.sampling.logit_bias.iter().find(unknown) {
        None => Ok(()),
        Some((id, _)) => {
            let message = format!("The model has {vocabulary} tokens; there is no {id}.");
            let param = format!("logit_bias.{id}");
            Err(RequestError::of(Code::InvalidValue, param, message))
        }
    }
}
