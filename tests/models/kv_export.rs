//! KV caches that are exported to bytes and imported: decode continues as without the export.

use half::f16;
use stemma::model::exec::{
    Executor, KvCache as _,
    mlx::{Dtype, MlxOptions},
};

use super::running::{assert_close, cpu_options, feed, load, load_cpu};

/// Returns the logits of a continuation, from two KV caches with the same tokens. The first is a
/// fork's start, with the rest imported from bytes in two segments. The second is the original.
fn continued<E: Executor>(mut executor: E) -> [Vec<f32>; 2] {
    let tokens: Vec<u32> = (0..120).map(|n| n * 37 % 96).collect();
    let (begun, more) = tokens.split_at(110);
    let mut kv = executor.new_kv();
    for chunk in begun.chunks(33) {
        feed(&mut executor, &mut kv, chunk);
    }
    let format = executor.kv_format().expect("an exportable KV cache");
    let export = kv.export(40..110).expect("tokens that are there");
    assert!(kv.export(40..111).is_none());
    // The export does not change when the sequence continues.
    let mut on = kv.fork(110);
    let expected = feed(&mut executor, &mut on, more);
    let mut import = kv.fork(50);
    drop((kv, on));
    for part in [50..51, 51..110] {
        let mut bytes = Vec::new();
        export.write(part.clone(), &mut bytes);
        assert_eq!(bytes.len(), part.len() * format.layout.bytes_per_token());
        import
            .import(part.len(), &bytes)
            .expect("bytes of its size");
        assert!(import.import(1, &bytes[1..]).is_err());
    }
    assert_eq!(import.len(), 110);
    [feed(&mut executor, &mut import, more), expected]
}

#[test]
fn cpu_kernels_continue_from_imported_bytes_with_the_same_bits() {
    for model in ["llama", "mistral", "gemma3_text"] {
        for options in cpu_options() {
            let what = format!("{model}, {:?}", options.instructions);
            let [imported, expected] = continued(load_cpu::<f16>(model, &options));
            assert_eq!(imported, expected, "{what}, f16");
            let [imported, expected] = continued(load_cpu::<f32>(model, &options));
            assert_eq!(imported, expected, "{what}, f32");
        }
    }
}

#[test]
fn mlx_continues_from_imported_bytes() {
    for model in ["llama", "mistral", "gemma3_text"] {
        for dtype in [Dtype::F32, Dtype::Bf16, Dtype::F16] {
            let options = MlxOptions {
                dtype,
                ..MlxOptions::default()
            };
            let [imported, expected] = continued(load(model, &options));
            assert_close(&format!("{model}, {dtype:?}"), &imported, &expected, 1e-5);
        }
    }
}
