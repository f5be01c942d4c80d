//! One sequence gives the same logits however it is cut into steps, whatever runs beside it, and
//! whichever way its memory came about.

use stemma::model::exec::{
    Executor, KvMemory, Slot,
    mlx::{Backend, Dtype, MlxOptions},
};

use super::{
    files,
    running::{assert_close, feed, last_logits, load},
};

const TOLERANCE: f32 = 1e-4;

/// Models with and without windows, on both ways of attention.
fn for_each(check: impl Fn(&str, &MlxOptions<'_>)) {
    for model in ["llama", "mistral", "gemma3_text"] {
        for backend in [Backend::Cpu, Backend::Gpu] {
            let options = MlxOptions {
                backend: Some(backend),
                dtype: Dtype::F32,
                progress: None,
            };
            check(model, &options);
        }
    }
}

/// A sequence of any length below a tiny model's context.
fn tokens(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32)
        .map(|index| (index * 37 + seed * 11 + index * index * seed) % 96)
        .collect()
}

#[test]
fn chunks_do_not_matter() {
    for_each(|model, options| {
        let golden = files::golden(model);
        let mut executor = load(model, options);
        let expected = golden.logits.last().unwrap();
        for chunk in [1, 5, 8, 23, 24] {
            let logits = last_logits(&mut executor, &golden.tokens, chunk);
            assert_close(&format!("{model} by {chunk}"), &logits, expected, TOLERANCE);
        }
    });
}

#[test]
fn a_batch_gives_each_sequence_what_it_gets_alone() {
    for_each(|model, options| {
        let mut executor = load(model, options);
        let prompts = [
            tokens(1, 20),
            tokens(2, 1),
            tokens(3, 33),
            tokens(4, 9),
            tokens(5, 2),
        ];
        let mut memories: Vec<_> = prompts.iter().map(|_| executor.new_kv()).collect();
        // The first, third and fifth have a past, the third wants no logits.
        let past = [7, 0, 12, 0, 1];
        for ((prompt, memory), past) in prompts.iter().zip(&mut memories).zip(past) {
            if past > 0 {
                feed(&mut executor, memory, &prompt[..past]);
            }
        }
        let mut slots: Vec<_> = prompts
            .iter()
            .zip(&mut memories)
            .enumerate()
            .map(|(index, (prompt, kv))| Slot {
                tokens: &prompt[past[index]..],
                kv,
                wants_logits: index != 2,
            })
            .collect();
        let mut logits = vec![7.0];
        executor.step(&mut slots, &mut logits).unwrap();

        let wanted = [0, 1, 3, 4];
        assert_eq!(logits.len(), wanted.len() * executor.vocab_size());
        for (row, index) in logits.chunks(executor.vocab_size()).zip(wanted) {
            let alone = last_logits(&mut executor, &prompts[index], 64);
            assert_close(&format!("{model}, slot {index}"), row, &alone, TOLERANCE);
        }
        let next = feed(&mut executor, &mut memories[2], &[1]);
        let alone = last_logits(&mut executor, &[prompts[2].as_slice(), &[1]].concat(), 64);
        assert_close(
            &format!("{model}, after the slot without logits"),
            &next,
            &alone,
            TOLERANCE,
        );
    });
}

#[test]
fn forks_continue_apart() {
    for_each(|model, options| {
        let mut executor = load(model, options);
        let stem = tokens(6, 30);
        let mut parent = executor.new_kv();
        feed(&mut executor, &mut parent, &stem);
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
                wants_logits: true,
            })
            .collect();
        let mut logits = Vec::new();
        executor.step(&mut slots, &mut logits).unwrap();
        let mut rows = logits.chunks(executor.vocab_size());
        for (suffix, len) in suffixes.iter().zip(lengths) {
            let whole = [&stem[..len], suffix].concat();
            let expected = last_logits(&mut executor, &whole, 64);
            assert_close(
                &format!("{model} at {len}"),
                rows.next().unwrap(),
                &expected,
                TOLERANCE,
            );
        }

        let again = feed(&mut executor, &mut parent, &[3, 4]);
        let expected = last_logits(&mut executor, &[stem.as_slice(), &[3, 4]].concat(), 64);
        assert_close(
            &format!("{model}, the parent"),
            &again,
            &expected,
            TOLERANCE,
        );
    });
}

#[test]
fn buffers_grow_past_their_first_room() {
    let options = MlxOptions::default();
    let mut executor = load("qwen2", &options);
    let mut memory = executor.new_kv();
    assert!(memory.is_empty());
    let prompt = tokens(3, 120);
    let mut logits = Vec::new();
    for token in &prompt {
        logits = feed(&mut executor, &mut memory, &[*token]);
    }
    assert!(memory.bytes() >= 120 * executor.kv_bytes_per_token());
    let expected = last_logits(&mut executor, &prompt, 128);
    assert_close("qwen2 token by token", &logits, &expected, TOLERANCE);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut executor = load("llama", &MlxOptions::default());
    let refuse = |tokens: &[u32], executor: &mut stemma::model::exec::mlx::MlxExecutor| {
        let mut kv = executor.new_kv();
        let slot = Slot {
            tokens,
            kv: &mut kv,
            wants_logits: true,
        };
        executor.step(&mut [slot], &mut Vec::new()).unwrap_err().0
    };
    assert_eq!(
        refuse(&[1, 96], &mut executor),
        "token 96 is not in the vocabulary of 96"
    );
    assert_eq!(
        refuse(&[1; 129], &mut executor),
        "129 tokens exceed the context of 128"
    );
    assert_eq!(refuse(&[], &mut executor), "a slot has no tokens");
    executor.step(&mut [], &mut Vec::new()).unwrap();
}
