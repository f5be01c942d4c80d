//! Sequences that may not say everything, and those beside them.

use std::{
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use super::*;
use crate::sampling::{Constraint, ConstraintError, TokenBitmask, TokenMask};

/// Constraint that allows some tokens once its gate is open.
#[derive(Debug)]
struct Gated {
    gate: Gate,
    set: TokenBitmask,
    accepted: Arc<Mutex<Vec<TokenId>>>,
}

#[derive(Debug, Clone, Default)]
struct Gate(Arc<Mutex<(bool, Option<Waker>)>>);

impl Gate {
    fn open(&self) {
        let mut state = self.0.lock().expect("no panic");
        state.0 = true;
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    }

    /// True if somebody waits before it.
    fn is_waited_for(&self) -> bool {
        self.0.lock().expect("no panic").1.is_some()
    }
}

impl Constraint for Gated {
    fn poll_mask(
        &mut self,
        _left: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<TokenMask<'_>, ConstraintError>> {
        let mut state = self.gate.0.lock().expect("no panic");
        if !state.0 {
            state.1 = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(TokenMask::Only(&self.set)))
    }

    fn poll_accept(&mut self, token: TokenId, _: usize, _: &mut Context<'_>) -> Poll<bool> {
        self.accepted.lock().expect("no panic").push(token);
        Poll::Ready(true)
    }
}

/// Constraint that rejects one sampled token while at most `within` tokens are left.
#[derive(Debug)]
struct Refusing {
    set: TokenBitmask,
    token: TokenId,
    within: usize,
    asked: Arc<Mutex<Vec<(TokenId, usize)>>>,
    waits: bool,
}

impl Constraint for Refusing {
    fn poll_mask(
        &mut self,
        _left: usize,
        _: &mut Context<'_>,
    ) -> Poll<Result<TokenMask<'_>, ConstraintError>> {
        Poll::Ready(Ok(TokenMask::Only(&self.set)))
    }

    fn poll_accept(
        &mut self,
        token: TokenId,
        left: usize,
        context: &mut Context<'_>,
    ) -> Poll<bool> {
        if !std::mem::replace(&mut self.waits, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.waits = false;
        self.asked.lock().expect("no panic").push((token, left));
        let taken = token != self.token || left > self.within;
        if !taken {
            self.set.remove(token);
        }
        Poll::Ready(taken)
    }
}

fn set(tokens: impl IntoIterator<Item = TokenId>) -> TokenBitmask {
    let mut set = TokenBitmask::of_words(vec![0; VOCAB_SIZE.div_ceil(32)]);
    tokens.into_iter().for_each(|token| set.insert(token));
    set
}

fn gated(gate: &Gate, set: TokenBitmask) -> (Job, Arc<Mutex<Vec<TokenId>>>) {
    let accepted = Arc::default();
    let constraint = Gated {
        gate: gate.clone(),
        set,
        accepted: Arc::clone(&accepted),
    };
    let job = Job {
        constraint: Some(Box::new(constraint)),
        ..job([1, 2, 3, 4])
    };
    (job, accepted)
}

#[tokio::test]
async fn only_allowed_tokens_come() {
    let engine = engine(EngineOptions::default(), echo());
    let gate = Gate::default();
    gate.open();
    let (job, accepted) = gated(&gate, set([2, 4, END]));
    let stream = engine.submit(job).expect("a place");
    // If the model's own token is masked, all others are equal and the lowest id wins.
    let expected = vec![4, 2, 2, 2];
    assert_eq!(
        read(stream).await,
        (expected.clone(), FinishReason::EosToken(END))
    );
    assert_eq!(*accepted.lock().expect("no panic"), expected);
}

#[tokio::test]
async fn a_stalled_sequence_delays_no_other() {
    let engine = engine(EngineOptions::default(), echo());
    let gate = Gate::default();
    let (slow, _) = gated(&gate, set([1, 2, 3, 4, END]));
    let mut slow = engine.submit(slow).expect("a place");
    accepted(&mut slow).await;
    for n in 0..20 {
        let free = engine.submit(job(n..n + 30)).expect("a place");
        assert_eq!(read(free).await.0.len(), 30);
    }
    assert!(gate.is_waited_for());
    gate.open();
    assert_eq!(
        read_on(slow).await,
        (vec![4, 3, 2, 1], FinishReason::EosToken(END))
    );
    settle(&engine, is_idle).await;
}

#[tokio::test]
async fn a_client_that_goes_while_it_waits_leaves_nothing() {
    let engine = engine(EngineOptions::default(), echo());
    let gate = Gate::default();
    let (slow, _) = gated(&gate, set([END]));
    let mut stream = engine.submit(slow).expect("a place");
    accepted(&mut stream).await;
    while !gate.is_waited_for() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(stream);
    settle(&engine, is_idle).await;
}

#[tokio::test]
async fn what_waits_is_read_again_when_its_memory_is_taken() {
    // The KV budget holds only one long sequence.
    let options = EngineOptions {
        kv_bytes_max: 16 * 64,
        cache_bytes_max: 0,
        ..EngineOptions::default()
    };
    let engine = engine(options, echo());
    let gate = Gate::default();
    let (slow, _) = gated(&gate, set([1, 2, 3, 4, END]));
    let mut slow = engine.submit(slow).expect("a place");
    accepted(&mut slow).await;
    while !gate.is_waited_for() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let free = engine.submit(job(0..31)).expect("a place");
    assert_eq!(read(free).await.0.len(), 31);
    gate.open();
    assert_eq!(
        read_on(slow).await,
        (vec![4, 3, 2, 1], FinishReason::EosToken(END))
    );
}

#[tokio::test]
async fn what_is_refused_is_chosen_no_more() {
    let engine = engine(EngineOptions::default(), repeat(6));
    let asked = Arc::default();
    let constraint = Refusing {
        set: set([2, 7]),
        token: 7,
        within: 3,
        asked: Arc::clone(&asked),
        waits: false,
    };
    let job = Job {
        constraint: Some(Box::new(constraint)),
        max_new_tokens: 5,
        ..job([7])
    };
    let stream = engine.submit(job).expect("a place");
    let expected = (vec![7, 7, 2, 2, 2], FinishReason::MaxTokens);
    assert_eq!(read(stream).await, expected);
    let expected = [(7, 5), (7, 4), (7, 3), (2, 3), (2, 2), (2, 1)];
    assert_eq!(*asked.lock().expect("no panic"), expected);
}
