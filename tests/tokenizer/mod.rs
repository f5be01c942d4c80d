//! Text to token ids and back, on the small tokenizers of tests/data and on the real models.

mod goldens;
mod library;
mod prompt;
mod roundtrip;

use std::path::{Path, PathBuf};

use stemma::tokenizer::{Tokenizer, TokenizerSource};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/tokenizer")
        .join(name)
}

/// A tokenizer of tests/data, made by tests/goldens/tokenizer_fixtures.py.
fn fixture(name: &str) -> Tokenizer {
    let source = TokenizerSource::Json {
        tokenizer: data(name),
        config: serde_json::Map::new(),
    };
    Tokenizer::open(&source).expect("a tokenizer")
}
