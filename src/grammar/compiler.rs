//! Compiles grammars on a thread of their own, and caches them.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{RecvTimeoutError, sync_channel},
    },
    thread::Builder,
    time::Duration,
};

use llguidance::{Matcher, ParserFactory};

use super::{
    GrammarError, GrammarSpec, Shape, StartAt, StructuralTags, Trigger,
    compiled::{CompiledGrammar, GrammarContext},
    constraint::{
        GrammarConstraint, completion,
        mask_workers::Workers,
        triggered::{CompiledTrigger, TriggeredConstraint},
    },
    json::schema::SCHEMA_BYTES_MAX,
    token_index::TokenIndex,
    token_trie,
};
use crate::{
    id::TokenId,
    lock::IgnorePoison as _,
    sampling::{Constraint, TokenBitmask},
    tokenizer::Tokenizer,
    weighted_lru::WeightedLru,
};

/// Longest time of a compilation. Other limits keep compilations far below it; this one bounds the
/// wait in every case.
const COMPILE_MAX: Duration = Duration::from_secs(10);

/// Compilations that have outlived [`COMPILE_MAX`] and may still run, before all others are refused.
const OVERDUE_MAX: usize = 2;

/// Stack of the thread that compiles: schemas are compiled recursively.
const STACK_BYTES: usize = 64 << 20;

/// Most compiled grammars in the cache.
const CACHE_ENTRIES_MAX: usize = 64;

/// Most bytes of their descriptions.
const CACHE_BYTES_MAX: usize = 1 << 20;

/// Compiles grammars for one model. Cheap to clone.
#[derive(Clone)]
pub struct GrammarCompiler(Arc<Shared>);

struct Shared {
    means: GrammarContext,
    /// Built at first use, too.
    token_texts: Mutex<Option<Arc<TokenIndex>>>,
    /// Built at first use: it is expensive, and most requests need none.
    factory: Mutex<Option<Result<Arc<ParserFactory>, GrammarError>>>,
    /// By digest, weighed by the bytes of their descriptions.
    cache: Mutex<WeightedLru<[u8; 32], Arc<CompiledGrammar>>>,
    overdue: AtomicUsize,
}

impl fmt::Debug for GrammarCompiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrammarCompiler").finish_non_exhaustive()
    }
}

impl GrammarCompiler {
    /// Makes grammars over a tokenizer's tokens; an answer may end with one of `end_tokens`. Nothing is
    /// compiled yet.
    #[must_use]
    pub fn new(tokenizer: Tokenizer, end_tokens: Arc<[TokenId]>) -> Self {
        Self(Arc::new(Shared {
            means: GrammarContext {
                unended: Arc::new(unended(&tokenizer, &end_tokens)),
                tokenizer,
                workers: Workers::default(),
                ends: end_tokens,
            },
            token_texts: Mutex::default(),
            factory: Mutex::default(),
            cache: Mutex::new(WeightedLru::new(CACHE_BYTES_MAX)),
            overdue: AtomicUsize::new(0),
        }))
    }

    /// Compiles a grammar and returns a constraint for one answer. Runs on a blocking thread.
    ///
    /// # Errors
    /// If the grammar cannot be enforced, or is too expensive.
    pub fn constraint(&self, spec: &GrammarSpec) -> Result<Box<dyn Constraint>, GrammarError> {
        let compiled = self.compiled(spec)?;
        let matching = GrammarConstraint::new(compiled, &spec.start, self.0.means.clone());
        Ok(Box::new(matching))
    }

    /// Tokens that are a whole answer to a description, few of them, if any are found.
    #[cfg(test)]
    pub(super) fn closing(&self, spec: &GrammarSpec) -> Option<Vec<TokenId>> {
        let compiled = self.compiled(spec).expect("a grammar");
        compiled.closing.clone()
    }

    /// Compiles the triggers' grammars and returns a constraint for one answer whose other text is
    /// free. Runs on a blocking thread.
    ///
    /// # Errors
    /// If one of the grammars cannot be enforced, or is too expensive.
    pub fn watching(&self, watch: &StructuralTags) -> Result<Box<dyn Constraint>, GrammarError> {
        let place = |begin: &Trigger| {
            let spec = GrammarSpec {
                shape: Shape::ToolCalls(begin.calls.clone()),
                start: StartAt::AfterTrigger,
            };
            Ok(CompiledTrigger {
                marker: begin.marker.split_whitespace().collect(),
                at_start: begin.at_start,
                calls: self.compiled(&spec)?,
            })
        };
        let places = watch.triggers.iter().map(place);
        let shared = &self.0;
        let watching = TriggeredConstraint::new(
            places.collect::<Result<_, GrammarError>>()?,
            watch,
            shared.means.clone(),
            shared.token_texts(),
        );
        Ok(Box::new(watching))
    }

