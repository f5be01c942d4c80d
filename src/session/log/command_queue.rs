//! The committer's command queue: a tokio channel, received on a plain thread.

use std::{
    io,
    time::{Duration, Instant},
};

use tokio::{
    runtime::{self, Runtime},
    sync::mpsc::{self, error::TryRecvError},
    time::timeout,
};

/// The receiving end of the queue.
pub(super) struct CommandQueue<T> {
    queue: mpsc::Receiver<T>,
    runtime: Runtime,
}

/// All senders are gone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Disconnected;

impl<T> CommandQueue<T> {
    pub(super) fn new(queue: mpsc::Receiver<T>) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        Ok(Self { queue, runtime })
    }

    /// Waits for the next command.
    pub(super) fn wait(&mut self) -> Result<T, Disconnected> {
        self.queue.blocking_recv().ok_or(Disconnected)
    }

    /// Returns the next command, or `None` if the queue is empty.
    pub(super) fn poll(&mut self) -> Result<Option<T>, Disconnected> {
        match self.queue.try_recv() {
            Ok(next) => Ok(Some(next)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(Disconnected),
        }
    }

    /// Waits for the next command until `deadline`; `None` on timeout.
    pub(super) fn wait_until(&mut self, deadline: Instant) -> Option<T> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left < Duration::from_millis(1) {
            return self.queue.try_recv().ok();
        }
        let queue = &mut self.queue;
        let next = async { timeout(left, queue.recv()).await };
        self.runtime.block_on(next).ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_until_returns_at_the_deadline() {
        let (send, receive) = mpsc::channel(2);
        let mut queue = CommandQueue::new(receive).unwrap();
        assert_eq!(queue.poll(), Ok(None));
        let begun = Instant::now();
        assert_eq!(queue.wait_until(begun + Duration::from_millis(30)), None);
        assert!(begun.elapsed() >= Duration::from_millis(29));
        let sender = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            send.blocking_send(7).unwrap();
        });
        let far = Instant::now() + Duration::from_secs(60);
        assert_eq!(queue.wait_until(far), Some(7));
        sender.join().unwrap();
        assert_eq!(queue.wait_until(far), None);
        assert_eq!(
            (queue.poll(), queue.wait()),
            (Err(Disconnected), Err(Disconnected))
        );
    }
}
