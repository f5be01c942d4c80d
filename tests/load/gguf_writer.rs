//! Writes small GGUF files, right ones and wrong ones.

use std::path::{Path, PathBuf};

/// A GGUF file in the making: a one-layer model of the smallest sizes, to be altered.
#[derive(Debug, Clone)]
pub(crate) struct GgufFile {
    pub(crate) version: u32,
    pub(crate) alignment: usize,
    pub(crate) metadata: Vec<(String, Metadata)>,
    pub(crate) tensors: Vec<Tensor>,
}

#[derive(Debug, Clone)]
pub(crate) enum Metadata {
    U32(u32),
    F32(f32),
    Bool(bool),
    Text(String),
    Texts(Vec<String>),
    I32s(Vec<i32>),
}

#[derive(Debug, Clone)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    /// Innermost dimension first, as in the file.
    pub(crate) dimensions: Vec<u64>,
    pub(crate) kind: u32,
    /// Offset of the tensor, if it does not follow the one before.
    pub(crate) offset: Option<u64>,
    pub(crate) data: Vec<u8>,
}

pub(crate) const F32: u32 = 0;
pub(crate) const HIDDEN: usize = 32;
pub(crate) const VOCABULARY: usize = 4;

impl GgufFile {
    /// A file that opens.
    pub(crate) fn small(architecture: &str) -> Self {
        let mut file = Self {
            version: 3,
            alignment: 32,
            metadata: Vec::new(),
            tensors: Vec::new(),
        };
        file.set(
            "general.architecture",
            Metadata::Text(architecture.to_owned()),
        );
        for (key, value) in [
            ("block_count", 1),
            ("context_length", 64),
            ("embedding_length", HIDDEN as u32),
            ("feed_forward_length", 64),
            ("attention.head_count", 4),
            ("attention.head_count_kv", 2),
        ] {
            file.set(&format!("{architecture}.{key}"), Metadata::U32(value));
        }
        let epsilon = format!("{architecture}.attention.layer_norm_rms_epsilon");
        file.set(&epsilon, Metadata::F32(1e-5));
        file.set("tokenizer.ggml.model", Metadata::Text("gpt2".to_owned()));
        let tokens = ["a", "b", "ab", "<e>"].map(str::to_owned).to_vec();
        file.set("tokenizer.ggml.tokens", Metadata::Texts(tokens));
        file.set(
            "tokenizer.ggml.token_type",
            Metadata::I32s(vec![1, 1, 1, 3]),
        );
        file.set("tokenizer.ggml.eos_token_id", Metadata::U32(3));
        file.add_f32("token_embd.weight", &[HIDDEN, VOCABULARY]);
        file.add_f32("output_norm.weight", &[HIDDEN]);
        file.add_f32("blk.0.attn_q.weight", &[HIDDEN, HIDDEN]);
        file.add_f32("blk.0.attn_norm.weight", &[HIDDEN]);
        file
    }

    /// Sets a metadata key, replacing what it was.
    pub(crate) fn set(&mut self, key: &str, value: Metadata) {
        self.remove(key);
        self.metadata.push((key.to_owned(), value));
    }

    pub(crate) fn remove(&mut self, key: &str) {
        self.metadata.retain(|(other, _)| other != key);
    }

    /// Adds a tensor that counts up from 0.
    pub(crate) fn add_f32(&mut self, name: &str, dimensions: &[usize]) {
        let elements: usize = dimensions.iter().product();
        let numbers = (0..elements).map(|index| index as f32);
        self.tensors.push(Tensor {
            name: name.to_owned(),
            dimensions: dimensions.iter().map(|size| *size as u64).collect(),
            kind: F32,
            offset: None,
            data: numbers.flat_map(f32::to_le_bytes).collect(),
        });
    }

    pub(crate) fn tensor(&mut self, name: &str) -> &mut Tensor {
        self.tensors
            .iter_mut()
            .find(|tensor| tensor.name == name)
            .expect("such a tensor")
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(self.version.to_le_bytes());
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, value) in &self.metadata {
            put_text(&mut bytes, key);
            value.put(&mut bytes);
        }
        let mut data = Vec::new();
        for tensor in &self.tensors {
            let offset = tensor.offset.unwrap_or(data.len() as u64);
            tensor.put_description(&mut bytes, offset);
            data.extend(&tensor.data);
            data.resize(data.len().next_multiple_of(self.alignment), 0);
        }
        bytes.resize(bytes.len().next_multiple_of(self.alignment), 0);
        bytes.extend(data);
        bytes
    }

    pub(crate) fn write(&self, folder: &Path) -> PathBuf {
        let path = folder.join("small.gguf");
        std::fs::write(&path, self.to_bytes()).expect("a writable folder");
        path
    }
}

impl Metadata {
    fn put(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::U32(value) => put(bytes, 4, &value.to_le_bytes()),
            Self::F32(value) => put(bytes, 6, &value.to_le_bytes()),
            Self::Bool(value) => put(bytes, 7, &[u8::from(*value)]),
            Self::Text(value) => {
                put(bytes, 8, &[]);
                put_text(bytes, value);
            }
            Self::Texts(values) => {
                put(bytes, 9, &8_u32.to_le_bytes());
                bytes.extend((values.len() as u64).to_le_bytes());
                values.iter().for_each(|value| put_text(bytes, value));
            }
            Self::I32s(values) => {
                put(bytes, 9, &5_u32.to_le_bytes());
                bytes.extend((values.len() as u64).to_le_bytes());
                bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            }
        }
    }
}

impl Tensor {
    fn put_description(&self, bytes: &mut Vec<u8>, offset: u64) {
        put_text(bytes, &self.name);
        bytes.extend((self.dimensions.len() as u32).to_le_bytes());
        bytes.extend(self.dimensions.iter().flat_map(|size| size.to_le_bytes()));
        bytes.extend(self.kind.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
    }
}

fn put(bytes: &mut Vec<u8>, kind: u32, value: &[u8]) {
    bytes.extend(kind.to_le_bytes());
    bytes.extend(value);
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}
