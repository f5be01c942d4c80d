//! A tokenizer's tokens as a trie of their bytes, which grammars are matched against.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use llguidance::{
    ParserFactory,
    api::ParserLimits,
    earley::SlicedBiasComputer,
    toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie},
};

use super::GrammarError;
use crate::{id::TokenId, tokenizer::Tokenizer};

/// Longest token in the trie, in bytes; its format ends at 1,024. Longer tokens are runs of blanks,
/// which no grammar needs.
const TOKEN_BYTES_MAX: usize = 1000;

/// Returns limits on the cost of compiling and matching a grammar.
fn limits() -> ParserLimits {
    ParserLimits {
        max_items_in_row: 2000,
        initial_lexer_fuel: 500_000,
        step_lexer_fuel: 200_000,
        step_max_items: 50_000,
        max_lexer_states: 50_000,
        max_grammar_size: 200_000,
        precompute_large_lexemes: false,
        verbose_errors: false,
    }
}

/// Builds the trie and what is made of it. Takes a second for a large vocabulary.
pub(super) fn factory(
    tokenizer: &Tokenizer,
    end_tokens: &[TokenId],
) -> Result<ParserFactory, GrammarError> {
    let broken = |reason: String| GrammarError::Broken(format!("no trie of tokens: {reason}"));
    let built = catch_unwind(AssertUnwindSafe(|| build(tokenizer, end_tokens)));
    match built {
        Ok(built) => built.map_err(broken),
        Err(_) => Err(broken("building it panicked".to_owned())),
    }
}

fn build(tokenizer: &Tokenizer, end_tokens: &[TokenId]) -> Result<ParserFactory, String> {
    let words = words(tokenizer);
    let vocab_size = u32::try_from(words.len()).map_err(|error| error.to_string())?;
    let ends: Vec<TokenId> = end_tokens
        .iter()
        .copied()
        .filter(|&id| id < vocab_size)
        .collect();
    let Some(&end) = ends.first() else {
        return Err("the model has no token that ends an answer".to_owned());
    };
    let trie = TokTrie::from(&TokRxInfo::new(vocab_size, end), &words).with_eos_tokens(&ends);
    let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
    let slices = SlicedBiasComputer::json_slices();
    let factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &slices);
    let mut factory = factory.map_err(|error| error.to_string())?;
    factory.quiet();
    *factory.limits_mut() = limits();
    Ok(factory)
}

/// Returns the bytes of every token. Control tokens are marked, so that no text equals one.
fn words(tokenizer: &Tokenizer) -> Vec<Vec<u8>> {
    let vocab_size = TokenId::try_from(tokenizer.vocab_size()).unwrap_or(TokenId::MAX);
    let mut words: Vec<Vec<u8>> = (0..vocab_size)
        .map(|id| match tokenizer.token_bytes(id) {
            bytes if bytes.is_empty() => marked(&tokenizer.token_text(id)),
            bytes if bytes.len() > TOKEN_BYTES_MAX => Vec::new(),
            bytes => bytes,
        })
        .collect();
    for token_text in tokenizer.control_token_texts().iter() {
        if let Some(id) = tokenizer.token_id(token_text)
            && let Some(word) = words.get_mut(id as usize)
        {
            *word = marked(token_text);
        }
    }
    words
}

fn marked(token_text: &str) -> Vec<u8> {
    match token_text.len() {
        0 => Vec::new(),
        len if len >= TOKEN_BYTES_MAX => Vec::new(),
        _ => [&[TokTrie::SPECIAL_TOKEN_MARKER], token_text.as_bytes()].concat(),
    }
}
