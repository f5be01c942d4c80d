//! The tiny models of tests/data/models, held in memory so that a test can damage them.

use std::{borrow::Cow, collections::BTreeMap, fs, path::PathBuf};

use safetensors::{Dtype, SafeTensors};
use serde_json::{Map, Value};
use stemma::{
    load::{
        LoadError, ModelFiles, TensorInfo, TensorType, Tensors,
        mlx::{self, MlxPacking},
    },
    tokenizer::{GgufVocabulary, TokenizerSource},
};

/// Tensors with their stored bytes.
#[derive(Clone, Default)]
pub(crate) struct TinyTensors(pub(crate) BTreeMap<String, (TensorInfo, Vec<u8>)>);

fn folder(model: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/models")
        .join(model)
}

fn read_tensors(path: PathBuf) -> TinyTensors {
    let bytes = fs::read(path).expect("a readable file");
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let tensors = file.iter().map(|(name, view)| {
        let encoding = match view.dtype() {
            Dtype::F32 => TensorType::F32,
            Dtype::BF16 => TensorType::Bf16,
            Dtype::U32 => TensorType::U32,
            other => panic!("{other:?} is not written by logits.py"),
        };
        let info = TensorInfo {
            shape: view.shape().to_vec(),
            encoding,
        };
        (name.to_owned(), (info, view.data().to_vec()))
    });
    TinyTensors(tensors.collect())
}

/// The configuration of a tiny model.
pub(crate) fn config(model: &str) -> Map<String, Value> {
    let text = fs::read_to_string(folder(model).join("config.json")).expect("a readable file");
    serde_json::from_str(&text).expect("a JSON object")
}

/// The weights of a tiny model.
pub(crate) fn tensors(model: &str) -> TinyTensors {
    read_tensors(folder(model).join("model.safetensors"))
}

/// A model made of these parts, if its packed matrices are whole.
pub(crate) fn assemble(
    config: Map<String, Value>,
    tensors: TinyTensors,
) -> Result<ModelFiles, LoadError> {
    let packing = MlxPacking::of(&config)?;
    Ok(ModelFiles {
        path: PathBuf::from("tiny.model"),
        config,
        generation_config: Map::new(),
        tokenizer: TokenizerSource::Gguf(GgufVocabulary::default()),
        chat_template: None,
        tensors: mlx::unpacked(packing.as_ref(), Box::new(tensors))?,
    })
}

/// A tiny model as it is.
pub(crate) fn open(model: &str) -> ModelFiles {
    assemble(config(model), tensors(model)).expect("a whole model")
}

/// A prompt, and the logits that mlx-lm computed after each of its tokens.
pub(crate) struct Golden {
    pub(crate) tokens: Vec<u32>,
    pub(crate) logits: Vec<Vec<f32>>,
}

/// The golden of a tiny model.
pub(crate) fn golden(model: &str) -> Golden {
    let file = read_tensors(folder(model).join("golden.safetensors"));
    let words = |name: &str| {
        file.0[name]
            .1
            .as_chunks::<4>()
            .0
            .iter()
            .map(|word| u32::from_le_bytes(*word))
    };
    let width = file.0["logits"].0.shape[1];
    let values: Vec<f32> = words("logits").map(f32::from_bits).collect();
    Golden {
        tokens: words("tokens").collect(),
        logits: values.chunks(width).map(<[f32]>::to_vec).collect(),
    }
}

impl TinyTensors {
    fn get(&self, name: &str) -> Result<&(TensorInfo, Vec<u8>), LoadError> {
        self.0
            .get(name)
            .ok_or_else(|| LoadError(format!("tiny.model has no tensor {name}")))
    }
}

impl Tensors for TinyTensors {
    fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.0.get(name).map(|(info, _)| info)
    }

    fn bytes(&self, name: &str) -> Result<Cow<'_, [u8]>, LoadError> {
        Ok(self.get(name)?.1.as_slice().into())
    }

    fn read_f32(&self, name: &str, out: &mut [f32]) -> Result<(), LoadError> {
        let (info, bytes) = self.get(name)?;
        let values: Vec<f32> = match info.encoding {
            TensorType::F32 => bytes
                .as_chunks::<4>()
                .0
                .iter()
                .map(|word| f32::from_le_bytes(*word))
                .collect(),
            TensorType::Bf16 => bytes
                .as_chunks::<2>()
                .0
                .iter()
                .map(|half| f32::from_bits(u32::from(u16::from_le_bytes(*half)) << 16))
                .collect(),
            other => return Err(LoadError(format!("tensor {name} is stored as {other:?}"))),
        };
        if values.len() != out.len() {
            return Err(LoadError(format!("tensor {name} has another size")));
        }
        out.copy_from_slice(&values);
        Ok(())
    }

    fn place(&self, name: &str) -> String {
        format!("tiny.model: tensor `{name}`")
    }
}
