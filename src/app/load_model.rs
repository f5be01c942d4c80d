//! The name of a model → a model that answers.

use std::{collections::BTreeSet, path::Path, sync::Arc, time::Instant};

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::device;
use crate::{
    cache::snapshot::{ModelSnapshots, Snapshots},
    cli::LoadArgs,
    engine::{EngineHandle, EngineOptions},
    grammar::GrammarCompiler,
    id::TokenId,
    load::{self, ModelFiles, alias},
    output_parser::ParserSpec,
    responses::{SamplingDefaults, ServedModel, longest_token_bytes},
    template::{ChatTemplate, PRESERVE_THINKING},
    tokenizer::Tokenizer,
};

/// A model's id and source: `NAME=MODEL`, or `MODEL` alone.
pub(super) struct ModelName<'a> {
    id: String,
    source: &'a str,
}

impl<'a> ModelName<'a> {
    pub(super) fn parse(text: &'a str) -> Self {
        match text.split_once('=') {
            Some((id, source)) if !id.is_empty() => Self {
                id: id.to_owned(),
                source,
            },
            _ => Self {
                id: id_of(text),
                source: text,
            },
        }
    }
}

/// A path's last part without `.gguf`; aliases and repositories are called what they are called.
fn id_of(source: &str) -> String {
    let path = Path::new(source);
    let is_path = path.exists() || path.is_absolute() || source.starts_with('.');
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if is_path => name.strip_suffix(".gguf").unwrap_or(name).to_owned(),
        _ => source.to_owned(),
    }
}

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

/// Finds, opens and loads a model.
pub(super) fn open(
    name: &ModelName<'_>,
    opening: &ModelOptions<'_>,
) -> anyhow::Result<ServedModel> {
    #[cfg(feature = "scripted")]
    if let Some(tokenizer) = name.source.strip_prefix("scripted:") {
        return super::scripted::open(&name.id, Path::new(tokenizer), opening);
    }
    let started = Instant::now();
    let path = load::resolve(
        name.source,
        &super::sources(opening.loading.download_dir.as_deref()),
    )?;
    let files = load::open(&path)?;
    let tokenizer = Tokenizer::open(&files.tokenizer)
        .with_context(|| format!("{}: the tokenizer", path.display()))?;
    let template = template(&files, &tokenizer)?;
    let parser_spec = ParserSpec::of(template.as_deref(), &tokenizer);
    let template_args = template_args(template.as_deref(), opening);
    let defaults = SamplingDefaults::from_generation_config(&generation_config(name, &files));
    let end_tokens = end_tokens(&files, &tokenizer);
    let is_delicate = alias::find(name.source).is_some_and(|alias| alias.needs_16_bit_activations);
    let fingerprint = opening.snapshots.as_ref().map(|_| files.fingerprint());
    let fingerprint = fingerprint.transpose()?;
    let engine = device::start(files, opening, is_delicate)?;
    tracing::info!(
        model = name.id,
        path = %path.display(),
        context_length = engine.context_length(),
        chat_template = template.is_some(),
        tool_parser = ?parser_spec.family,
        reasoning_parser = parser_spec.thinking.map(|thinking| thinking.open),
        seconds = started.elapsed().as_secs_f64(),
        "model loaded"
    );
    Ok(ServedModel {
        id: name.id.clone(),
        created_at: Timestamp::now(),
        snapshots: fingerprint.and_then(|files| opening.snapshots_of(&files, &engine)),
        engine,
        template,
        parser_spec,
        lenient_tool_calls: opening.lenient_tool_calls,
        template_args,
        defaults,
        max_output_tokens: opening.max_output_tokens,
        grammars: GrammarCompiler::new(tokenizer.clone(), Arc::clone(&end_tokens)),
        end_tokens,
        longest_token_bytes: longest_token_bytes(&tokenizer),
        tokenizer,
    })
}

/// The model's own `generation_config.json`, and for what it leaves open its alias's settings.
fn generation_config(name: &ModelName<'_>, files: &ModelFiles) -> Map<String, Value> {
    let mut config = files.generation_config.clone();
    let recommended = alias::find(name.source).map_or(&[][..], |alias| alias.sampling);
    for &(key, value) in recommended {
        config.entry(key).or_insert_with(|| value.into());
    }
    config
}

/// Every token that any of the files says ends an answer: they often disagree.
fn end_tokens(files: &ModelFiles, tokenizer: &Tokenizer) -> Arc<[TokenId]> {
    let named = files.eos_tokens().into_iter();
    let all: BTreeSet<TokenId> = named.chain(tokenizer.eos_tokens()).collect();
    all.into_iter().collect()
}

/// Returns the operator's template arguments. Reasoning of earlier turns is rendered by default,
/// because then their tokens can be forked.
fn template_args(
    template: Option<&ChatTemplate>,
    opening: &ModelOptions<'_>,
) -> Map<String, Value> {
    let mut args = opening.template_args.clone();
    if template.is_some_and(|template| template.mentions(PRESERVE_THINKING)) {
        args.entry(PRESERVE_THINKING).or_insert(true.into());
    }
    args
}

fn template(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_called_by_its_name_or_by_what_it_is() {
        for (text, id, source) in [
            ("smollm2", "smollm2", "smollm2"),
            ("chat=smollm2", "chat", "smollm2"),
            ("org/name", "org/name", "org/name"),
            (
                "./folder/model-Q4.gguf",
                "model-Q4",
                "./folder/model-Q4.gguf",
            ),
            ("/models/Qwen3-4B", "Qwen3-4B", "/models/Qwen3-4B"),
            ("a=/models/x.gguf", "a", "/models/x.gguf"),
        ] {
            let name = ModelName::parse(text);
            assert_eq!((name.id.as_str(), name.source), (id, source), "{text}");
        }
    }
}