    fn compiled(&self, spec: &GrammarSpec) -> Result<Arc<CompiledGrammar>, GrammarError> {
        let bytes = spec.bytes();
        if bytes > SCHEMA_BYTES_MAX {
            let reason =
                format!("a grammar may have at most {SCHEMA_BYTES_MAX} bytes, not {bytes}");
            return Err(GrammarError::whole(reason));
        }
        let digest = spec.digest();
        let cached = self.0.cache.lock().ignore_poison().get(&digest).cloned();
        if let Some(compiled) = cached {
            return Ok(compiled);
        }
        let compiled = Arc::new(self.compile(spec)?);
        // A small description may compile to a large grammar, so each counts as an equal share at least.
        let weight = bytes.max(CACHE_BYTES_MAX / CACHE_ENTRIES_MAX);
        let mut cache = self.0.cache.lock().ignore_poison();
        cache.insert(digest, Arc::clone(&compiled), weight);
        Ok(compiled)
    }

    /// Compiles on a thread with a stack for it.
    fn compile(&self, spec: &GrammarSpec) -> Result<CompiledGrammar, GrammarError> {
        let too_long = || GrammarError::whole("the grammar takes too long to compile");
        if self.0.overdue.load(Ordering::Relaxed) >= OVERDUE_MAX {
            return Err(too_long());
        }
        let (sender, compiled) = sync_channel(1);
        let (shared, spec) = (Arc::clone(&self.0), spec.clone());
        let work = move || {
            if sender.send(shared.compile(&spec)).is_err() {
                shared.overdue.fetch_sub(1, Ordering::Relaxed);
            }
        };
        let thread = Builder::new()
            .name("compile-grammar".to_owned())
            .stack_size(STACK_BYTES);
        let started = thread.spawn(work);
        started.map_err(|error| GrammarError::Broken(format!("no thread to compile: {error}")))?;
        match compiled.recv_timeout(COMPILE_MAX) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => {
                // Counted before the receiver is dropped, which is what the thread notices.
                self.0.overdue.fetch_add(1, Ordering::Relaxed);
                tracing::warn!("grammar compilation timed out");
                Err(too_long())
            }
            Err(RecvTimeoutError::Disconnected) => Err(GrammarError::Broken(
                "compiling a grammar panicked".to_owned(),
            )),
        }
    }
}

impl Shared {
    fn compile(&self, spec: &GrammarSpec) -> Result<CompiledGrammar, GrammarError> {
        let factory = self.factory()?;
        let grammar = spec.grammar(&self.means.tokenizer)?;
        let refused = |error: &dyn fmt::Display| {
            let text = error.to_string();
            let reason = match text.lines().next().unwrap_or_default() {
                // No token may come first.
                line if line.contains("NoExtensionBias") => "nothing satisfies it",
                line => line,
            };
            GrammarError::whole(format!("it cannot be enforced: {reason}"))
        };
        let parser = factory.create_parser(grammar);
        let mut fresh = Matcher::new(Ok(parser.map_err(|error| refused(&error))?));
        // A grammar without a first token admits nothing.
        let first = fresh.compute_mask().map_err(|error| refused(&error))?;
        Ok(CompiledGrammar {
            closing: completion::short(&mut fresh),
            fresh: Mutex::new(fresh),
            first: TokenBitmask::of_words(first.as_slice().to_vec()),
        })
    }

    fn token_texts(&self) -> Arc<TokenIndex> {
        let token_texts = self.token_texts.lock();
        let mut token_texts = token_texts.ignore_poison();
        let build = || Arc::new(TokenIndex::of(&self.means.tokenizer));
        Arc::clone(token_texts.get_or_insert_with(build))
    }

    fn factory(&self) -> Result<Arc<ParserFactory>, GrammarError> {
        let mut factory = self.factory.lock().ignore_poison();
        let build = || token_trie::factory(&self.means.tokenizer, &self.means.ends).map(Arc::new);
        factory.get_or_insert_with(build).clone()
    }
}

/// Returns all tokens except EOS tokens.
fn unended(tokenizer: &Tokenizer, end_tokens: &[TokenId]) -> TokenBitmask {
    let mut tokens = TokenBitmask::all(tokenizer.vocab_size());
    end_tokens.iter().for_each(|&end| tokens.remove(end));
    tokens
}
