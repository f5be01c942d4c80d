//! The engine's thread: builds the executor, runs steps while there is work, sleeps while not.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
    },
    thread::{self, Builder, JoinHandle},
    time::Instant,
};

use tokio::sync::{Semaphore, watch};

use super::{
    EngineHandle, EngineOptions, EngineStats, FinishReason,
    handle::{EngineLimits, Shared},
    sequence::Submission,
    step::Engine,
    token_stream::Waker,
};
use crate::{
    cache::snapshot::SaveRequest,
    limits,
    model::exec::{Executor, KvFormat},
};

/// Starts the engine thread and waits until `build` has created the executor on it.
///
/// An executor error ends the sequences of that step, and the engine continues. A panic ends all
/// sequences and the engine, because the state of the executor is unknown. A wrong answer would be
/// worse than none.
///
/// # Errors
/// A text if an option is out of range, the thread cannot be started, or `build` fails or panics.
pub fn start<E, B>(options: EngineOptions, build: B) -> Result<EngineHandle, String>
where
    E: Executor + 'static,
    B: FnOnce() -> Result<E, String> + Send + 'static,
{
    options.check()?;
    let places = options.running_max + options.waiting_max;
    let events_buffered_max = options.events_buffered_max;
    let (submissions, inbox) = sync_channel(places);
    let (orders, ordered) = sync_channel(limits::SNAPSHOT_QUEUE_LEN_MAX);
    let (deadline, deadline_seen) = watch::channel(None);
    let (stats_seen, stats) = watch::channel(EngineStats::default());
    let (ready, loaded) = sync_channel(1);
    let inbox = Inbox {
        submissions: inbox,
        orders: ordered,
        deadline: deadline_seen,
    };
    let thread = Builder::new()
        .name("engine".to_owned())
        .spawn(move || run(&options, build, &ready, &inbox, &stats_seen))
        .map_err(|error| format!("the engine's thread cannot be started: {error}"))?;
    let (context_length, vocab_size, kv_format) = match loaded.recv() {
        Ok(Ok(bounds)) => bounds,
        Ok(Err(reason)) => return Err(reason),
        Err(_) => return Err(panic_of(thread)),
    };
    Ok(EngineHandle::new(Shared {
        bounds: EngineLimits {
            context_length,
            vocab_size,
            events_buffered_max,
            places,
        },
        places: Arc::new(Semaphore::new(places)),
        submissions,
        orders,
        kv_format,
        deadline,
        stats,
        waker: Waker(thread.thread().clone()),
        thread: Mutex::new(Some(thread)),
    }))
}

/// Context length, vocabulary size and KV format of the loaded model, or the error.
type Loaded = Result<(usize, usize, Option<KvFormat>), String>;

/// Messages from handles to the thread.
struct Inbox {
    submissions: Receiver<Submission>,
    orders: Receiver<SaveRequest>,
    deadline: watch::Receiver<Option<Instant>>,
}

/// Runs the engine thread from load to end.
fn run<E: Executor, B: FnOnce() -> Result<E, String>>(
    options: &EngineOptions,
    build: B,
    ready: &SyncSender<Loaded>,
    inbox: &Inbox,
    stats: &watch::Sender<EngineStats>,
) {
    let built = build().and_then(|executor| Engine::new(executor, options));
    let mut engine = match built {
        Ok(engine) => engine,
        Err(reason) => {
            let _ = ready.send(Err(reason));
            return;
        }
    };
    let _ = ready.send(Ok((
        engine.context_length(),
        engine.vocab_size(),
        engine.kv_format(),
    )));
    let served = catch_unwind(AssertUnwindSafe(|| serve(&mut engine, inbox, stats)));
    if let Err(panic) = served {
        let reason = format!("the engine panicked: {}", panic_text(&*panic));
        tracing::error!(reason, "engine stopped");
        let finish = FinishReason::Failed(reason);
        inbox
            .submissions
            .try_iter()
            .for_each(|mut submission| submission.events.finish(finish.clone()));
        engine.finish_all(&finish);
    }
    stats.send_replace(engine.stats());
}

/// Admits jobs and runs steps until engine stopped.
fn serve<E: Executor>(engine: &mut Engine<E>, inbox: &Inbox, stats: &watch::Sender<EngineStats>) {
    loop {
        let orphaned = take_submissions(engine, inbox);
        inbox
            .orders
            .try_iter()
            .for_each(|order| engine.save_snapshot(order));
        let deadline = *inbox.deadline.borrow();
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            engine.finish_all(&FinishReason::Cancelled);
            return;
        }
        let worked = engine.step();
        stats.send_replace(engine.stats());
        if worked {
            continue;
        }
        if engine.is_empty() && (orphaned || deadline.is_some()) {
            return;
        }
        match deadline
            .into_iter()
            .chain(engine.next_queue_timeout())
            .min()
        {
            Some(at) => thread::park_timeout(at.saturating_duration_since(Instant::now())),
            None => thread::park(),
        }
    }
}

/// Admits all submitted jobs. Returns true if no handle is left.
fn take_submissions<E: Executor>(engine: &mut Engine<E>, inbox: &Inbox) -> bool {
    loop {
        match inbox.submissions.try_recv() {
            Ok(submission) => engine.admit(submission),
            Err(error) => return error == TryRecvError::Disconnected,
        }
    }
}

fn panic_of(thread: JoinHandle<()>) -> String {
    match thread.join() {
        Ok(()) => "the engine's thread ended while the model was loaded".to_owned(),
        Err(panic) => format!("loading the model panicked: {}", panic_text(&*panic)),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}
