//! The header of a GGUF file: metadata and tensor offsets, all checked.
//!
//! Format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.

use std::{collections::HashSet, ops::Range};

use super::{
    cursor::Cursor,
    metadata::{ENTRY_BYTES_MIN, Metadata},
};
use crate::load::{BlockType, LoadError, TensorInfo, TensorType};

const MAGIC: [u8; 4] = *b"GGUF";
const ALIGNMENT_DEFAULT: usize = 32;
const DIMENSIONS_MAX: u32 = 4;

/// The least room a tensor's description takes: an empty name, one dimension, a type, an offset.
const TENSOR_BYTES_MIN: usize = 8 + 4 + 8 + 4 + 8;

/// The content of the header.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) metadata: Metadata,
    pub(super) tensors: Vec<StoredTensor>,
}

/// One tensor as the file describes it.
#[derive(Debug)]
pub(super) struct StoredTensor {
    /// Its name in the file, such as `blk.0.attn_q.weight`.
    pub(super) name: String,
    pub(super) info: TensorInfo,
    /// Byte range in the file.
    pub(super) bytes: Range<usize>,
}

impl Header {
    /// Reads the header at the start of `file`, the whole contents of a GGUF file.
    pub(super) fn read(file: &[u8]) -> Result<Self, LoadError> {
        let mut cursor = Cursor::new(file);
        check_version(&mut cursor)?;
        let tensor_count = cursor.count("tensors", TENSOR_BYTES_MIN)?;
        let entry_count = cursor.count("metadata entries", ENTRY_BYTES_MIN)?;
        let metadata = Metadata::read(&mut cursor, entry_count)?;
        let described = (0..tensor_count)
            .map(|_| Described::read(&mut cursor))
            .collect::<Result<Vec<_>, _>>()?;
        let alignment = alignment(&metadata)?;
        let data = file
            .len()
            .min(cursor.position().next_multiple_of(alignment))..file.len();
        let tensors = described
            .into_iter()
            .map(|tensor| tensor.place(&data, alignment))
            .collect::<Result<Vec<_>, _>>()?;
        check_distinct(&tensors)?;
        Ok(Self { metadata, tensors })
    }
}

fn check_version(cursor: &mut Cursor<'_>) -> Result<(), LoadError> {
    if cursor.array()? != MAGIC {
        return Err("is not a GGUF file (its first four bytes are not `GGUF`)".into());
    }
    let version = cursor.u32()?;
    match version {
        2 | 3 => Ok(()),
        _ if matches!(version.swap_bytes(), 2 | 3) => {
            Err("is a big-endian GGUF file; only little-endian ones can be read".into())
        }
        _ => Err(format!("has GGUF version {version}; versions 2 and 3 can be read").into()),
    }
}

fn alignment(metadata: &Metadata) -> Result<usize, LoadError> {
    let alignment = metadata
        .integer("general.alignment")?
        .unwrap_or(ALIGNMENT_DEFAULT as u32);
    if !alignment.is_power_of_two() {
        let fault = format!("metadata `general.alignment` is {alignment}, not a power of two");
        return Err(fault.into());
    }
    Ok(alignment as usize)
}

/// A tensor's description before its place in the file is checked.
struct Described {
    name: String,
    info: TensorInfo,
    byte_length: usize,
    offset: u64,
}

impl Described {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, LoadError> {
        let name = cursor.text()?.to_owned();
        let dimensions = cursor.u32()?;
        if !(1..=DIMENSIONS_MAX).contains(&dimensions) {
            let fault = format!("has {dimensions} dimensions; 1 to {DIMENSIONS_MAX} are allowed");
            return Err(LoadError::tensor(&name, fault));
        }
        let mut shape = (0..dimensions)
            .map(|_| cursor.u64())
            .collect::<Result<Vec<_>, _>>()?;
        // The file has the innermost dimension first.
        shape.reverse();
        let encoding = encoding(cursor.u32()?).map_err(|fault| LoadError::tensor(&name, fault))?;
        let offset = cursor.u64()?;
        let (shape, byte_length) =
            measure(&shape, encoding).map_err(|fault| LoadError::tensor(&name, fault))?;
        Ok(Self {
            name,
            info: TensorInfo { shape, encoding },
            byte_length,
            offset,
        })
    }

