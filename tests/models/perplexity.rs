//! The CPU kernels predict a text as well as MLX in 32 bits. `cargo xtask bench engine` compares
//! them over the whole text; this test takes a few windows.
//!
//! The text is the beginning of "Around the World in Eighty Days" by Jules Verne in the English
//! translation of 1873, which is in the public domain.

use half::f16;
use stemma::{
    model::exec::{
        cpu::{ActivationBits, CpuExecutor, CpuOptions},
        mlx::{MlxExecutor, MlxOptions},
    },
    tokenizer::Tokenizer,
};

use super::{compute_perplexity::perplexity, real::cached};

const TEXT: &str = include_str!("../data/text/eighty-days.txt");
const WINDOW: usize = 96;
const WINDOWS: usize = 5;

#[test]
fn eight_bit_activations_cost_little_and_sixteen_nothing() {
    let Some((files, spec)) = cached("smollm2") else {
        return;
    };
    let tokenizer = Tokenizer::open(&files.tokenizer).expect("a tokenizer");
    let tokens = tokenizer.encode_text(TEXT, false);
    assert!((18_000..24_000).contains(&tokens.len()), "{}", tokens.len());
    let tokens = &tokens[..WINDOWS * WINDOW];
    let own = |activation_bits| {
        let options = CpuOptions {
            activation_bits,
            ..CpuOptions::default()
        };
        let own = CpuExecutor::<f16>::load(&spec, &*files.tensors, &options);
        perplexity(&mut own.expect("a model"), tokens, WINDOW).expect("a perplexity")
    };
    let [eight, sixteen] = [ActivationBits::Eight, ActivationBits::Sixteen].map(own);
    let mlx = MlxExecutor::load(&spec, &*files.tensors, &MlxOptions::default());
    let mlx = perplexity(&mut mlx.expect("a model"), tokens, WINDOW).expect("a perplexity");
    // Over so short a text chance plays a part, in both directions.
    assert!((eight / mlx - 1.0).abs() < 0.02, "{eight} against {mlx}");
    assert!(
        (sixteen / mlx - 1.0).abs() < 0.001,
        "{sixteen} against {mlx}"
    );
}
