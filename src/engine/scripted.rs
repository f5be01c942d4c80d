//! A made-up model that answers from a script, so that tests run the real engine without weights.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{
    id::TokenId,
    model::exec::{
        ExecError, Executor, KvCache, KvElementType, KvExport, KvFormat, KvLayout, Slot,
    },
};

/// Logit of the scripted token; all others are 0. No temperature makes another token likely, but a
/// bias of ±100 does.
const PEAK: f32 = 90.0;

/// Answers remembered to recognise a prompt that is read again with the answer so far behind it.
const ANSWERS_MAX: usize = 256;

/// Executor that answers each prompt with scripted tokens and then the EOS token.
pub struct ScriptedExecutor {
    vocab_size: usize,
    end_token: TokenId,
    reply: Reply,
    context_length: usize,
    kv_bytes_per_token: usize,
    hooks: Vec<Hook>,
    steps: u64,
    answers: VecDeque<Arc<Answer>>,
    live_caches: Arc<AtomicUsize>,
}

type Reply = Box<dyn FnMut(&[TokenId]) -> Vec<TokenId> + Send>;

type Hook = Box<dyn FnMut(&ScriptedStep) -> Result<(), ExecError> + Send>;

/// Step about to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptedStep {
    /// Number of the step; the first is 1.
    pub number: u64,
    /// Sequences of the step.
    pub slots: Vec<ScriptedSlot>,
}

/// Slot of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptedSlot {
    /// Tokens in the KV cache before the step.
    pub cached: usize,
    /// Tokens to run.
    pub tokens: usize,
    /// Number of last tokens whose logits are returned.
    pub wanted: usize,
}

impl ScriptedExecutor {
    /// Creates a model of `vocab_size` tokens that answers a prompt with `reply(prompt)` and then
    /// `end_token`. The context length is 4,096 tokens, and a token takes 16 bytes of KV cache.
    pub fn new(
        vocab_size: usize,
        end_token: TokenId,
        reply: impl FnMut(&[TokenId]) -> Vec<TokenId> + Send + 'static,
    ) -> Self {
        Self {
            vocab_size,
            end_token,
            reply: Box::new(reply),
            context_length: 4096,
            kv_bytes_per_token: 16,
            hooks: Vec::new(),
            steps: 0,
            answers: VecDeque::new(),
            live_caches: Arc::default(),
        }
    }

    /// Sets the context length.
    #[must_use]
    pub fn context_length(self, context_length: usize) -> Self {
        Self {
            context_length,
            ..self
        }
    }

    /// Sets the KV cache bytes per token.
    #[must_use]
    pub fn kv_bytes_per_token(self, kv_bytes_per_token: usize) -> Self {
        Self {
            kv_bytes_per_token,
            ..self
        }
    }

    /// Calls `hook` before each step on the engine thread. A hook can observe, block, panic, or
    /// fail the step. Hooks run in the order of registration.
    #[must_use]
    pub fn before_step(
        mut self,
        hook: impl FnMut(&ScriptedStep) -> Result<(), ExecError> + Send + 'static,
    ) -> Self {
        self.hooks.push(Box::new(hook));
        self
    }

    /// Delays each step by at least `delay`.
    #[must_use]
    pub fn step_delay(self, delay: Duration) -> Self {
        self.before_step(move |_| {
            thread::sleep(delay);
            Ok(())
        })
    }

    /// Makes one step fail; the first step is 1.
    #[must_use]
    pub fn failing_at(self, number: u64) -> Self {
        self.before_step(move |step| match step.number == number {
            true => Err(ExecError(format!("step {number} fails by its script"))),
            false => Ok(()),
        })
    }

    /// Makes one step panic; the first step is 1.
    #[must_use]
    pub fn panicking_at(self, number: u64) -> Self {
        self.before_step(move |step| {
            assert_ne!(step.number, number, "step {number} panics by its script");
            Ok(())
        })
    }

    /// Returns the number of live KV caches, kept up to date.
    #[must_use]
    pub fn live_caches(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.live_caches)
    }

    fn announce(&mut self, slots: &[Slot<'_, ScriptedKv>]) -> Result<(), ExecError> {
        self.steps += 1;
        let describe = |slot: &Slot<'_, ScriptedKv>| ScriptedSlot {
            cached: slot.kv.len(),
            tokens: slot.tokens.len(),
            wanted: slot.logit_rows,
        };
        let step = ScriptedStep {
            number: self.steps,
            slots: slots.iter().map(describe).collect(),
        };
        self.hooks.iter_mut().try_for_each(|hook| hook(&step))
    }

    fn check(&self, slot: &Slot<'_, ScriptedKv>) -> Result<(), ExecError> {
        if slot.tokens.is_empty() {
            return Err(ExecError("a slot has no tokens".to_owned()));
        }
        if slot.kv.len() + slot.tokens.len() > self.context_length {
            return Err(ExecError(
                "a sequence is longer than the context".to_owned(),
            ));
        }
        match slot
            .tokens
            .iter()
            .find(|&&token| token as usize >= self.vocab_size)
        {
            Some(token) => Err(ExecError(format!("token {token} is not in the vocabulary"))),
            None => Ok(()),
        }
    }

    /// Appends a logit row with a peak at the scripted token.
    fn write_row(&mut self, kv: &mut ScriptedKv, logits: &mut Vec<f32>) -> Result<(), ExecError> {
        let next = self.next_token(kv);
        let row = logits.len();
        logits.resize(row + self.vocab_size, 0.0);
        let peak = logits[row..].get_mut(next as usize).ok_or_else(|| {
            ExecError(format!(
                "the script's token {next} is not in the vocabulary"
            ))
        })?;
        *peak = PEAK;
        Ok(())
    }

    /// Returns the scripted token after the tokens of the KV cache.
    fn next_token(&mut self, kv: &mut ScriptedKv) -> TokenId {
        let answer = match kv.answer.take() {
            Some(answer) => answer,
            None => self.answer(&kv.tokens),
        };
        let next = answer
            .reply
            .get(kv.tokens.len() - answer.prompt.len())
            .copied();
        kv.answer = Some(answer);
        next.unwrap_or(self.end_token)
    }

    fn answer(&mut self, tokens: &[TokenId]) -> Arc<Answer> {
        if let Some(begun) = self.answers.iter().find(|answer| answer.is_begun(tokens)) {
            return Arc::clone(begun);
        }
        let answer = Arc::new(Answer {
            prompt: tokens.to_vec(),
            reply: (self.reply)(tokens),
        });
        self.answers.truncate(ANSWERS_MAX - 1);
        self.answers.push_front(Arc::clone(&answer));
        answer
    }
}

