//! Threads that compute token masks, so that the engine's thread does not wait for them.

use std::{
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread::{Builder, available_parallelism},
};

use crate::lock::IgnorePoison as _;

/// Most queued tasks. A constraint has at most one, so this bounds the number of constrained
/// sequences, far above the engine's limits.
const WAITING_MAX: usize = 1 << 14;

/// Threads at most; masks are small work.
const THREADS_MAX: usize = 4;

type Task = Box<dyn FnOnce() + Send>;

/// A few threads, started when there is something for them to do. They end with the last handle.
#[derive(Clone, Default)]
pub(crate) struct Workers(Arc<Mutex<Option<SyncSender<Task>>>>);

impl Workers {
    /// Runs a task soon, in the order of calls. Without threads, or with too many waiting, it runs
    /// here and now.
    pub(crate) fn run(&self, task: impl FnOnce() + Send + 'static) {
        let task: Task = Box::new(task);
        match self.queue() {
            Some(queue) => match queue.try_send(task) {
                Ok(()) => {}
                Err(TrySendError::Full(task) | TrySendError::Disconnected(task)) => task(),
            },
            None => task(),
        }
    }

    fn queue(&self) -> Option<SyncSender<Task>> {
        let mut queue = self.0.lock().ignore_poison();
        if queue.is_none() {
            *queue = start();
        }
        queue.clone()
    }
}

fn start() -> Option<SyncSender<Task>> {
    let (sender, receiver) = sync_channel::<Task>(WAITING_MAX);
    let receiver = Arc::new(Mutex::new(receiver));
    let threads = available_parallelism().map_or(1, |count| count.get().min(THREADS_MAX));
    let mut started = 0;
    for _ in 0..threads {
        let receiver = Arc::clone(&receiver);
        let thread = Builder::new().name("grammar".to_owned());
        match thread.spawn(move || work(&receiver)) {
            Ok(_) => started += 1,
            Err(error) => tracing::warn!(%error, "mask worker start failed"),
        }
    }
    (started > 0).then_some(sender)
}

/// Runs tasks until all senders are dropped. Tasks do not panic.
fn work(tasks: &Mutex<Receiver<Task>>) {
    loop {
        let next = tasks.lock().ignore_poison().recv();
        match next {
            Ok(task) => task(),
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_is_run() {
        let workers = Workers::default();
        let (done, all) = sync_channel(100);
        for n in 0..100 {
            let done = done.clone();
            workers.run(move || done.send(n).expect("a listener"));
        }
        drop(done);
        let mut seen: Vec<i32> = all.iter().collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
    }
}
