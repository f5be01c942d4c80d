//! Options for serving a model, and the parts of a model that its files and options decide.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::Context as _;
use serde_json::{Map, Value};

use crate::{
    cache::snapshot::{ModelSnapshots, Snapshots},
    cli::LoadArgs,
    engine::{EngineHandle, EngineOptions},
    id::TokenId,
    load::ModelFiles,
    template::{ChatTemplate, PRESERVE_THINKING},
    tokenizer::Tokenizer,
};

/// Options for serving a model.
pub(super) struct ModelOptions<'a> {
    pub(super) loading: &'a LoadArgs,
    pub(super) engine: EngineOptions,
    /// Arguments of chat templates where a request has none.
    pub(super) template_args: Map<String, Value>,
    /// Longest answer where a request names no length.
    pub(super) max_output_tokens: Option<u64>,
    /// True if a whole answer that is one call as JSON is that call.
    pub(super) lenient_tool_calls: bool,
    /// Prefixes on disk, if there are to be any.
    pub(super) snapshots: Option<Snapshots>,
}

impl ModelOptions<'_> {
    /// The snapshots of a model with these files.
    pub(super) fn snapshots_of(
        &self,
        files: &[u8; 32],
        engine: &EngineHandle,
    ) -> Option<ModelSnapshots> {
        let snapshots = self.snapshots.as_ref()?;
        Some(snapshots.of_model(files, engine.kv_format()?))
    }
}

/// Every token that any of the files says ends an answer: they often disagree.
pub(super) fn eos_tokens(files: &ModelFiles, tokenizer: &Tokenizer) -> Arc<[TokenId]> {
    let named = files.eos_tokens().into_iter();
    let all: BTreeSet<TokenId> = named.chain(tokenizer.eos_tokens()).collect();
    all.into_iter().collect()
}

/// Returns the operator's template arguments. Reasoning of earlier turns is rendered by default,
/// because then their tokens can be forked.
pub(super) fn template_args(
    template: Option<&ChatTemplate>,
    opening: &ModelOptions<'_>,
) -> Map<String, Value> {
    let mut args = opening.template_args.clone();
    if template.is_some_and(|template| template.mentions(PRESERVE_THINKING)) {
        args.entry(PRESERVE_THINKING).or_insert(true.into());
    }
    args
}

/// Compiles the model's chat template; `None` if it has none.
pub(super) fn template(
    files: &ModelFiles,
    tokenizer: &Tokenizer,
) -> anyhow::Result<Option<Arc<ChatTemplate>>> {
    let Some(source) = &files.chat_template else {
        return Ok(None);
    };
    let template = ChatTemplate::compile(
        source,
        &tokenizer.special_tokens(),
        tokenizer.control_token_texts(),
    )
    .with_context(|| format!("{}: the chat template", files.path.display()))?;
    Ok(Some(Arc::new(template)))
}
