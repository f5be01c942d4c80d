//! Folders quantised by MLX: matrices of packed words beside which `.scales` and `.biases` lie.
//!
//! Every group of a row has a scale and a bias: `weight = scale · q + bias`. Format:
//! `mx.quantize` in <https://ml-explore.github.io/mlx/build/html/python/ops.html>; which layers are
//! packed how is in `config.json`, as mlx-lm writes it.

mod config;
mod unpack;

use std::{borrow::Cow, collections::HashMap};

use self::unpack::unpack;
use super::{LoadError, TensorInfo, TensorType, Tensors};

pub use self::config::MlxPacking;

/// Packing of a matrix's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MlxQuantization {
    /// Elements that share a scale and a bias: 32, 64 or 128.
    pub group_size: usize,
    /// Bits of one element: 2, 3, 4, 5, 6 or 8. They follow each other from the lowest bit of a
    /// row's first word on, across the words.
    pub bits: usize,
}

impl MlxQuantization {
    /// Elements in a row of `words` words, if they are whole groups.
    fn columns(self, words: usize) -> Option<usize> {
        let bits = words
            .checked_mul(32)
            .filter(|bits| bits.is_multiple_of(self.bits))?;
        Some(bits / self.bits).filter(|columns| columns.is_multiple_of(self.group_size))
    }

    /// Returns the number of words in a row of `columns` elements.
    #[must_use]
    pub fn words(self, columns: usize) -> usize {
        columns * self.bits / 32
    }

    /// Returns the number of scales, and of biases, in a row of `columns` elements.
    #[must_use]
    pub fn groups(self, columns: usize) -> usize {
        columns / self.group_size
    }
}

/// Presents the packed matrices among `tensors` as matrices of their unpacked shape.
///
/// # Errors
/// Names the first tensor that is not packed as `packing` says, or without the scales it needs.
pub fn unpacked(
    packing: Option<&MlxPacking>,
    tensors: Box<dyn Tensors>,
) -> Result<Box<dyn Tensors>, LoadError> {
    let mut packed = HashMap::new();
    for name in tensors.names() {
        let Some(layer) = name.strip_suffix(".weight") else {
            continue;
        };
        let Some(info) = tensors
            .info(name)
            .filter(|info| info.encoding == TensorType::U32)
        else {
            continue;
        };
        let how = packing.and_then(|packing| packing.of_layer(layer));
        let matrix = how
            .ok_or("is packed, but config.json has no `quantization` for it".to_owned())
            .and_then(|how| Packed::new(&*tensors, layer, info, how))
            .map_err(|fault| LoadError(format!("{} {fault}", tensors.place(name))))?;
        packed.insert(name.to_owned(), matrix);
    }
    match packed.is_empty() {
        true => Ok(tensors),
        false => Ok(Box::new(MlxTensors {
            stored: tensors,
            packed,
        })),
    }
}

/// The tensors of a folder some of whose matrices are packed.
struct MlxTensors {
    stored: Box<dyn Tensors>,
    packed: HashMap<String, Packed>,
}

/// A packed matrix.
struct Packed {
    how: MlxQuantization,
    /// Its unpacked shape.
    info: TensorInfo,
    scales: String,
    biases: String,
}

impl Packed {
    fn new(
        tensors: &dyn Tensors,
        layer: &str,
        stored: &TensorInfo,
        how: MlxQuantization,
    ) -> Result<Self, String> {
        let mut shape = stored.shape.clone();
        let words = shape.pop().unwrap_or(0);
        let MlxQuantization { group_size, bits } = how;
        let columns = how
            .columns(words)
            .filter(|_| !shape.is_empty())
            .ok_or_else(|| {
                let shape = &stored.shape;
                format!("has shape {shape:?}, which is no packing in {bits} bits by {group_size}")
            })?;
        shape.push(how.groups(columns));
        let parts = [format!("{layer}.scales"), format!("{layer}.biases")];
        for part in &parts {
            check_part(tensors.info(part), &shape)
                .map_err(|fault| format!("has `{part}` {fault}"))?;
        }
        shape.pop();
        shape.push(columns);
        let [scales, biases] = parts;
        let info = TensorInfo {
            shape,
            encoding: TensorType::U32,
        };
        Ok(Self {
            how,
            info,
            scales,
            biases,
        })
    }
}

fn check_part(part: Option<&TensorInfo>, shape: &[usize]) -> Result<(), String> {
    match part {
        None => Err("missing beside it".to_owned()),
        Some(info) if info.shape != shape => Err(format!(
            "of shape {:?}, not {shape:?}, beside it",
            info.shape
        )),
        Some(info) if !info.encoding.is_float() => {
            Err(format!("stored as {:?} beside it", info.encoding))
        }
        Some(_) => Ok(()),
    }
}

impl Tensors for MlxTensors {
    fn names(&self) -> Vec<&str> {
        self.stored.names()
    }

    fn info(&self, name: &str) -> Option<&TensorInfo> {
        match self.packed.get(name) {
            Some(packed) => Some(&packed.info),
            None => self.stored.info(name),
        }
    }

    fn bytes(&self, name: &str) -> Result<Cow<'_, [u8]>, LoadError> {
        self.stored.bytes(name)
    }

    fn read_f32(&self, name: &str, out: &mut [f32]) -> Result<(), LoadError> {
        let Some(packed) = self.packed.get(name) else {
            return self.stored.read_f32(name, out);
        };
        packed
            .info
            .check_room(out)
            .map_err(|fault| LoadError(format!("{} {fault}", self.place(name))))?;
        let groups = out.len() / packed.how.group_size;
        let (mut scales, mut biases) = (vec![0.0; groups], vec![0.0; groups]);
        self.stored.read_f32(&packed.scales, &mut scales)?;
        self.stored.read_f32(&packed.biases, &mut biases)?;
        unpack(
            packed.how,
            &self.stored.bytes(name)?,
            [&scales, &biases],
            out,
        );
        Ok(())
    }

    fn quantization(&self, name: &str) -> Option<MlxQuantization> {
        self.packed.get(name).map(|packed| packed.how)
    }

    fn place(&self, name: &str) -> String {
        self.stored.place(name)
    }
}
