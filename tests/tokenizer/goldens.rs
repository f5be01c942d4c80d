//! Ids that llama.cpp and transformers give, made by tests/goldens/tokenizer.py.

use std::{collections::BTreeMap, env, fs};

use serde::Deserialize;
use stemma::{
    load::{self, Sources, alias},
    tokenizer::{GgufVocabulary, Tokenizer, TokenizerSource},
};

use super::data;

fn read<T: for<'a> Deserialize<'a>>(name: &str) -> T {
    let text = fs::read(data(name)).expect("a file of tests/data");
    serde_json::from_slice(&text).expect("goldens")
}

fn texts() -> Vec<String> {
    read("texts.json")
}

/// A vocabulary with the ids of all texts, by the name of a variant.
#[derive(Deserialize)]
struct Golden {
    tokens: Vec<String>,
    token_types: Vec<i32>,
    #[serde(default)]
    merges: Vec<String>,
    #[serde(default)]
    scores: Vec<f32>,
    bos: u32,
    eos: u32,
    unknown: Option<u32>,
    add_bos: Option<bool>,
    /// None where the reference is known to differ from the families' own.
    ids: BTreeMap<String, Vec<Option<Vec<u32>>>>,
}

impl Golden {
    fn vocabulary(&self, model: &str) -> GgufVocabulary {
        GgufVocabulary {
            model: model.to_owned(),
            tokens: self.tokens.clone(),
            token_types: self.token_types.clone(),
            merges: self.merges.clone(),
            scores: self.scores.clone(),
            bos: Some(self.bos),
            eos: Some(self.eos),
            unknown: self.unknown,
            add_bos: self.add_bos,
            ..GgufVocabulary::default()
        }
    }
}

fn open(vocabulary: GgufVocabulary) -> Tokenizer {
    Tokenizer::open(&TokenizerSource::Gguf(vocabulary)).expect("a tokenizer")
}

/// Checks the ids of every text, and that texts decode to themselves where `comes_back` says so.
fn check(
    what: &str,
    tokenizer: &Tokenizer,
    expected: &[Option<Vec<u32>>],
    comes_back: impl Fn(&str) -> bool,
) {
    let texts = texts();
    assert_eq!(texts.len(), expected.len(), "{what}");
    for (text, expected) in texts.iter().zip(expected) {
        let ids = tokenizer.encode_text(text, false);
        let written = |ids: &[u32]| -> Vec<String> {
            ids.iter().map(|&id| tokenizer.token_text(id)).collect()
        };
        if let Some(expected) = expected {
            let (ours, theirs) = (written(&ids), written(expected));
            assert!(
                ids == *expected,
                "{what} on {text:?}:\n{ours:?}\n{theirs:?}"
            );
        }
        if comes_back(text) {
            assert_eq!(tokenizer.decode(&ids), *text, "{what}");
        }
    }
}

/// U+2581 is how SentencePiece writes a space.
fn survives_sentencepiece(text: &str) -> bool {
    !text.contains('\u{2581}')
}

/// True if a text is in Unicode's composed form, as far as the texts of the goldens go.
fn is_composed(text: &str) -> bool {
    !text.contains(['\u{308}', '\u{212B}'])
}

#[test]
fn every_pre_tokenizer_cuts_as_llama_cpp_does() {
    let golden: Golden = read("families.json");
    for (pre, ids) in &golden.ids {
        let vocabulary = GgufVocabulary {
            pre: Some(pre.clone()),
            ..golden.vocabulary("gpt2")
        };
        let composes = ["qwen2", "qwen35", "command-r", "mpt"].contains(&pre.as_str());
        check(pre, &open(vocabulary), ids, |text| {
            !composes || is_composed(text)
        });
    }
}

#[test]
fn sentencepiece_merges_as_the_original_does() {
    let golden: Golden = read("spm.json");
    for (space, ids) in &golden.ids {
        let add_space_prefix = Some(space == "true");
        let vocabulary = GgufVocabulary {
            add_space_prefix,
            ..golden.vocabulary("llama")
        };
        check(space, &open(vocabulary), ids, survives_sentencepiece);
    }
}

#[derive(Deserialize)]
struct Real {
    ids: Vec<Option<Vec<u32>>>,
    framed_hi: Vec<u32>,
}

/// The tokenizer of a model if it lies in the cache folder.
#[expect(clippy::print_stderr, reason = "a skipped test says why")]
fn cached(alias: &str) -> Option<Tokenizer> {
    let cache = Sources::from_environment(|name| env::var(name).ok()).downloads;
    let alias = alias::find(alias).expect("an alias");
    let Some(path) = alias::cached(alias, &cache) else {
        eprintln!("skipped: {} is not in {}", alias.name, cache.display());
        return None;
    };
    let files = load::open(&path).expect("a model");
    Some(Tokenizer::open(&files.tokenizer).expect("a tokenizer"))
}

fn check_real(alias: &str, comes_back: impl Fn(&str) -> bool) -> Option<Tokenizer> {
    let tokenizer = cached(alias)?;
    let goldens: BTreeMap<String, Real> = read("models.json");
    check(alias, &tokenizer, &goldens[alias].ids, comes_back);
    assert_eq!(tokenizer.encode_text("Hi", true), goldens[alias].framed_hi);
    Some(tokenizer)
}

#[test]
fn smollm2_gives_the_ids_of_llama_cpp() {
    let Some(tokenizer) = check_real("smollm2", |_| true) else {
        return;
    };
    assert_eq!(
        tokenizer.special_tokens().eos.as_deref(),
        Some("<|im_end|>")
    );
    assert_eq!(tokenizer.eos_tokens(), [0, 2]);
    assert_eq!(tokenizer.vocab_size(), 49_152);
}

#[test]
fn qwen2_5_gives_the_ids_of_transformers() {
    let Some(tokenizer) = check_real("qwen2.5-coder-0.5b", is_composed) else {
        return;
    };
    assert_ends(&tokenizer, ["<|endoftext|>", "<|im_end|>"]);
}

#[test]
fn gemma3_gives_the_ids_of_sentencepiece() {
    let Some(tokenizer) = check_real("gemma3-270m", survives_sentencepiece) else {
        return;
    };
    assert_eq!(tokenizer.special_tokens().bos.as_deref(), Some("<bos>"));
    assert_ends(&tokenizer, ["<eos>", "<end_of_turn>"]);
}

fn assert_ends(tokenizer: &Tokenizer, token_texts: [&str; 2]) {
    let ids =
        token_texts.map(|token_text| tokenizer.token_id(token_text).expect("in the vocabulary"));
    assert_eq!(tokenizer.eos_tokens(), ids);
}
