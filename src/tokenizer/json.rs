//! Tokenizers from a `tokenizer.json` and the `tokenizer_config.json` beside it.

use std::{collections::HashSet, fs, path::Path};

use serde::Deserialize;
use serde_json::{Map, Value};
use tokenizers::{
    Model as _, ModelWrapper, NormalizedString, Normalizer as _, NormalizerWrapper,
    PostProcessorWrapper, PreTokenizerWrapper,
};

use super::{
    Parts, TokenizerError,
    added::AddedToken,
    decoding::Decoding,
    gguf::CACHED_WORDS,
    pipeline::{Framing, Model, Stages},
    special::SpecialTokens,
};
use crate::id::TokenId;

/// The parts of a `tokenizer.json`.
#[derive(Deserialize)]
struct TokenizerFile {
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    post_processor: Option<PostProcessorWrapper>,
    #[serde(default)]
    decoder: Value,
    model: ModelWrapper,
}

pub(super) fn read(path: &Path, config: &Map<String, Value>) -> Result<Parts, TokenizerError> {
    let text = fs::read(path).map_err(|source| TokenizerError::Read {
        path: path.to_owned(),
        source,
    })?;
    let file: TokenizerFile =
        serde_json::from_slice(&text).map_err(|error| TokenizerError::Malformed {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
    parts(file, config)
}

fn parts(mut file: TokenizerFile, config: &Map<String, Value>) -> Result<Parts, TokenizerError> {
    match &mut file.model {
        ModelWrapper::BPE(model) => model.resize_cache(CACHED_WORDS),
        ModelWrapper::Unigram(_) => {}
        ModelWrapper::WordPiece(_) => return Err(unsupported("WordPiece")),
        ModelWrapper::WordLevel(_) => return Err(unsupported("WordLevel")),
    }
    let special = SpecialTokens::from_config(config);
    let mut added = file.added_tokens;
    add_from_config(&mut added, config);
    add_by_role(&mut added, &special, &file.model);
    normalize(&mut added, file.normalizer.as_ref())?;

    let end = |spelling: &String| added.iter().find(|token| token.content == *spelling);
    let ends = special
        .eos
        .as_ref()
        .and_then(end)
        .map(|token| token.id)
        .into_iter()
        .collect();
    Ok(Parts {
        spellings: spellings(&file.model)?,
        decoding: Decoding::from_json(&file.decoder)?,
        stages: Stages {
            normalizer: file.normalizer,
            pre_tokenizer: file.pre_tokenizer,
            model: Model::Library(Box::new(file.model)),
            framing: file
                .post_processor
                .map_or(Framing::Bare, Framing::Processor),
        },
        added,
        special,
        ends,
    })
}

fn unsupported(model: &str) -> TokenizerError {
    TokenizerError::Unsupported(format!("a `{model}` model"))
}

/// Fills in how a normalised text spells the tokens that are looked for there.
fn normalize(
    added: &mut [AddedToken],
    normalizer: Option<&NormalizerWrapper>,
) -> Result<(), TokenizerError> {
    for token in added.iter_mut().filter(|token| token.normalized) {
        let mut form = NormalizedString::from(token.content.as_str());
        if let Some(normalizer) = normalizer {
            normalizer
                .normalize(&mut form)
                .map_err(|error| TokenizerError::Broken(error.to_string()))?;
        }
        form.get().clone_into(&mut token.normalized_form);
    }
    Ok(())
}

/// Adds the tokens of `added_tokens_decoder` that `tokenizer.json` does not list.
fn add_from_config(added: &mut Vec<AddedToken>, config: &Map<String, Value>) {
    let known: HashSet<TokenId> = added.iter().map(|token| token.id).collect();
    let entries = config
        .get("added_tokens_decoder")
        .and_then(Value::as_object);
    for (id, entry) in entries.into_iter().flatten() {
        let (Ok(id), Ok(token)) = (id.parse(), AddedToken::deserialize(entry)) else {
            continue;
        };
        if !known.contains(&id) {
            added.push(AddedToken { id, ..token });
        }
    }
}

/// Marks tokens as special that `tokenizer_config.json` gives a role.
fn add_by_role(added: &mut Vec<AddedToken>, special: &SpecialTokens, model: &ModelWrapper) {
    for spelling in special.spellings() {
        if let Some(token) = added.iter_mut().find(|token| token.content == spelling) {
            token.special = true;
        } else if let Some(id) = model.token_to_id(spelling) {
            added.push(AddedToken::new(id, spelling, true));
        }
    }
}

/// The spelling of each id. Ids may have gaps, but not more of them than tokens.
fn spellings(model: &ModelWrapper) -> Result<Vec<Option<String>>, TokenizerError> {
    let count = model.get_vocab_size();
    let mut spellings = Vec::with_capacity(count);
    let mut missing = count;
    while missing > 0 {
        let id = TokenId::try_from(spellings.len()).unwrap_or(TokenId::MAX);
        if spellings.len() > 2 * count {
            return Err(TokenizerError::Broken(format!(
                "its {count} ids lie far apart"
            )));
        }
        let spelling = model.id_to_token(id);
        missing -= usize::from(spelling.is_some());
        spellings.push(spelling);
    }
    Ok(spellings)
}
