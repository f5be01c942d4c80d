//! The bounded stream of one job's events, from the engine's thread to its reader.

use std::thread::Thread;

use tokio::sync::mpsc;

use super::{EngineOptions, FinishReason, TokenEvent};

/// Creates a stream of at most `capacity` events. The consumer wakes `engine`.
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

/// Event stream of a job. Dropping it cancels the job before the next step.
#[derive(Debug)]
pub struct TokenStream {
    receiver: mpsc::Receiver<TokenEvent>,
    /// Dropped after the receiver, so that the engine wakes to a closed channel.
    engine: Waker,
}

impl TokenStream {
    /// Returns the next event; `None` after [`TokenEvent::Finished`], which comes exactly once.
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<TokenEvent> {
        let event = self.receiver.recv().await;
        // The engine can be parked because this stream was full.
        self.engine.wake();
        event
    }
}

/// Unparks the engine thread, also when dropped. A wake-up during a step is not lost: the thread
/// checks for work once more before it parks.
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

/// Sending end of a [`TokenStream`]. The consumer always gets exactly one [`TokenEvent::Finished`],
/// because the channel reserves a slot for it.
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

    /// Returns the free slots beyond the minimum of a step.
    pub(super) fn spare(&self) -> usize {
        let capacity = self.sender.capacity();
        capacity.saturating_sub(EngineOptions::STEP_EVENTS_MAX)
    }

    /// True if at least half of the channel is free.
    pub(super) fn is_half_free(&self) -> bool {
        self.has_room() && self.sender.capacity() * 2 >= self.capacity
    }

    /// Sends an event other than the last one.
    pub(super) fn emit(&self, event: TokenEvent) {
        // The engine checked for room before the step. Sending fails only if the consumer is gone,
        // and then the sequence ends before the next step.
        let _ = self.sender.try_send(event);
    }

    /// Sends the last event.
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
