//! A thread pool for the work of one step. Its threads spin while a step runs, and sleep between
//! steps.
//!
//! Work comes in rounds. A round is open while tasks are left. A thread that notices the round
//! enters, takes tasks until none is left, and leaves. The caller takes tasks too, closes the
//! round, and waits only for threads that entered. So a thread that the system has descheduled
//! delays no round.
//!
//! ```text
//! word:  round number (32 bits) | open (1 bit) | threads inside (31 bits)
//! ```

use std::{
    cell::UnsafeCell,
    hint,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release, SeqCst},
        },
    },
    thread::{self, Builder, JoinHandle},
    time::{Duration, Instant},
};

use super::disjoint::DisjointChunks;

/// Time that a thread spins before it sleeps. It exceeds the pauses between the layers of a step,
/// and those between two steps.
const SPIN_MAX: Duration = Duration::from_micros(200);

/// Looks between two glances at the clock, after which others get the processor.
const LOOKS_PER_GLANCE: u32 = 1024;

const OPEN: u64 = 1 << 31;
const INSIDE: u64 = OPEN - 1;

/// The caller's thread and its helpers.
pub(in crate::model::exec::cpu) struct Pool {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
}

/// State that all threads share.
struct Shared {
    word: AtomicU64,
    /// The round's work. Written only while no round is open and no thread is inside.
    round: UnsafeCell<Round>,
    /// The next piece to take.
    next: AtomicUsize,
    panicked: AtomicBool,
    stop: AtomicBool,
    /// For each helper, whether it sleeps.
    asleep: Vec<AtomicBool>,
}

#[derive(Clone, Copy)]
struct Round {
    /// A closure, with its type forgotten.
    work: *const (),
    call: fn(*const (), usize),
    count: usize,
}

#[expect(unsafe_code, reason = "a closure is lent to other threads")]
// SAFETY: `round` is written only between rounds, when no thread is inside, and read only by threads
// that are inside; the word orders the two.
unsafe impl Sync for Shared {}
#[expect(unsafe_code, reason = "a closure is lent to other threads")]
// SAFETY: the closure behind the pointer is `Sync`, and outlives the round.
unsafe impl Send for Shared {}

impl Pool {
    /// Starts all threads but the caller's own.
    ///
    /// # Errors
    /// When the system starts no more threads.
    pub(in crate::model::exec::cpu) fn new(threads: usize) -> Result<Self, std::io::Error> {
        let helpers = threads.saturating_sub(1);
        let shared = Arc::new(Shared {
            word: AtomicU64::new(0),
            round: UnsafeCell::new(Round {
                work: std::ptr::null(),
                call: |_, _| {},
                count: 0,
            }),
            next: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            asleep: (0..helpers).map(|_| AtomicBool::new(false)).collect(),
        });
        let mut pool = Self {
            shared,
            helpers: Vec::with_capacity(helpers),
        };
        for index in 0..helpers {
            let shared = Arc::clone(&pool.shared);
            let name = format!("engine-{}", index + 1);
            let helper = Builder::new().name(name);
            pool.helpers.push(helper.spawn(move || shared.help(index))?);
        }
        Ok(pool)
    }

    /// Number of threads, the caller's own included.
    pub(in crate::model::exec::cpu) fn threads(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Calls `work(index, part)` once for every piece, on all threads; a single piece stays on this
    /// one. Needs `&mut`: one round at a time.
    #[expect(unsafe_code, reason = "each piece is taken once")]
    #[expect(clippy::needless_pass_by_value, reason = "pieces are given out once")]
    pub(in crate::model::exec::cpu) fn par_for<P: DisjointChunks>(
        &mut self,
        parts: P,
        work: impl Fn(usize, P::Part) + Sync,
    ) {
        let count = parts.count();
        let run = |index: usize| {
            // SAFETY: below `count`, and both ways of counting below give every number once.
            work(index, unsafe { parts.part(index) });
        };
        if count <= 1 || self.helpers.is_empty() {
            (0..count).for_each(run);
        } else {
            self.round(count, &run);
        }
    }

    /// Does the same on this thread alone, for work that is not worth others' attention.
    #[expect(unsafe_code, reason = "each piece is taken once")]
    #[expect(clippy::needless_pass_by_value, reason = "pieces are given out once")]
    pub(in crate::model::exec::cpu) fn here<P: DisjointChunks>(
        parts: P,
        work: impl Fn(usize, P::Part),
    ) {
        for index in 0..parts.count() {
            // SAFETY: below `count`, each number once.
            work(index, unsafe { parts.part(index) });
        }
    }

    fn round<F: Fn(usize) + Sync>(&mut self, count: usize, run: &F) {
        let shared = &*self.shared;
        shared.open(Round {
            work: std::ptr::from_ref(run).cast(),
            call: call::<F>,
            count,
        });
        for (helper, asleep) in self.helpers.iter().zip(&shared.asleep) {
            if asleep.swap(false, SeqCst) {
                helper.thread().unpark();
            }
        }
        // Closed on the way out of a panic as well: the closure must outlive the round.
        let close = Close(shared);
        shared.take_pieces();
        drop(close);
        assert!(
            !shared.panicked.swap(false, SeqCst),
            "a thread of the engine panicked"
        );
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        for helper in self.helpers.drain(..) {
            helper.thread().unpark();
            let _ = helper.join();
        }
    }
}

/// Calls the closure of a round.
#[expect(unsafe_code, reason = "the closure's type was forgotten")]
fn call<F: Fn(usize) + Sync>(work: *const (), index: usize) {
    // SAFETY: `round` made the pointer of a `&F` together with this function, and keeps that borrow
    // until the round is closed and everyone has left.
    let run = unsafe { &*work.cast::<F>() };
    run(index);
}

struct Close<'a>(&'a Shared);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        let mut looks = 0;
        self.0.word.fetch_and(!OPEN, SeqCst);
        while self.0.word.load(Acquire) & INSIDE != 0 {
            pause(&mut looks);
        }
    }
}

