//! One sequence gives the same logits however it is cut into steps, whatever runs beside it, and
//! whichever way its memory came about.

use half::f16;
use stemma::model::exec::{
    Executor, KvCache, Slot,
    cpu::KvElement,
    mlx::{Backend, Dtype, MlxOptions},
};

use super::{
    files,
    running::{assert_close, cpu_options, feed, last_logits, load, load_cpu},
};

/// Asserts equality of logits: close on MLX, whose sums depend on the shapes of products; the same
/// bits on the CPU kernels.
type Same = fn(&str, &[f32], &[f32]);

/// Something that holds on every executor.
trait Check {
    fn check<E: Executor>(&self, model: &str, executor: &mut E, same: Same);
}

/// Models with and without windows, on every executor.
fn for_each(check: &impl Check) {
    for model in ["llama", "mistral", "gemma3_text", "llama-mlx-4bit"] {
        for backend in [Backend::Cpu, Backend::Gpu] {
            let options = MlxOptions {
                backend: Some(backend),
                dtype: Dtype::F32,
                progress: None,
            };
            let close: Same = |what, got, expected| assert_close(what, got, expected, 1e-4);
            check.check(model, &mut load(model, &options), close);
        }
        on_cpu_kernels::<f16>(model, check);
        on_cpu_kernels::<f32>(model, check);
    }
}

fn on_cpu_kernels<E: KvElement>(model: &str, check: &impl Check) {
    let equal: Same = |what, got, expected| {
        let bits = |logits: &[f32]| -> Vec<u32> { logits.iter().map(|x| x.to_bits()).collect() };
        assert_eq!(bits(got), bits(expected), "{what}");
    };
    for options in cpu_options() {
        check.check(model, &mut load_cpu::<E>(model, &options), equal);
    }
}

/// A sequence of any length below a tiny model's context.
fn tokens(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32)
        .map(|index| (index * 37 + seed * 11 + index * index * seed) % 96)
        .collect()
}

struct Chunks;

impl Check for Chunks {
    fn check<E: Executor>(&self, model: &str, executor: &mut E, same: Same) {
        let golden = files::golden(model);
        let expected = last_logits(executor, &golden.tokens, golden.tokens.len());
        for chunk in [1, 5, 8, 23] {
            let logits = last_logits(executor, &golden.tokens, chunk);
            same(&format!("{model} by {chunk}"), &logits, &expected);
        }
    }
}

#[test]
fn chunks_do_not_matter() {
    for_each(&Chunks);
}

struct Batch;

impl Check for Batch {
    fn check<E: Executor>(&self, model: &str, executor: &mut E, same: Same) {
        let prompts = [
            tokens(1, 20),
            tokens(2, 1),
            tokens(3, 33),
            tokens(4, 9),
            tokens(5, 2),
        ];
        let mut kv_caches: Vec<_> = prompts.iter().map(|_| executor.new_kv()).collect();
        // The first, third and fifth have a past, the third wants no logits.
        let past = [7, 0, 12, 0, 1];
        for ((prompt, memory), past) in prompts.iter().zip(&mut kv_caches).zip(past) {
            if past > 0 {
                feed(executor, memory, &prompt[..past]);
            }
        }
        let mut slots: Vec<_> = prompts
            .iter()
            .zip(&mut kv_caches)
            .enumerate()
            .map(|(index, (prompt, kv))| Slot {
                tokens: &prompt[past[index]..],
                kv,
                logit_rows: usize::from(index != 2),
            })
            .collect();
        let mut logits = vec![7.0];
        executor
            .step(&mut slots, &mut logits)
            .expect("a working device");

        let wanted = [0, 1, 3, 4];
        assert_eq!(logits.len(), wanted.len() * executor.vocab_size());
        for (row, index) in logits.chunks(executor.vocab_size()).zip(wanted) {
            let alone = last_logits(executor, &prompts[index], 64);
            same(&format!("{model}, slot {index}"), row, &alone);
        }
        let next = feed(executor, &mut kv_caches[2], &[1]);
        let alone = last_logits(executor, &[prompts[2].as_slice(), &[1]].concat(), 64);
        same(
            &format!("{model}, after the slot without logits"),
            &next,
            &alone,
        );
    }
}

#[test]
fn a_batch_gives_each_sequence_what_it_gets_alone() {
    for_each(&Batch);
}

struct Forks;

