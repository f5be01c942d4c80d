//! Perplexity of a text, computed by any executor.

use anyhow::{Result, ensure};
use stemma::{
    id::TokenId,
    model::exec::{Executor, Slot},
};

/// Returns the perplexity of a text: e to the mean negative log-likelihood of its tokens. The context of a
/// token is the part of its window before it; a window has `window` tokens. All windows run as one batch,
/// one token a step.
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
    let mut kv_caches: Vec<E::Kv> = windows.iter().map(|_| executor.new_kv()).collect();
    let (mut logits, mut nll) = (Vec::new(), 0.0);
    for position in 0..window - 1 {
        let mut slots: Vec<Slot<'_, E::Kv>> = windows
            .iter()
            .zip(&mut kv_caches)
            .map(|(tokens, kv)| Slot {
                tokens: &tokens[position..=position],
                kv,
                logit_rows: 1,
            })
            .collect();
        executor.step(&mut slots, &mut logits)?;
        let rows = logits.chunks_exact(executor.vocab_size());
        nll += rows
            .zip(&windows)
            .map(|(row, tokens)| nll_at(row, tokens[position + 1]))
            .sum::<f64>();
    }
    let predicted = windows.len() * (window - 1);
    Ok((nll / predicted as f64).exp())
}

/// Returns the negative log-likelihood of a token.
fn nll_at(logits: &[f32], token: TokenId) -> f64 {
    let largest = logits.iter().copied().fold(f32::MIN, f32::max);
    let total: f64 = logits
        .iter()
        .map(|logit| f64::from(logit - largest).exp())
        .sum();
    total.ln() - f64::from(logits[token as usize] - largest)
}