impl Shared {
    #[expect(unsafe_code, reason = "nobody is inside between rounds")]
    fn open(&self, round: Round) {
        // SAFETY: no round is open and no thread is inside: the last one was closed so, and `Pool`
        // opens one at a time.
        unsafe { *self.round.get() = round };
        self.next.store(0, Relaxed);
        let number = (self.word.load(Relaxed) >> 32).wrapping_add(1);
        self.word.store(number << 32 | OPEN, SeqCst);
    }

    /// Runs pieces until none is left.
    #[expect(unsafe_code, reason = "called inside a round only")]
    fn take_pieces(&self) {
        // SAFETY: a thread inside an open round may read it.
        let Round { work, call, count } = unsafe { *self.round.get() };
        loop {
            let index = self.next.fetch_add(1, Relaxed);
            if index >= count {
                return;
            }
            call(work, index);
        }
    }

    /// The life of a helper.
    fn help(&self, index: usize) {
        let (mut last, mut looks, mut since) = (0, 0, Instant::now());
        while !self.stop.load(Relaxed) {
            let word = self.word.load(Acquire);
            if word & OPEN != 0 && word >> 32 != last {
                if self.enter(word) {
                    last = word >> 32;
                    (looks, since) = (0, Instant::now());
                }
                continue;
            }
            if pause(&mut looks) && since.elapsed() > SPIN_MAX {
                self.sleep(index, last);
                since = Instant::now();
            }
        }
    }

    /// Enters the round that `word` shows; false if the round has changed meanwhile.
    fn enter(&self, word: u64) -> bool {
        let entered = self.word.compare_exchange(word, word + 1, SeqCst, Relaxed);
        if entered.is_err() {
            return false;
        }
        if catch_unwind(AssertUnwindSafe(|| self.take_pieces())).is_err() {
            self.panicked.store(true, SeqCst);
        }
        self.word.fetch_sub(1, Release);
        true
    }

    /// Sleeps until a round opens. The thread announces its sleep before its last check, and the
    /// opener checks for sleepers after opening. So one of the two sees the other.
    fn sleep(&self, index: usize, last: u64) {
        self.asleep[index].store(true, SeqCst);
        let word = self.word.load(SeqCst);
        let missed = word & OPEN != 0 && word >> 32 != last;
        if !missed && !self.stop.load(SeqCst) {
            thread::park();
        }
        self.asleep[index].store(false, SeqCst);
    }
}

/// Waits a moment. True now and then, when the clock is worth a glance.
fn pause(looks: &mut u32) -> bool {
    hint::spin_loop();
    *looks += 1;
    let glance = looks.is_multiple_of(LOOKS_PER_GLANCE);
    if glance {
        thread::yield_now();
    }
    glance
}

#[cfg(test)]
mod tests {
    use super::{super::disjoint::Chunks, *};

    #[test]
    fn every_piece_is_run_once_in_every_round() {
        for threads in [1, 2, 5] {
            let mut pool = Pool::new(threads).unwrap();
            assert_eq!(pool.threads(), threads);
            let mut counts = vec![0_u32; 1000];
            for round in 0..200 {
                let chunk = 1 + round % 7;
                pool.par_for(Chunks::new(&mut counts, chunk), |index, part| {
                    assert!(index < 1000_usize.div_ceil(chunk));
                    part.iter_mut().for_each(|count| *count += 1);
                });
                if round % 50 == 0 {
                    thread::sleep(2 * SPIN_MAX);
                }
            }
            assert!(counts.iter().all(|count| *count == 200));
        }
    }

    #[test]
    fn a_panic_of_any_thread_reaches_the_caller_and_the_pool_goes_on() {
        let mut pool = Pool::new(3).unwrap();
        let mut data = [0_u8; 64];
        let fails = catch_unwind(AssertUnwindSafe(|| {
            pool.par_for(Chunks::new(&mut data, 1), |index, _| {
                assert!(index != 33, "on purpose");
            });
        }));
        assert!(fails.is_err());
        pool.par_for(Chunks::new(&mut data, 1), |_, part| part[0] = 7);
        assert_eq!(data, [7; 64]);
    }

    #[test]
    fn nothing_to_do_is_done() {
        Pool::new(2)
            .unwrap()
            .par_for(Chunks::new(&mut [0_u8; 0], 4), |_, _| panic!("no piece"));
    }
}