impl Check for Forks {
    fn check<E: Executor>(&self, model: &str, executor: &mut E, same: Same) {
        let stem = tokens(6, 30);
        let mut parent = executor.new_kv();
        feed(executor, &mut parent, &stem);
        let mut children = [
            parent.fork(30),
            parent.fork(30),
            parent.fork(17),
            parent.fork(0),
        ];
        let lengths = [30, 30, 17, 0];
        let suffixes = [tokens(7, 5), tokens(8, 3), tokens(9, 6), tokens(10, 4)];

        // All at once, so that two of them extend the same buffer within one step.
        let mut slots: Vec<_> = children
            .iter_mut()
            .zip(&suffixes)
            .map(|(kv, tokens)| Slot {
                tokens,
                kv,
                logit_rows: 1,
            })
            .collect();
        let mut logits = Vec::new();
        executor
            .step(&mut slots, &mut logits)
            .expect("a working device");
        let mut rows = logits.chunks(executor.vocab_size());
        for (suffix, len) in suffixes.iter().zip(lengths) {
            let whole = [&stem[..len], suffix].concat();
            let expected = last_logits(executor, &whole, 64);
            same(
                &format!("{model} at {len}"),
                rows.next().expect("a row for each slot"),
                &expected,
            );
        }

        let again = feed(executor, &mut parent, &[3, 4]);
        let expected = last_logits(executor, &[stem.as_slice(), &[3, 4]].concat(), 64);
        same(&format!("{model}, the parent"), &again, &expected);
    }
}

#[test]
fn forks_continue_apart() {
    for_each(&Forks);
}

struct Rows;

impl Check for Rows {
    fn check<E: Executor>(&self, model: &str, executor: &mut E, same: Same) {
        let (stem, tail) = (tokens(6, 30), tokens(7, 6));
        let mut kv_caches = [0, 30].map(|len| {
            let mut kv = executor.new_kv();
            if len > 0 {
                feed(executor, &mut kv, &stem);
            }
            kv
        });
        let kept = kv_caches[1].fork(30);
        let [short, long] = &mut kv_caches;
        let slot = |tokens, kv, wanted| Slot {
            tokens,
            kv,
            logit_rows: wanted,
        };
        let mut logits = Vec::new();
        let mut slots = [slot(&stem[..4], short, 2), slot(&tail[..], long, 5)];
        executor
            .step(&mut slots, &mut logits)
            .expect("a working device");
        let ends = [(&stem[..0], &stem[..3]), (&stem[..0], &stem[..4])];
        let more = (2..=6).map(|len| (&stem[..], &tail[..len]));
        let mut rows = logits.chunks(executor.vocab_size());
        for (stem, tail) in ends.into_iter().chain(more) {
            let whole = [stem, tail].concat();
            let expected = last_logits(executor, &whole, 64);
            let what = format!("{model} after {} tokens", whole.len());
            same(
                &what,
                rows.next().expect("a row for each wanted"),
                &expected,
            );
        }
        assert_eq!(rows.next(), None);

        // What is dropped is as if it had never been run, for forks of before too.
        let [_, mut long] = kv_caches;
        long.truncate(33);
        assert_eq!(long.len(), 33);
        let other = feed(executor, &mut long, &[90, 91, 92]);
        let whole = [&stem[..], &tail[..3], &[90, 91, 92]].concat();
        same(model, &other, &last_logits(executor, &whole, 64));
        long.truncate(20);
        let mut kept = kept;
        for (kv, len) in [(&mut kept, 30), (&mut long, 20)] {
            let next = feed(executor, kv, &[3, 4]);
            let expected = last_logits(executor, &[&stem[..len], &[3, 4]].concat(), 64);
            same(&format!("{model} again after {len}"), &next, &expected);
        }
    }
}

#[test]
fn several_rows_are_those_of_each_and_what_is_dropped_leaves_no_trace() {
    for_each(&Rows);
}

struct Growth;

impl Check for Growth {
    fn check<E: Executor>(&self, model: &str, executor: &mut E, same: Same) {
        let mut memory = executor.new_kv();
        assert!(memory.is_empty());
        let prompt = tokens(3, 120);
        let mut logits = Vec::new();
        for token in &prompt {
            logits = feed(executor, &mut memory, &[*token]);
        }
        assert!(memory.bytes() >= 120 * executor.kv_bytes_per_token());
        let expected = last_logits(executor, &prompt, 128);
        same(&format!("{model} token by token"), &logits, &expected);
    }
}

#[test]
fn buffers_grow_past_their_first_room() {
    for_each(&Growth);
}

struct Refusals;

impl Check for Refusals {
    fn check<E: Executor>(&self, _: &str, executor: &mut E, _: Same) {
        let refuse = |tokens: &[u32], executor: &mut E| {
            let mut kv = executor.new_kv();
            let slot = Slot {
                tokens,
                kv: &mut kv,
                logit_rows: 1,
            };
            let refused = executor.step(&mut [slot], &mut Vec::new());
            refused.expect_err("a refusal").0
        };
        assert_eq!(
            refuse(&[1, 96], executor),
            "token 96 is not in the vocabulary of 96"
        );
        assert_eq!(
            refuse(&[1; 129], executor),
            "129 tokens exceed the context of 128"
        );
        assert_eq!(refuse(&[], executor), "a slot has no tokens");
        executor
            .step(&mut [], &mut Vec::new())
            .expect("nothing to do");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    for_each(&Refusals);
}
