//! Reads named tensors into matrices, each checked for presence and shape, as they are stored where
//! that can be.

use std::cell::RefCell;

use half::f16;

use super::{
    ActivationBits, Quantize,
    kernels::{
        dense_matmul::{Dense, Numbers},
        quant_matmul::Packing,
        simd::LANES,
    },
    linear::{Linear, Projection, padded},
    matrix::{Matrix, Weights as Elements},
    pack::{self, Format, Packer, Shape},
};
use crate::{
    load::{BlockPart, BlockType, LoadError, MlxQuantization, PART, TensorType},
    model::exec::tensors::Checked,
};

type Result<T> = std::result::Result<T, LoadError>;

/// A model's tensors, and what packs them.
pub(super) struct Weights<'a> {
    pub(super) tensors: Checked<'a>,
    pub(super) quantize: Option<Quantize>,
    pub(super) bits: ActivationBits,
    pub(super) packer: RefCell<Packer>,
}

impl Weights<'_> {
    /// A linear layer for each name and number of rows, over the same inputs.
    pub(super) fn projection(
        &self,
        parts: &[(&str, usize)],
        columns: usize,
        has_bias: bool,
    ) -> Result<Projection> {
        let linear = |&(name, rows): &(&str, usize)| self.linear(name, rows, columns, has_bias);
        let linears = parts.iter().map(linear).collect::<Result<_>>()?;
        let threads = self.packer.borrow().pool.threads();
        Ok(Projection::new(linears, self.bits, threads))
    }

    fn linear(&self, name: &str, rows: usize, columns: usize, has_bias: bool) -> Result<Linear> {
        let bias = match has_bias {
            false => None,
            true => {
                let mut bias = self.tensors.vector(&format!("{name}.bias"), rows)?;
                bias.resize(rows.next_multiple_of(LANES), 0.0);
                Some(bias.as_chunks().0.to_vec())
            }
        };
        let matrix = self.matrix(name, rows, columns)?;
        Ok(Linear { matrix, bias })
    }

    /// A vector of norm weights, padded; `offset` is added to each.
    pub(super) fn norm(&self, name: &str, width: usize, offset: f32) -> Result<Vec<f32>> {
        let mut weights = self.tensors.vector(&format!("{name}.weight"), width)?;
        weights.iter_mut().for_each(|weight| *weight += offset);
        weights.resize(padded(width), 0.0);
        Ok(weights)
    }

    /// A matrix.
    pub(super) fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Matrix> {
        let weight = format!("{name}.weight");
        self.tensors.expect(&weight, &[rows, columns])?;
        let shape = Shape { rows, columns };
        let encoding = self
            .tensors
            .0
            .info(&weight)
            .map_or(TensorType::F32, |info| info.encoding);
        let weights = match (encoding, self.tensors.0.quantization(&weight)) {
            (TensorType::Block(block_type), _) => self.blocks(&weight, shape, block_type)?,
            (_, Some(how)) => self.packed_words(name, shape, how)?,
            (encoding, None) => match self.quantize {
                Some(quantize) => self.requantised(&weight, shape, quantize)?,
                None => self.plain(&weight, shape, encoding)?,
            },
        };
        Ok(Matrix { rows, weights })
    }

    /// GGUF's blocks.
    fn blocks(&self, name: &str, shape: Shape, block_type: BlockType) -> Result<Elements> {
        let bytes = self.tensors.0.bytes(name)?;
        let format = block_type.format();
        let size = block_type.block();
        let (parts, row_bytes) = (
            size.elements / PART,
            shape.columns / size.elements * size.bytes,
        );
        if bytes.len() != shape.rows * row_bytes {
            return Err(self.tensors.wrong(name, "does not consist of whole blocks"));
        }
        let packing = match (format.bits, format.halves) {
            (_, true) => Packing::EightByHalves,
            (..=4, false) => Packing::Four,
            (5, false) => Packing::Five,
            (_, false) => Packing::Eight,
        };
        // Bytes have room to spare: the zero point moves to the middle.
        let (zero, moved) = match packing {
            Packing::Eight | Packing::EightByHalves if format.zero > 0 => (128, 128 - format.zero),
            _ => (format.zero, 0),
        };
        let format = Format {
            packing,
            zero,
            has_mins: format.has_mins,
            half_precision: format.half_precision,
        };
        let part_of = |row: usize, block: usize| {
            let first = row * row_bytes + block / parts * size.bytes;
            let mut part = block_type.part(&bytes[first..first + size.bytes], block % parts);
            part.quants.iter_mut().for_each(|quant| *quant += moved);
            part
        };
        self.quantised(shape, format, part_of)
    }

    /// MLX's packed words.
    fn packed_words(&self, name: &str, shape: Shape, how: MlxQuantization) -> Result<Elements> {
        let groups = how.groups(shape.columns);
        let words = self.tensors.words(&format!("{name}.weight"))?;
        let read = |ending: &str| {
            let mut values = Vec::new();
            let (name, shape) = (format!("{name}.{ending}"), [shape.rows, groups]);
            self.tensors.append_f32(&mut values, &name, &shape)?;
            Ok::<_, LoadError>(values)
        };
        let (scales, mins) = (read("scales")?, read("biases")?);
        let row_words = how.words(shape.columns);
        if words.len() != shape.rows * row_words {
            return Err(self
                .tensors
                .wrong(&format!("{name}.weight"), "has another number of words"));
        }
        let format = Format {
            packing: match how.bits {
                ..=4 => Packing::Four,
                5 => Packing::Five,
                _ => Packing::Eight,
            },
            zero: 0,
            has_mins: true,
            half_precision: false,
        };
        let part_of = |row: usize, block: usize| {
            let words = &words[row * row_words..(row + 1) * row_words];
            let group = row * groups + block * PART / how.group_size;
            BlockPart {
                quants: std::array::from_fn(|i| take_bits(words, how.bits, block * PART + i)),
                scales: [scales[group]; 2],
                mins: [mins[group]; 2],
            }
        };
        self.quantised(shape, format, part_of)
    }

    fn quantised(
        &self,
        shape: Shape,
        format: Format,
        part_of: impl Fn(usize, usize) -> BlockPart + Sync,
    ) -> Result<Elements> {
        let packer = &mut self.packer.borrow_mut();
        let packed =
            pack::quantised(packer, shape, format, part_of).map_err(|error| no_memory(&error))?;
        Ok(Elements::Quantised(packed))
    }

    /// Plain numbers, quantised here.
    fn requantised(&self, name: &str, shape: Shape, quantize: Quantize) -> Result<Elements> {
        let mut values = vec![0.0; shape.rows * shape.columns];
        self.tensors.0.read_f32(name, &mut values)?;
        let (packing, zero, has_mins) = match quantize {
            Quantize::Q8 => (Packing::Eight, 128, false),
            Quantize::Q4 => (Packing::Four, 0, true),
        };
        let format = Format {
            packing,
            zero,
            has_mins,
            half_precision: false,
        };
        let part_of = |row: usize, block: usize| {
            let row = &values[row * shape.columns..(row + 1) * shape.columns];
            let own = &row[block * PART..shape.columns.min((block + 1) * PART)];
            let mut values = [0.0; PART];
            values[..own.len()].copy_from_slice(own);
            match quantize {
                Quantize::Q8 => quantize_8(&values),
                Quantize::Q4 => quantize_4(&values),
            }
        };
        self.quantised(shape, format, part_of)
    }

    /// Plain numbers, as they are.
    fn plain(&self, name: &str, shape: Shape, encoding: TensorType) -> Result<Elements> {
        let bytes = self.tensors.0.bytes(name)?;
        let packer = &mut self.packer.borrow_mut();
        let size = encoding.block().bytes;
        if bytes.len() != shape.rows * shape.columns * size {
            return Err(self
                .tensors
                .wrong(name, "has another number of bytes than elements"));
        }
        let two = |i: usize| [bytes[2 * i], bytes[2 * i + 1]];
        let four = |i: usize| [two(2 * i), two(2 * i + 1)].as_flattened().try_into();
        let numbers = match encoding {
            TensorType::F16 => {
                pack::dense(packer, shape, Numbers::F16, |i| f16::from_le_bytes(two(i)))
            }
            TensorType::Bf16 => {
                pack::dense(packer, shape, Numbers::Bf16, |i| u16::from_le_bytes(two(i)))
            }
            TensorType::F32 => pack::dense(packer, shape, Numbers::F32, |i| {
                f32::from_le_bytes(four(i).unwrap_or_default())
            }),
            TensorType::U32 | TensorType::Block(_) => {
                return Err(self.tensors.wrong(name, "does not hold plain numbers"));
            }
        }
        .map_err(|error| no_memory(&error))?;
        Ok(Elements::Dense(Dense {
            tiles: shape.tiles(),
            columns: shape.columns,
            numbers,
        }))
    }
}

