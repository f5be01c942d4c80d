//! Tokenizers from the `tokenizer.ggml.*` metadata of GGUF files.
//!
//! Format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md#tokenizer>.

use tokenizers::{
    ModelWrapper, NormalizerWrapper,
    models::bpe::{BPE, Merges},
    normalizers::{Prepend, Replace, Sequence},
};

use super::{
    Frame, GgufVocabulary, Parts, TokenizerError,
    added::AddedToken,
    byte_decoder::{self, ByteDecoder, SPACE},
    encoder::{Model, Stages},
    pretokenize::Family,
    scored_bpe::ScoredBpe,
    special::SpecialTokens,
};
use crate::{id::TokenId, limits::TOKENIZER_CACHED_WORDS_MAX};

/// Values of `tokenizer.ggml.token_type`.
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const BYTE: i32 = 6;

pub(super) fn build(vocabulary: &GgufVocabulary) -> Result<Parts, TokenizerError> {
    check(vocabulary)?;
    match vocabulary.model.as_str() {
        "gpt2" => byte_level(vocabulary),
        "llama" => sentencepiece(vocabulary),
        other => Err(TokenizerError::Unsupported(format!(
            "`tokenizer.ggml.model` = `{other}`"
        ))),
    }
}

fn check(vocabulary: &GgufVocabulary) -> Result<(), TokenizerError> {
    let tokens = vocabulary.tokens.len();
    let lengths = [
        ("tokenizer.ggml.scores", vocabulary.scores.len()),
        ("tokenizer.ggml.token_type", vocabulary.token_types.len()),
    ];
    for (key, len) in lengths {
        if len != 0 && len != tokens {
            return Err(TokenizerError::Broken(format!(
                "{len} `{key}` for {tokens} tokens"
            )));
        }
    }
    let roles = [
        ("bos", vocabulary.bos),
        ("eos", vocabulary.eos),
        ("eot", vocabulary.eot),
        ("unknown", vocabulary.unknown),
        ("padding", vocabulary.padding),
    ];
    for (role, id) in roles {
        if let Some(id) = id.filter(|&id| id as usize >= tokens) {
            let key = format!("tokenizer.ggml.{role}_token_id");
            return Err(TokenizerError::Broken(format!(
                "`{key}` is {id} of {tokens} tokens"
            )));
        }
    }
    Ok(())
}

fn byte_level(vocabulary: &GgufVocabulary) -> Result<Parts, TokenizerError> {
    let family = Family::named(vocabulary.pre.as_deref())?;
    let broken = |error: tokenizers::Error| TokenizerError::Broken(error.to_string());
    let model = BPE::builder()
        .vocab_and_merges(ids_by_text(vocabulary), merges(vocabulary)?)
        .ignore_merges(family.ignores_merges)
        .cache_capacity(TOKENIZER_CACHED_WORDS_MAX)
        .build()
        .map_err(broken)?;
    let stages = Stages {
        normalizer: family.normalizer(),
        pre_tokenizer: Some(family.pre_tokenizer().map_err(broken)?),
        model: Model::Library(Box::new(ModelWrapper::BPE(model))),
    };
    let frame = frame(vocabulary, family.adds_bos);
    Ok(parts(vocabulary, stages, frame, ByteDecoder::byte_level()))
}

fn ids_by_text(vocabulary: &GgufVocabulary) -> tokenizers::models::bpe::Vocab {
    (0..)
        .zip(&vocabulary.tokens)
        .map(|(id, token)| (token.clone(), id))
        .collect()
}

fn merges(vocabulary: &GgufVocabulary) -> Result<Merges, TokenizerError> {
    let pair = |merge: &String| {
        // A token text may itself start with a space, so the separator is not the first character.
        let at = merge
            .char_indices()
            .skip(1)
            .find(|&(_, character)| character == ' ');
        let (at, _) = at.ok_or_else(|| {
            TokenizerError::Broken(format!("`{merge}` in `tokenizer.ggml.merges` is no pair"))
        })?;
        Ok((merge[..at].to_owned(), merge[at + 1..].to_owned()))
    };
    vocabulary.merges.iter().map(pair).collect()
}

