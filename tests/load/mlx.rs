//! Folders quantised by MLX against MLX's own numbers (tests/goldens/mlx_quantised.py).

use std::{
    fs,
    path::{Path, PathBuf},
};

use safetensors::SafeTensors;
use stemma::load::{self, LoadError, MlxQuantization, TensorType};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/mlx-quantised")
}

#[test]
fn every_packing_yields_the_numbers_of_mlx() {
    let expected = fs::read(folder().join("expected/expected.safetensors")).expect("the goldens");
    let expected = SafeTensors::deserialize(&expected).expect("a safetensors file");
    let model = load::open(&folder()).expect("a readable folder");
    for (name, view) in expected.iter() {
        let info = model
            .tensors
            .info(name)
            .unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(info.shape, view.shape(), "{name}");
        let mut read = vec![f32::NAN; info.elements()];
        model
            .tensors
            .read_f32(name, &mut read)
            .expect("a readable tensor");
        let golden = view
            .data()
            .as_chunks()
            .0
            .iter()
            .map(|word| f32::from_le_bytes(*word));
        for (index, (read, golden)) in read.iter().zip(golden).enumerate() {
            assert_eq!(
                read.to_bits(),
                golden.to_bits(),
                "{name}[{index}]: {read}, not {golden}"
            );
        }
    }
}

#[test]
fn packings_are_shown() {
    let model = load::open(&folder()).expect("a readable folder");
    let name = "model.layers.1.mlp.up_proj.weight";
    let how = MlxQuantization {
        group_size: 64,
        bits: 2,
    };
    assert_eq!(model.tensors.quantization(name), Some(how));
    assert_eq!(
        model.tensors.info(name).expect("a matrix").encoding,
        TensorType::U32
    );
    assert_eq!(
        model.tensors.bytes(name).expect("words").len(),
        2 * 4 * how.words(256)
    );
    assert_eq!(model.tensors.quantization("model.norm.weight"), None);
    let scales = model
        .tensors
        .info("model.layers.1.mlp.up_proj.scales")
        .expect("scales");
    assert_eq!(scales.shape, [2, how.groups(256)]);
}

/// The reason why the folder is refused after a change of its `config.json`.
fn refused(change: impl Fn(&mut serde_json::Value)) -> String {
    let copy = tempfile::tempdir().expect("a temporary folder");
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        fs::copy(folder().join(file), copy.path().join(file)).expect("a copy");
    }
    let path = copy.path().join("config.json");
    let text = fs::read_to_string(&path).expect("readable");
    let mut config: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    change(&mut config);
    fs::write(&path, config.to_string()).expect("writable");
    let Err(LoadError(text)) = load::open(copy.path()) else {
        panic!("opened")
    };
    text
}

#[test]
fn what_does_not_fit_its_packing_is_refused_by_name() {
    let layer = "model.layers.0.mlp.up_proj";
    let text = refused(|config| config["quantization"][layer]["mode"] = "mxfp4".into());
    assert!(
        text.contains("config.json: `model.layers.0.mlp.up_proj` has mode \"mxfp4\""),
        "{text}"
    );
    let text = refused(|config| config["quantization"][layer]["group_size"] = 64.into());
    assert!(
        text.contains("model.safetensors: tensor `model.layers.0.mlp.up_proj.weight`"),
        "{text}"
    );
    assert!(
        text.contains("`model.layers.0.mlp.up_proj.scales` of shape [2, 8], not [2, 4]"),
        "{text}"
    );
    let text = refused(|config| config["quantization"][layer]["bits"] = 6.into());
    assert!(
        text.contains("tensor `model.layers.0.mlp.up_proj.weight` has shape [2, 16]"),
        "{text}"
    );
    let text = refused(|config| config["quantization"][layer] = false.into());
    assert!(text.contains("no `quantization` for it"), "{text}");
}
