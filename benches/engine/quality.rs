//! How well a model predicts a text, computed by any executor.

use anyhow::{Result, ensure};
use stemma::{
    id::TokenId,
    model::exec::{Executor, Slot},
};

/// Perplexity of a text: e to the mean negative logarithm of the probability of each token after
/// the ones before it in its window of so many tokens. All windows run side by side, one token a step.
pub(crate) fn perplexity<E: Executor>(
    executor: &mut E,
    tokens: &[TokenId],
    window: usize,
) -> Result<f64> {
    let windows: Vec<&[TokenId]> = tokens.chunks_exact(window).collect();
    ensure!(
        !windows.is_empty(),
        "the text is shorter than {window} tokens"
    );
    let mut memories: Vec<E::Kv> = windows.iter().map(|_| executor.new_kv()).collect();
    let (mut logits, mut surprise) = (Vec::new(), 0.0);
    for place in 0..window - 1 {
        let mut slots: Vec<Slot<'_, E::Kv>> = windows
            .iter()
            .zip(&mut memories)
            .map(|(tokens, kv)| Slot {
                tokens: &tokens[place..=place],
                kv,
                logit_rows: 1,
            })
            .collect();
        executor.step(&mut slots, &mut logits)?;
        let rows = logits.chunks_exact(executor.vocab_size());
        surprise += rows
            .zip(&windows)
            .map(|(row, tokens)| surprise_at(row, tokens[place + 1]))
            .sum::<f64>();
    }
    let predicted = windows.len() * (window - 1);
    Ok((surprise / predicted as f64).exp())
}

/// The negative logarithm of a token's probability.
fn surprise_at(logits: &[f32], token: TokenId) -> f64 {
    let largest = logits.iter().copied().fold(f32::MIN, f32::max);
    let total: f64 = logits
        .iter()
        .map(|logit| f64::from(logit - largest).exp())
        .sum();
    total.ln() - f64::from(logits[token as usize] - largest)
}
