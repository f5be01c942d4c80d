//! Memories that are written as bytes and read back go on as if they had never left.

use half::f16;
use stemma::model::exec::{
    Executor, KvCache as _,
    mlx::{Dtype, MlxOptions},
};

use super::running::{assert_close, cpu_options, feed, load, load_cpu};

/// The logits after what follows a memory of some tokens: of itself, and of one that was made of its
/// bytes, the first ones of a fork, the others in two parts.
fn both<E: Executor>(mut executor: E) -> [Vec<f32>; 2] {
    let tokens: Vec<u32> = (0..120).map(|n| n * 37 % 96).collect();
    let (begun, more) = tokens.split_at(110);
    let mut kv = executor.new_kv();
    for part in begun.chunks(33) {
        feed(&mut executor, &mut kv, part);
    }
    let format = executor.kv_format().expect("memories that can be written");
    let frozen = kv.export(40..110).expect("tokens that are there");
    assert!(kv.export(40..111).is_none());
    // What is frozen does not change when the sequence goes on.
    let mut on = kv.fork(110);
    let expected = feed(&mut executor, &mut on, more);
    let mut read = kv.fork(50);
    drop((kv, on));
    for part in [50..51, 51..110] {
        let mut bytes = Vec::new();
        frozen.write(part.clone(), &mut bytes);
        assert_eq!(bytes.len(), part.len() * format.layout.bytes_per_token());
        read.import(part.len(), &bytes).expect("bytes of its size");
        assert!(read.import(1, &bytes[1..]).is_err());
    }
    assert_eq!(read.len(), 110);
    [feed(&mut executor, &mut read, more), expected]
}

#[test]
fn own_kernels_go_on_from_bytes_to_the_same_bits() {
    for model in ["llama", "mistral", "gemma3_text"] {
        for options in cpu_options() {
            let what = format!("{model}, {:?}", options.instructions);
            let [thawed, expected] = both(load_cpu::<f16>(model, &options));
            assert_eq!(thawed, expected, "{what}, f16");
            let [thawed, expected] = both(load_cpu::<f32>(model, &options));
            assert_eq!(thawed, expected, "{what}, f32");
        }
    }
}

#[test]
fn mlx_goes_on_from_bytes() {
    for model in ["llama", "mistral", "gemma3_text"] {
        for dtype in [Dtype::F32, Dtype::Bf16, Dtype::F16] {
            let options = MlxOptions {
                dtype,
                ..MlxOptions::default()
            };
            let [thawed, expected] = both(load(model, &options));
            assert_close(&format!("{model}, {dtype:?}"), &thawed, &expected, 1e-5);
        }
    }
}