impl Executor for ScriptedExecutor {
    type Kv = ScriptedKv;

    fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    fn context_length(&self) -> usize {
        self.context_length
    }

    fn kv_bytes_per_token(&self) -> usize {
        self.kv_bytes_per_token
    }

    fn new_kv(&self) -> ScriptedKv {
        ScriptedKv {
            tokens: Vec::new(),
            answer: None,
            bytes_per_token: self.kv_bytes_per_token,
            _alive: Alive::new(&self.live_caches),
        }
    }

    fn kv_format(&self) -> Option<KvFormat> {
        Some(KvFormat {
            layout: KvLayout {
                layers: 1,
                heads: 1,
                head_dim: 1,
                element: KvElementType::F32,
            },
            compute_id: "a script".to_owned(),
        })
    }

    fn step(
        &mut self,
        slots: &mut [Slot<'_, ScriptedKv>],
        logits: &mut Vec<f32>,
    ) -> Result<(), ExecError> {
        logits.clear();
        self.announce(slots)?;
        for slot in slots {
            self.check(slot)?;
            let (unwanted, wanted) = slot.tokens.split_at(slot.tokens.len() - slot.logit_rows);
            slot.kv.tokens.extend_from_slice(unwanted);
            for &token in wanted {
                slot.kv.tokens.push(token);
                self.write_row(slot.kv, logits)?;
            }
        }
        Ok(())
    }
}

/// KV cache of a [`ScriptedExecutor`]: the tokens themselves.
#[derive(Debug)]
pub struct ScriptedKv {
    tokens: Vec<TokenId>,
    /// The scripted answer in use; set at the first logits.
    answer: Option<Arc<Answer>>,
    bytes_per_token: usize,
    _alive: Alive,
}

impl KvCache for ScriptedKv {
    fn len(&self) -> usize {
        self.tokens.len()
    }

    fn bytes(&self) -> usize {
        self.tokens.len() * self.bytes_per_token
    }

    fn truncate(&mut self, len: usize) {
        self.tokens.truncate(len);
    }

    fn fork(&self, len: usize) -> Self {
        Self {
            tokens: self.tokens[..len].to_vec(),
            answer: None,
            bytes_per_token: self.bytes_per_token,
            _alive: Alive::new(&self._alive.0),
        }
    }

    fn export(&self, tokens: Range<usize>) -> Option<Box<dyn KvExport>> {
        Some(Box::new(TokensExport {
            first: tokens.start,
            tokens: self.tokens[tokens].to_vec(),
        }))
    }

    fn import(&mut self, tokens: usize, bytes: &[u8]) -> Result<(), ExecError> {
        if bytes.len() != tokens * 2 * size_of::<TokenId>() {
            return Err(ExecError("bytes of another size".to_owned()));
        }
        for both in bytes.chunks_exact(2 * size_of::<TokenId>()) {
            let [key, value] = [&both[..4], &both[4..]].map(|bytes| {
                let bytes = bytes.try_into().unwrap_or_default();
                TokenId::from_le_bytes(bytes)
            });
            if key != value {
                return Err(ExecError("a key without its value".to_owned()));
            }
            self.tokens.push(key);
        }
        self.answer = None;
        Ok(())
    }
}

/// Token export in which K and V are the token itself.
struct TokensExport {
    first: usize,
    tokens: Vec<TokenId>,
}

impl KvExport for TokensExport {
    fn write(&self, tokens: Range<usize>, out: &mut Vec<u8>) {
        for token in &self.tokens[tokens.start - self.first..tokens.end - self.first] {
            out.extend(token.to_le_bytes());
            out.extend(token.to_le_bytes());
        }
    }
}

#[derive(Debug)]
struct Answer {
    prompt: Vec<TokenId>,
    reply: Vec<TokenId>,
}

impl Answer {
    /// True if the tokens are this prompt and at least one token of its answer.
    fn is_begun(&self, tokens: &[TokenId]) -> bool {
        tokens
            .strip_prefix(self.prompt.as_slice())
            .is_some_and(|begun| !begun.is_empty() && self.reply.starts_with(begun))
    }
}

/// Counts a memory while it lives.
#[derive(Debug)]
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
