//! Reads named tensors into MLX arrays, each checked for presence and shape.

use mlx_rs::{Array, Dtype as ArrayType, error::Exception, ops};

use super::{
    array::{self, from_vec},
    backend::Backend,
    linear::{Linear, Projection, Weight},
};
use crate::load::{Encoding, LoadError, Tensors};

type Result<T> = std::result::Result<T, LoadError>;

/// A model's tensors, as arrays of one type.
pub(super) struct Weights<'a> {
    pub(super) tensors: &'a dyn Tensors,
    pub(super) backend: Backend,
    pub(super) dtype: ArrayType,
}

/// The parts of one tensor or of several joined ones, all `[rows, columns]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    /// The tensor without its ending `.weight`.
    pub(super) name: &'a str,
    pub(super) rows: usize,
}

/// How an MLX-quantised tensor is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Packing {
    bits: usize,
    group_size: usize,
}

impl Weights<'_> {
    /// A vector of exactly this length, with `offset` added.
    pub(super) fn vector(&self, name: &str, len: usize, offset: f32) -> Result<Array> {
        self.expect(name, &[len])?;
        let mut values = vec![0.0; len];
        self.tensors.read_f32(name, &mut values)?;
        values.iter_mut().for_each(|value| *value += offset);
        self.typed(values, &[len])
            .map_err(|error| failed(name, &error))
    }

    /// Linear layers over the same `columns` inputs, joined where they are stored alike.
    pub(super) fn projection(
        &self,
        parts: &[Part<'_>],
        columns: usize,
        has_bias: bool,
    ) -> Result<Projection> {
        if self.joins(parts, columns)? {
            return Ok(Projection(vec![self.joined(parts, columns, has_bias)?]));
        }
        let apart = parts
            .iter()
            .map(|part| self.joined(&[*part], columns, has_bias));
        Ok(Projection(apart.collect::<Result<_>>()?))
    }

    /// One linear layer.
    pub(super) fn linear(
        &self,
        name: &str,
        rows: usize,
        columns: usize,
        has_bias: bool,
    ) -> Result<Linear> {
        self.joined(&[Part { name, rows }], columns, has_bias)
    }

    /// Whether these parts can be rows of one matrix: always, if they become plain numbers.
    fn joins(&self, parts: &[Part<'_>], columns: usize) -> Result<bool> {
        if !self.backend.keeps_quantised() {
            return Ok(true);
        }
        let packings = parts.iter().map(|part| self.packing(*part, columns));
        let packings: Vec<Option<Packing>> = packings.collect::<Result<_>>()?;
        Ok(packings.windows(2).all(|pair| pair[0] == pair[1]))
    }

    fn joined(&self, parts: &[Part<'_>], columns: usize, has_bias: bool) -> Result<Linear> {
        let weight = self.matrix(parts, columns)?;
        let bias = has_bias.then(|| self.joined_bias(parts)).transpose()?;
        Ok(Linear { weight, bias })
    }

    fn joined_bias(&self, parts: &[Part<'_>]) -> Result<Array> {
        let mut values = Vec::new();
        for part in parts {
            self.append_f32(&mut values, &format!("{}.bias", part.name), &[part.rows])?;
        }
        let len = values.len();
        self.typed(values, &[len])
            .map_err(|error| failed(parts[0].name, &error))
    }

    /// One matrix of the rows of all parts, which [`Self::joins`] said can be joined.
    pub(super) fn matrix(&self, parts: &[Part<'_>], columns: usize) -> Result<Weight> {
        let Some(first) = parts.first() else {
            return Err(LoadError("a linear layer has no weights".into()));
        };
        let packing = self.packing(*first, columns)?;
        match packing.filter(|_| self.backend.keeps_quantised()) {
            Some(packing) => self.quantised(parts, columns, packing),
            None => self.dense(parts, columns),
        }
    }

    fn dense(&self, parts: &[Part<'_>], columns: usize) -> Result<Weight> {
        let rows: usize = parts.iter().map(|part| part.rows).sum();
        let mut values = Vec::new();
        for part in parts {
            match self.packing(*part, columns)? {
                Some(packing) => self.append_decoded(&mut values, *part, columns, packing)?,
                None => {
                    let name = format!("{}.weight", part.name);
                    self.append_f32(&mut values, &name, &[part.rows, columns])?;
                }
            }
            values.reserve_exact(rows * columns - values.len());
        }
        self.typed(values, &[rows, columns])
            .and_then(Weight::dense)
            .map_err(|error| failed(parts[0].name, &error))
    }

    fn quantised(&self, parts: &[Part<'_>], columns: usize, packing: Packing) -> Result<Weight> {
        let rows: usize = parts.iter().map(|part| part.rows).sum();
        let (words, groups) = packing.widths(columns);
        let (mut packed, mut scales, mut biases) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            packed.extend(self.words(&format!("{}.weight", part.name))?);
            let shape = [part.rows, groups];
            self.append_f32(&mut scales, &format!("{}.scales", part.name), &shape)?;
            self.append_f32(&mut biases, &format!("{}.biases", part.name), &shape)?;
        }
        let make = || {
            Ok(Weight::Quantised {
                packed: from_vec(packed, &[rows, words])?,
                scales: self.typed(scales, &[rows, groups])?,
                biases: self.typed(biases, &[rows, groups])?,
                group_size: array::dim(packing.group_size),
                bits: array::dim(packing.bits),
            })
        };
        make().map_err(|error: Exception| failed(parts[0].name, &error))
    }

    /// How a tensor is packed, or `None` if it is not; checks the shapes of all its pieces.
    fn packing(&self, part: Part<'_>, columns: usize) -> Result<Option<Packing>> {
        let name = format!("{}.weight", part.name);
        let info = self
            .tensors
            .info(&name)
            .ok_or_else(|| self.missing(&name))?;
        if info.encoding != Encoding::U32 {
            return Ok(None);
        }
        let scales = format!("{}.scales", part.name);
        let groups = self
            .tensors
            .info(&scales)
            .ok_or_else(|| self.missing(&scales))?;
        let packing = match (info.shape.as_slice(), groups.shape.as_slice()) {
            (&[_, words], &[_, groups]) => Packing::of(words, groups, columns),
            _ => None,
        };
        let Some(packing) = packing else {
            return Err(self.wrong(
                &name,
                &format!(
                    "has shape {:?} and scales {:?}, which is no quantisation of rows of {columns}",
                    info.shape, groups.shape
                ),
            ));
        };
        let (words, groups) = packing.widths(columns);
        self.expect(&name, &[part.rows, words])?;
        self.expect(&scales, &[part.rows, groups])?;
        self.expect(&format!("{}.biases", part.name), &[part.rows, groups])?;
        Ok(Some(packing))
    }

    fn append_decoded(
        &self,
        values: &mut Vec<f32>,
        part: Part<'_>,
        columns: usize,
        packing: Packing,
    ) -> Result<()> {
        let (words, groups) = packing.widths(columns);
        let (mut scales, mut biases) = (Vec::new(), Vec::new());
        self.append_f32(
            &mut scales,
            &format!("{}.scales", part.name),
            &[part.rows, groups],
        )?;
        self.append_f32(
            &mut biases,
            &format!("{}.biases", part.name),
            &[part.rows, groups],
        )?;
        let packed = self.words(&format!("{}.weight", part.name))?;
        let decode = || {
            let decoded = ops::dequantize(
                from_vec(packed, &[part.rows, words])?,
                from_vec(scales, &[part.rows, groups])?,
                &from_vec(biases, &[part.rows, groups])?,
                array::dim(packing.group_size),
                array::dim(packing.bits),
            )?;
            decoded
                .to_vec_exact::<f32>()
                .map_err(|error| Exception::custom(error.to_string()))
        };
        values.extend(decode().map_err(|error| failed(part.name, &error))?);
        Ok(())
    }

    /// The words of a tensor of [`Encoding::U32`].
    fn words(&self, name: &str) -> Result<Vec<u32>> {
        let bytes = self.tensors.bytes(name)?;
        let (words, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(self.wrong(name, "does not consist of whole words"));
        }
        Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    /// Appends the elements of a tensor of exactly this shape.
    fn append_f32(&self, values: &mut Vec<f32>, name: &str, shape: &[usize]) -> Result<()> {
        self.expect(name, shape)?;
        let start = values.len();
        values.resize(start + shape.iter().product::<usize>(), 0.0);
        self.tensors.read_f32(name, &mut values[start..])
    }

    fn typed(&self, values: Vec<f32>, shape: &[usize]) -> array::Result<Array> {
        let array = from_vec(values, shape)?;
        if self.dtype == ArrayType::Float32 {
            return Ok(array);
        }
        let array = array.as_dtype(self.dtype)?;
        array.eval()?;
        Ok(array)
    }

    fn expect(&self, name: &str, shape: &[usize]) -> Result<()> {
        let info = self.tensors.info(name).ok_or_else(|| self.missing(name))?;
        if info.shape == shape {
            return Ok(());
        }
        Err(self.wrong(name, &format!("has shape {:?}, not {shape:?}", info.shape)))
    }

    fn missing(&self, name: &str) -> LoadError {
        self.wrong(name, "is missing")
    }

    fn wrong(&self, name: &str, what: &str) -> LoadError {
        LoadError(format!("{} {what}", self.tensors.place(name)))
    }
}

impl Packing {
    /// Reads the packing off the widths of a row of `columns` elements: `words` packed words and
    /// `groups` scales.
    fn of(words: usize, groups: usize, columns: usize) -> Option<Self> {
        if columns == 0 || groups == 0 || !columns.is_multiple_of(groups) {
            return None;
        }
        let bit_count = words.checked_mul(32)?;
        let packing = Self {
            bits: bit_count / columns,
            group_size: columns / groups,
        };
        let is_known = matches!(packing.bits, 2 | 3 | 4 | 5 | 6 | 8)
            && matches!(packing.group_size, 32 | 64 | 128)
            && bit_count.is_multiple_of(columns);
        is_known.then_some(packing)
    }

    /// Words and groups of a row.
    fn widths(self, columns: usize) -> (usize, usize) {
        (columns * self.bits / 32, columns / self.group_size)
    }
}

/// What MLX said about a tensor.
fn failed(name: &str, error: &Exception) -> LoadError {
    LoadError(format!("MLX failed on tensor `{name}`: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packings_are_read_off_shapes() {
        assert_eq!(
            Packing::of(8, 1, 64),
            Some(Packing {
                bits: 4,
                group_size: 64
            })
        );
        assert_eq!(
            Packing::of(48, 4, 256),
            Some(Packing {
                bits: 6,
                group_size: 64
            })
        );
        assert_eq!(Packing::of(8, 3, 64), None);
        assert_eq!(Packing::of(7, 1, 64), None);
        assert_eq!(Packing::of(8, 0, 64), None);
        assert_eq!(Packing::of(usize::MAX, 1, 64), None);
    }
}
