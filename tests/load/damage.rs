//! Model files with random damage: every outcome is a model or a sentence, never a panic.
//!
//! A failing test prints its seed, which `DAMAGE_SEED` replays, and the damage it was shrunk to.

use std::{fs, path::Path};

use proptest::{
    prelude::*,
    test_runner::{RngSeed, TestRunner},
};
use safetensors::tensor::{Dtype, TensorView, serialize};
use stemma::load::{self, Tensors};

use super::gguf_writer::GgufFile;

/// One way to damage a file. Places are fractions of its length, so that they fit any file.
#[derive(Debug, Clone)]
enum Damage {
    Cut(f64),
    Byte(f64, u8),
    /// Eight bytes become a length.
    Length(f64, u64),
    Swap(f64, f64),
}

fn damage() -> impl Strategy<Value = Damage> {
    let lengths = prop_oneof![
        any::<u64>(),
        (0..64_u32).prop_map(|bit| 1 << bit),
        (0..300_u64).prop_map(|less| u64::MAX - less),
    ];
    prop_oneof![
        (0.0..1.0).prop_map(Damage::Cut),
        ((0.0..1.0), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        ((0.0..1.0), lengths).prop_map(|(at, length)| Damage::Length(at, length)),
        ((0.0..1.0), (0.0..1.0)).prop_map(|(a, b)| Damage::Swap(a, b)),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    // Places lean towards the start, where the header is.
    let place =
        |at: f64, room: usize| (bytes.len().saturating_sub(room) as f64 * at.powi(3)) as usize;
    match damage {
        Damage::Cut(at) => bytes.truncate(place(*at, 0)),
        Damage::Byte(at, byte) => {
            let at = place(*at, 1);
            if let Some(old) = bytes.get_mut(at) {
                *old = *byte;
            }
        }
        Damage::Length(at, length) => {
            let at = place(*at, 8);
            if let Some(old) = bytes.get_mut(at..at + 8) {
                old.copy_from_slice(&length.to_le_bytes());
            }
        }
        Damage::Swap(a, b) if !bytes.is_empty() => {
            let (a, b) = (place(*a, 1), place(*b, 1));
            bytes.swap(a, b);
        }
        Damage::Swap(..) => {}
    }
}

/// Opens what there is and reads every tensor of it.
fn open_and_read(path: &Path) {
    match load::open(path) {
        Ok(model) => read_all(&*model.tensors),
        Err(error) => assert!(error.0.contains(&*path.to_string_lossy()), "{error}"),
    }
}

fn read_all(tensors: &dyn Tensors) {
    for name in tensors.names() {
        let elements = tensors.info(name).expect("a listed tensor").elements();
        // A tensor lies within its file, so its numbers cannot be many more than the file's bytes.
        assert!(elements <= 1 << 20, "{name} claims {elements} elements");
        tensors
            .read_f32(name, &mut vec![0.0; elements])
            .expect("a readable tensor");
        tensors.bytes(name).expect("a listed tensor");
    }
}

fn safetensors() -> Vec<u8> {
    let bytes = [0_u8; 512];
    let views = ["model.norm.weight", "lm_head.weight"].map(|name| {
        (
            name,
            TensorView::new(Dtype::F32, vec![4, 32], &bytes).expect("a tensor"),
        )
    });
    serialize(views, None).expect("a file")
}

/// Runs a property on random damages, with a seed of its own or that of `DAMAGE_SEED`.
fn for_random_damages(property: impl Fn(&[Damage])) {
    let seed = std::env::var("DAMAGE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(rand::random);
    announce(seed);
    let config = ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        ..ProptestConfig::default()
    };
    let damages = prop::collection::vec(damage(), 1..6);
    TestRunner::new(config)
        .run(&damages, |damages| {
            property(&damages);
            Ok(())
        })
        .expect("no panic");
}

#[expect(clippy::print_stdout, reason = "shown with a failing test")]
fn announce(seed: u64) {
    println!("DAMAGE_SEED={seed}");
}

#[test]
fn a_damaged_gguf_file_never_panics() {
    check_gguf(&GgufFile::small("llama").to_bytes());
}

#[test]
fn a_damaged_gguf_file_of_every_type_never_panics() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dequantise");
    check_gguf(&fs::read(folder.join("every-type.gguf")).expect("a golden file"));
}

fn check_gguf(whole: &[u8]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("damaged.gguf");
    for_random_damages(|damages| {
        let mut bytes = whole.to_vec();
        damages.iter().for_each(|damage| apply(&mut bytes, damage));
        fs::write(&path, bytes).expect("a writable folder");
        open_and_read(&path);
    });
}

#[test]
fn a_damaged_safetensors_file_never_panics() {
    let whole = safetensors();
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("config.json"), "{}").expect("a writable folder");
    fs::write(folder.path().join("tokenizer.json"), "{}").expect("a writable folder");
    for_random_damages(|damages| {
        let mut bytes = whole.clone();
        damages.iter().for_each(|damage| apply(&mut bytes, damage));
        fs::write(folder.path().join("model.safetensors"), bytes).expect("a writable folder");
        open_and_read(folder.path());
    });
}
