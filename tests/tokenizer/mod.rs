//! Text to token ids and back, on the small tokenizers of tests/data and on the real models.

mod goldens;
mod library;
mod prompt;
mod roundtrip;
mod sources;

use std::path::{Path, PathBuf};

use proptest::test_runner::{Config, RngSeed};
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

/// Random cases from a seed that a failing test shows, and that `PROPTEST_RNG_SEED` replays.
#[expect(clippy::print_stderr, reason = "shown only when the test fails")]
fn random_cases() -> Config {
    let config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => rand::random(),
    };
    eprintln!("PROPTEST_RNG_SEED={seed}");
    Config {
        rng_seed: RngSeed::Fixed(seed),
        ..config
    }
}
