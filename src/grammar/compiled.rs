//! A compiled grammar, and the values that all grammars of a model share.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use llguidance::Matcher;

use super::constraint::{mask_workers::Workers, state::GrammarState};
use crate::{id::TokenId, lock::IgnorePoison as _, sampling::TokenBitmask, tokenizer::Tokenizer};

/// A grammar that is ready to match.
pub(super) struct CompiledGrammar {
    /// A matcher at the beginning, which is copied for each answer.
    pub(super) fresh: Mutex<Matcher>,
    /// The tokens with which it may begin.
    pub(super) first: TokenBitmask,
    /// Tokens that complete an answer from its start, if a short completion was found.
    pub(super) closing: Option<Vec<TokenId>>,
}

impl CompiledGrammar {
    /// Returns a copy of the matcher.
    pub(super) fn matcher(&self) -> Box<Matcher> {
        let fresh = self.fresh.lock().ignore_poison();
        Box::new(fresh.deep_clone())
    }

    /// Returns the state at the start of an answer.
    pub(super) fn state(&self) -> GrammarState {
        let first = Some(self.first.clone());
        GrammarState::new(self.matcher(), first, self.closing.clone())
    }
}

impl fmt::Debug for CompiledGrammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledGrammar").finish_non_exhaustive()
    }
}

/// Values shared by all grammars of a model.
#[derive(Clone)]
pub(super) struct GrammarContext {
    pub(super) tokenizer: Tokenizer,
    pub(super) workers: Workers,
    /// All tokens except EOS tokens.
    pub(super) unended: Arc<TokenBitmask>,
    /// Those that do.
    pub(super) ends: Arc<[TokenId]>,
}