fn no_memory(error: &std::io::Error) -> LoadError {
    LoadError(format!("there is no memory for the weights: {error}"))
}

/// Returns element `index` of a little-endian stream of elements of `bits` bits.
fn take_bits(words: &[u32], bits: usize, index: usize) -> u8 {
    let (word, shift) = (index * bits / 32, index * bits % 32);
    let next = words.get(word + 1).copied().unwrap_or(0);
    let pair = u64::from(next) << 32 | u64::from(words[word]);
    (pair >> shift) as u8 & (u8::MAX >> (8 - bits))
}

/// Symmetric around 0: the largest magnitude becomes 127.
fn quantize_8(values: &[f32; PART]) -> BlockPart {
    let magnitude = values
        .iter()
        .fold(0.0_f32, |max, value| max.max(value.abs()));
    let scale = magnitude / 127.0;
    let quant = |value: f32| match scale > 0.0 {
        true => ((value / scale).round() as i32 + 128) as u8,
        false => 128,
    };
    BlockPart {
        quants: values.map(quant),
        scales: [scale; 2],
        mins: [0.0; 2],
    }
}

/// From the smallest number, which becomes 0, to the largest one, which becomes 15.
fn quantize_4(values: &[f32; PART]) -> BlockPart {
    let least = values.iter().copied().fold(f32::INFINITY, f32::min);
    let most = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let scale = (most - least) / 15.0;
    let quant = |value: f32| match scale > 0.0 {
        true => ((value - least) / scale).round() as u8,
        false => 0,
    };
    BlockPart {
        quants: values.map(quant),
        scales: [scale; 2],
        mins: [least; 2],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, part: &BlockPart, zero: i32, values: &[f32; PART], levels: f32) {
        let most = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let least = values.iter().copied().fold(f32::INFINITY, f32::min);
        let step = match zero {
            0 => (most - least) / levels,
            _ => most.max(-least) / levels,
        };
        for (quant, value) in part.quants.iter().zip(values) {
            let got = part.scales[0] * (i32::from(*quant) - zero) as f32 + part.mins[0];
            let apart = (got - value).abs();
            assert!(apart <= 0.501 * step, "{name}: {got} for {value}");
        }
    }

    #[test]
    fn numbers_are_quantised_to_the_nearest() {
        let slope: [f32; PART] = std::array::from_fn(|i| i as f32 * 0.37 - 4.0);
        for values in [slope, [0.0; PART], [-3.0; PART]] {
            check("8 bits", &quantize_8(&values), 128, &values, 127.0);
            check("4 bits", &quantize_4(&values), 0, &values, 15.0);
        }
    }

    #[test]
    fn bits_are_taken_across_words() {
        let words = [0x8000_0001, 0x0000_0003];
        assert_eq!(take_bits(&words, 5, 0), 1);
        // Bits 30 to 34: 0, 1, then 1, 1, 0.
        assert_eq!(take_bits(&words, 5, 6), 0b0_1110);
        assert_eq!(take_bits(&words, 8, 7), 0);
    }
}