    fn place(self, data: &Range<usize>, alignment: usize) -> Result<StoredTensor, LoadError> {
        if !self.offset.is_multiple_of(alignment as u64) {
            let fault = format!(
                "begins at {}, off the file's alignment {alignment}",
                self.offset
            );
            return Err(LoadError::tensor(&self.name, fault));
        }
        let start = usize::try_from(self.offset)
            .ok()
            .and_then(|o| data.start.checked_add(o));
        let end = start.and_then(|start| start.checked_add(self.byte_length));
        match (start, end) {
            (Some(start), Some(end)) if end <= data.end => Ok(StoredTensor {
                name: self.name,
                info: self.info,
                bytes: start..end,
            }),
            _ => Err(LoadError::tensor(
                &self.name,
                past_the_end(self.byte_length, data),
            )),
        }
    }
}

fn past_the_end(byte_length: usize, data: &Range<usize>) -> String {
    format!(
        "takes {byte_length} bytes and reaches past the end of the file, which has {} bytes of \
         tensors: the file is cut short or damaged",
        data.len()
    )
}

/// Checks a shape; returns it with the number of bytes of the tensor.
fn measure(shape: &[u64], encoding: TensorType) -> Result<(Vec<usize>, usize), String> {
    let too_large = || format!("has the impossible shape {shape:?}");
    let mut sizes = Vec::with_capacity(shape.len());
    let mut elements = 1_usize;
    for &size in shape {
        let size = usize::try_from(size)
            .ok()
            .filter(|size| *size > 0)
            .ok_or_else(too_large)?;
        elements = elements.checked_mul(size).ok_or_else(too_large)?;
        sizes.push(size);
    }
    let block = encoding.block();
    let row = sizes.last().copied().unwrap_or(1);
    if !row.is_multiple_of(block.elements) {
        let each = block.elements;
        return Err(format!(
            "has rows of {row} elements, which do not divide into blocks of {each}"
        ));
    }
    let bytes = (elements / block.elements)
        .checked_mul(block.bytes)
        .ok_or_else(too_large)?;
    Ok((sizes, bytes))
}

fn check_distinct(tensors: &[StoredTensor]) -> Result<(), LoadError> {
    let mut names = HashSet::new();
    if let Some(twice) = tensors.iter().find(|tensor| !names.insert(&tensor.name)) {
        return Err(LoadError::tensor(&twice.name, "appears twice"));
    }
    let mut places: Vec<_> = tensors.iter().collect();
    places.sort_by_key(|tensor| tensor.bytes.start);
    match places
        .windows(2)
        .find(|pair| pair[0].bytes.end > pair[1].bytes.start)
    {
        None => Ok(()),
        Some(pair) => Err(LoadError::tensor(
            &pair[1].name,
            format!("overlaps tensor `{}`", pair[0].name),
        )),
    }
}

/// The encoding behind a type number of `enum ggml_type`
/// (<https://github.com/ggml-org/ggml/blob/master/include/ggml.h>).
fn encoding(kind: u32) -> Result<TensorType, String> {
    Ok(match kind {
        0 => TensorType::F32,
        1 => TensorType::F16,
        2 => TensorType::Block(BlockType::Q4_0),
        3 => TensorType::Block(BlockType::Q4_1),
        6 => TensorType::Block(BlockType::Q5_0),
        7 => TensorType::Block(BlockType::Q5_1),
        8 => TensorType::Block(BlockType::Q8_0),
        10 => TensorType::Block(BlockType::Q2K),
        11 => TensorType::Block(BlockType::Q3K),
        12 => TensorType::Block(BlockType::Q4K),
        13 => TensorType::Block(BlockType::Q5K),
        14 => TensorType::Block(BlockType::Q6K),
        30 => TensorType::Bf16,
        other => return Err(unsupported(other)),
    })
}

fn unsupported(kind: u32) -> String {
    let name = UNSUPPORTED_TYPES.iter().find(|(number, _)| *number == kind);
    let name = name.map_or_else(|| format!("type {kind}"), |(_, name)| (*name).to_owned());
    format!(
        "is stored as {name}; F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and Q2_K to Q6_K can \
         be read"
    )
}

/// Types that files in circulation use and this loader does not decode, to name them in the error.
const UNSUPPORTED_TYPES: [(u32, &str); 18] = [
    (9, "Q8_1"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (28, "F64"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
];
