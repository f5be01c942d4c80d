//! Tokenizers from a `tokenizer.json` and the `tokenizer_config.json` beside it.

use std::{collections::HashSet, fs, path::Path};

use serde::Deserialize;
use serde_json::{Map, Value};
use tokenizers::{
    Encoding, Model as _, ModelWrapper, NormalizedString, Normalizer as _, NormalizerWrapper,
    PostProcessor as _, PostProcessorWrapper, PreTokenizerWrapper, Token,
    models::{bpe::BPE, unigram::Unigram},
};

use super::{
    Frame, Parts, TokenizerError,
    added::AddedToken,
    byte_decoder::ByteDecoder,
    encoder::{Model, Stages},
    special::SpecialTokens,
};
use crate::{
    id::TokenId,
    limits::{TOKENIZER_CACHED_WORDS_MAX, TOKENIZER_UNUSED_IDS_MAX},
};

/// The parts of a `tokenizer.json` whose model is an `M`.
#[derive(Deserialize)]
struct TokenizerFile<M> {
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    post_processor: Option<PostProcessorWrapper>,
    #[serde(default)]
    decoder: Value,
    model: M,
}

/// A first look at a `tokenizer.json`. Knowing the model's type, the second look can read its
/// hundreds of thousands of entries straight into place.
#[derive(Deserialize)]
struct Outline {
    model: ModelOutline,
}

#[derive(Deserialize)]
struct ModelOutline {
    /// Absent in old files, which hold BPE.
    r#type: Option<String>,
}

pub(super) fn read(path: &Path, config: &Map<String, Value>) -> Result<Parts, TokenizerError> {
    let text = fs::read(path).map_err(|source| TokenizerError::Read {
        path: path.to_owned(),
        source,
    })?;
    let malformed = |error: serde_json::Error| TokenizerError::Malformed {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let outline: Outline = serde_json::from_slice(&text).map_err(malformed)?;
    match outline.model.r#type.as_deref().unwrap_or("BPE") {
        "BPE" => {
            let mut file: TokenizerFile<BPE> = serde_json::from_slice(&text).map_err(malformed)?;
            file.model.resize_cache(TOKENIZER_CACHED_WORDS_MAX);
            // Made for training; the same text must always give the same ids.
            file.model.dropout = None;
            parts(file, config)
        }
        "Unigram" => {
            let file: TokenizerFile<Unigram> = serde_json::from_slice(&text).map_err(malformed)?;
            parts(file, config)
        }
        other => Err(TokenizerError::Unsupported(format!("a `{other}` model"))),
    }
}

fn parts<M: Into<ModelWrapper>>(
    file: TokenizerFile<M>,
    config: &Map<String, Value>,
) -> Result<Parts, TokenizerError> {
    let model = file.model.into();
    let special = SpecialTokens::from_config(config);
    let mut added = file.added_tokens;
    add_from_config(&mut added, config);
    add_by_role(&mut added, &special, &model);
    normalize(&mut added, file.normalizer.as_ref())?;

    let end = |token_text: &String| added.iter().find(|token| token.content == *token_text);
    let ends = special
        .eos
        .as_ref()
        .and_then(end)
        .map(|token| token.id)
        .into_iter()
        .collect();
    Ok(Parts {
        token_texts: token_texts(&model)?,
        decoding: ByteDecoder::from_json(&file.decoder)?,
        frame: frame(file.post_processor.as_ref())?,
        stages: Stages {
            normalizer: file.normalizer,
            pre_tokenizer: file.pre_tokenizer,
            model: Model::Library(Box::new(model)),
        },
        added,
        special,
        ends,
    })
}

/// Returns the tokens that a post-processor puts around a text, found by processing a token that
/// does not exist.
fn frame(processor: Option<&PostProcessorWrapper>) -> Result<Frame, TokenizerError> {
    let Some(processor) = processor else {
        return Ok(Frame::default());
    };
    let text = Encoding::from_tokens(vec![Token::new(TokenId::MAX, String::new(), (0, 0))], 0);
    let framed = processor
        .process(text, None, true)
        .map_err(|error| TokenizerError::Broken(error.to_string()))?;
    let mut sides = framed
        .get_ids()
        .split(|&id| id == TokenId::MAX)
        .map(<[TokenId]>::to_vec);
    match (sides.next(), sides.next(), sides.next()) {
        (Some(before), Some(after), None) => Ok(Frame { before, after }),
        _ => Err(TokenizerError::Unsupported(
            "a post-processor that repeats the text".to_owned(),
        )),
    }
}

/// Fills in the normalised texts of the tokens that are searched in normalised text.
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
    for token_text in special.token_texts() {
        if let Some(token) = added.iter_mut().find(|token| token.content == token_text) {
            token.special = true;
        } else if let Some(id) = model.token_to_id(token_text) {
            added.push(AddedToken::new(id, token_text, true));
        }
    }
}

/// Returns the token text of each id. Ids may have gaps, within limits.
fn token_texts(model: &ModelWrapper) -> Result<Vec<Option<String>>, TokenizerError> {
    let count = model.get_vocab_size();
    let mut token_texts = Vec::with_capacity(count);
    let mut missing = count;
    for id in (0..).take(count + TOKENIZER_UNUSED_IDS_MAX) {
        if missing == 0 {
            return Ok(token_texts);
        }
        let token_text = model.id_to_token(id);
        missing -= usize::from(token_text.is_some());
        token_texts.push(token_text);
    }
    Err(TokenizerError::Broken(format!(
        "the ids of its {count} tokens lie far apart"
    )))
}
