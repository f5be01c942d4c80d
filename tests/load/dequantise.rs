//! Every readable tensor type of GGUF against the `gguf` package (tests/goldens/dequantise.py).

use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use stemma::load::{self, Tensors};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/dequantise")
        .join(name)
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn read(tensors: &dyn Tensors, name: &str) -> Vec<f32> {
    let info = tensors.info(name).unwrap_or_else(|| panic!("no {name}"));
    let mut out = vec![f32::NAN; info.elements()];
    tensors.read_f32(name, &mut out).expect("a readable tensor");
    out
}

#[test]
fn every_type_is_equal_to_the_last_bit() {
    let expected = std::fs::read(data("expected.safetensors")).expect("the golden file");
    let expected = SafeTensors::deserialize(&expected).expect("a safetensors file");
    let model = load::open(&data("every-type.gguf")).expect("a readable file");
    assert_eq!(model.tensors.names().len(), expected.len());
    for (name, view) in expected.iter() {
        let info = model
            .tensors
            .info(name)
            .unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(info.shape, view.shape(), "{name}");
        let golden = view
            .data()
            .as_chunks()
            .0
            .iter()
            .map(|word| f32::from_le_bytes(*word));
        let golden: Vec<f32> = golden.collect();
        let encoding = info.encoding;
        let read = read(&*model.tensors, name);
        assert_eq!(bits(&read), bits(&golden), "{name} as {encoding:?}");
    }
}

#[test]
fn bytes_are_in_the_same_order_as_numbers() {
    let model = load::open(&data("every-type.gguf")).expect("a readable file");
    for name in [
        "model.layers.0.self_attn.k_proj.weight",
        "model.layers.0.self_attn.k_proj.bias",
    ] {
        let bytes = model.tensors.bytes(name).expect("a tensor");
        let from_bytes: Vec<f32> = bytes
            .as_chunks()
            .0
            .iter()
            .map(|word| f32::from_le_bytes(*word))
            .collect();
        assert_eq!(
            bits(&from_bytes),
            bits(&read(&*model.tensors, name)),
            "{name}"
        );
    }
}