fn sentencepiece(vocabulary: &GgufVocabulary) -> Result<Parts, TokenizerError> {
    if vocabulary.scores.is_empty() {
        return Err(TokenizerError::Broken(
            "no `tokenizer.ggml.scores`".to_owned(),
        ));
    }
    let adds_space = vocabulary.add_space_prefix.unwrap_or(true);
    let replace =
        Replace::new(" ", SPACE).map_err(|error| TokenizerError::Broken(error.to_string()))?;
    let mut normalizers = vec![NormalizerWrapper::Replace(replace)];
    if adds_space {
        let prepend = Prepend::new(SPACE.to_owned());
        normalizers.insert(0, NormalizerWrapper::Prepend(prepend));
    }
    let stages = Stages {
        normalizer: Some(NormalizerWrapper::Sequence(Sequence::new(normalizers))),
        pre_tokenizer: None,
        model: Model::Scored(scored(vocabulary)?),
    };
    let frame = frame(vocabulary, true);
    let mut parts = parts(
        vocabulary,
        stages,
        frame,
        ByteDecoder::sentencepiece(adds_space),
    );
    for token in &mut parts.added {
        token.normalized = true;
        token.normalized_form = token.content.replace(' ', SPACE);
    }
    Ok(parts)
}

fn scored(vocabulary: &GgufVocabulary) -> Result<ScoredBpe, TokenizerError> {
    let mut bytes = vec![None; 256];
    let mut pieces = Vec::with_capacity(vocabulary.tokens.len());
    for (id, token) in (0..).zip(&vocabulary.tokens) {
        match kind(vocabulary, id) {
            BYTE => {
                if let Some(byte) = byte_decoder::byte_token(token) {
                    bytes[usize::from(byte)] = Some(id);
                }
            }
            UNKNOWN | CONTROL => {}
            _ => pieces.push((token.as_str(), id, vocabulary.scores[id as usize])),
        }
    }
    if vocabulary.unknown.is_none() && bytes.contains(&None) {
        let text = "neither an unknown token nor one for each byte".to_owned();
        return Err(TokenizerError::Broken(text));
    }
    Ok(ScoredBpe::new(
        pieces.into_iter(),
        bytes,
        vocabulary.unknown.unwrap_or_default(),
    ))
}

fn kind(vocabulary: &GgufVocabulary, id: TokenId) -> i32 {
    vocabulary
        .token_types
        .get(id as usize)
        .copied()
        .unwrap_or(1)
}

fn frame(vocabulary: &GgufVocabulary, adds_bos: bool) -> Frame {
    let adds_bos = vocabulary.add_bos.unwrap_or(adds_bos);
    let before = vocabulary.bos.filter(|_| adds_bos).into_iter().collect();
    Frame {
        before,
        after: Vec::new(),
    }
}

fn parts(
    vocabulary: &GgufVocabulary,
    stages: Stages,
    frame: Frame,
    decoding: ByteDecoder,
) -> Parts {
    let token_text = |id: Option<TokenId>| vocabulary.tokens.get(id? as usize).cloned();
    Parts {
        stages,
        frame,
        token_texts: vocabulary.tokens.iter().cloned().map(Some).collect(),
        added: added(vocabulary),
        decoding,
        special: SpecialTokens {
            bos: token_text(vocabulary.bos),
            eos: token_text(vocabulary.eos),
            unk: token_text(vocabulary.unknown),
            pad: token_text(vocabulary.padding),
        },
        ends: vocabulary.eos.into_iter().chain(vocabulary.eot).collect(),
    }
}

fn added(vocabulary: &GgufVocabulary) -> Vec<AddedToken> {
    let token = |(id, content): (TokenId, &String)| match kind(vocabulary, id) {
        CONTROL | UNKNOWN => Some(AddedToken::new(id, content, true)),
        USER_DEFINED => Some(AddedToken::new(id, content, false)),
        _ => None,
    };
    (0..).zip(&vocabulary.tokens).filter_map(token).collect()
}
