//! The bounded stream of one job's events, from the engine's thread to its reader.

use std::thread::Thread;

use tokio::sync::mpsc;

use super::{EngineOptions, FinishReason, TokenEvent};

/// Makes a stream that holds up to `capacity` events; its reader wakes `engine`.
pub(super) fn channel(capacity: usize, engine: Waker) -> (EventSink, TokenStream) {
    let (sender, receiver) = mpsc::channel(capacity);
    (
        EventSink {
            sender,
            capacity,
            finished: false,
        },
        TokenStream { receiver, engine },
    )
}

/// The events of one job. Dropping it cancels the job at the next step, wherever the job is.
#[derive(Debug)]
pub struct TokenStream {
    receiver: mpsc::Receiver<TokenEvent>,
    /// Dropped after the receiver, so that the engine wakes to a closed channel.
    engine: Waker,
}

impl TokenStream {
    /// The next event; `None` after [`TokenEvent::Finished`], which comes exactly once. May be
    /// dropped while waiting without losing an event.
    pub async fn next(&mut self) -> Option<TokenEvent> {
        let event = self.receiver.recv().await;
        // The engine may sleep because this stream was full.
        self.engine.wake();
        event
    }
}

/// Wakes the engine's thread, at the latest when dropped. A wake while it runs is not lost: the
/// thread looks around once more before it sleeps.
#[derive(Debug, Clone)]
pub(super) struct Waker(pub(super) Thread);

impl Waker {
    pub(super) fn wake(&self) {
        self.0.unpark();
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        self.wake();
    }
}

/// The engine's end of a [`TokenStream`]. Whatever happens to it, the reader gets exactly one
/// [`TokenEvent::Finished`]: one place in the channel is kept for it.
#[derive(Debug)]
pub(super) struct EventSink {
    sender: mpsc::Sender<TokenEvent>,
    capacity: usize,
    finished: bool,
}

impl EventSink {
    /// True if the reader has gone.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// True if there is room for the events of a step. Such a step sends one event, or one more for
    /// each [spare](Self::spare) one, so a slot for `Finished` is always left.
    pub(super) fn has_room(&self) -> bool {
        self.sender.capacity() >= EngineOptions::STEP_EVENTS_MAX
    }

    /// Events that there is room for beyond what a step reports at least.
    pub(super) fn spare(&self) -> usize {
        let capacity = self.sender.capacity();
        capacity.saturating_sub(EngineOptions::STEP_EVENTS_MAX)
    }

    /// True if at least half of the channel is free.
    pub(super) fn is_half_free(&self) -> bool {
        self.has_room() && self.sender.capacity() * 2 >= self.capacity
    }

    /// Reports an event other than the last.
    pub(super) fn emit(&self, event: TokenEvent) {
        // Room was checked before the step, so this fails only when the reader has gone, and then
        // the sequence leaves before the next step.
        let _ = self.sender.try_send(event);
    }

    /// Reports the last event.
    pub(super) fn finish(&mut self, finish: FinishReason) {
        if !std::mem::replace(&mut self.finished, true) {
            self.emit(TokenEvent::Finished(finish));
        }
    }
}

impl Drop for EventSink {
    fn drop(&mut self) {
        self.finish(FinishReason::Cancelled);
    }
}
