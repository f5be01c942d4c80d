//! A step of the CPU kernels allocates no memory once its buffers have grown.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use half::f16;
use stemma::model::exec::{
    Executor as _, Slot,
    cpu::{ActivationBits, CpuOptions},
};

use super::running::load_cpu;

/// The system's allocator, which counts what each thread asks for.
struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

#[expect(unsafe_code, reason = "an allocator is unsafe by its trait")]
// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends has no count left, and needs none.
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn count() -> usize {
    COUNT.with(Cell::get)
}

#[test]
fn decoding_takes_no_memory_after_its_first_steps() {
    for activation_bits in [ActivationBits::Eight, ActivationBits::Sixteen] {
        let options = CpuOptions {
            // All work is this thread's.
            threads: Some(1),
            activation_bits,
            ..CpuOptions::default()
        };
        let mut executor = load_cpu::<f16>("llama", &options);
        let mut kv_caches = [(); 3].map(|()| executor.new_kv());
        let mut logits = Vec::new();
        let mut counts = Vec::new();
        for step in 0..24_u32 {
            let tokens = [step % 90 + 1];
            let mut kv_caches = kv_caches.iter_mut();
            let mut slots = [(); 3].map(|()| Slot {
                tokens: &tokens,
                kv: kv_caches.next().expect("a memory for each"),
                logit_rows: 1,
            });
            let before = count();
            executor.step(&mut slots, &mut logits).expect("a step");
            counts.push(count() - before);
        }
        assert!(counts[0] > 0, "nothing is counted");
        assert_eq!(counts[4..], [0; 20], "{activation_bits:?}");
    }
}
