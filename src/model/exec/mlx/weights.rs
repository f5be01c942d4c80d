//! Reads named tensors into MLX arrays, each checked for presence and shape.

use std::cell::Cell;

use mlx_rs::{Array, Dtype as ArrayType, error::Exception};

use super::{
    array::{self, from_vec},
    backend::Backend,
    cpu_streams::CpuStreams,
    dense::Dense,
    linear::{Linear, Projection, Weight},
};
use crate::{
    load::{LoadError, MlxQuantization},
    model::exec::tensors::Checked,
};

type Result<T> = std::result::Result<T, LoadError>;

/// A model's tensors, as arrays of one type.
pub(super) struct Weights<'a> {
    pub(super) tensors: Checked<'a>,
    pub(super) backend: Backend,
    pub(super) dtype: ArrayType,
    pub(super) lanes: &'a CpuStreams,
    /// Buffer for reading matrices, reused.
    pub(super) buffer: Cell<Vec<f32>>,
}

/// The parts of one tensor or of several joined ones, all `[rows, columns]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct TensorRows<'a> {
    /// The tensor without its ending `.weight`.
    pub(super) name: &'a str,
    pub(super) rows: usize,
}

impl Weights<'_> {
    /// A vector as an array.
    pub(super) fn vector(&self, name: &str, values: Vec<f32>) -> Result<Array> {
        let len = values.len();
        self.typed(values, &[len])
            .map_err(|error| failed(name, &error))
    }

    /// Linear layers over the same inputs, joined where they are stored alike; `factors`, one for
    /// each input, are multiplied into plain weights.
    pub(super) fn projection(
        &self,
        parts: &[TensorRows<'_>],
        columns: usize,
        has_bias: bool,
        factors: Option<&[f32]>,
    ) -> Result<Projection> {
        if self.joins(parts, columns)? {
            let whole = self.joined(parts, columns, has_bias, factors)?;
            return Ok(Projection(vec![whole]));
        }
        let apart = parts
            .iter()
            .map(|part| self.joined(&[*part], columns, has_bias, factors));
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
        self.joined(&[TensorRows { name, rows }], columns, has_bias, None)
    }

    /// Checks if these parts can be rows of one matrix. Parts that become plain numbers always can.
    fn joins(&self, parts: &[TensorRows<'_>], columns: usize) -> Result<bool> {
        if !self.backend.keeps_quantised() {
            return Ok(true);
        }
        let packings = parts.iter().map(|part| self.packing(*part, columns));
        let packings: Vec<Option<MlxQuantization>> = packings.collect::<Result<_>>()?;
        Ok(packings.windows(2).all(|pair| pair[0] == pair[1]))
    }

    fn joined(
        &self,
        parts: &[TensorRows<'_>],
        columns: usize,
        has_bias: bool,
        factors: Option<&[f32]>,
    ) -> Result<Linear> {
        let weight = self.matrix(parts, columns, factors)?;
        let bias = has_bias.then(|| self.joined_bias(parts)).transpose()?;
        Ok(Linear { weight, bias })
    }

    fn joined_bias(&self, parts: &[TensorRows<'_>]) -> Result<Array> {
        let mut values = Vec::new();
        for part in parts {
            self.tensors
                .append_f32(&mut values, &format!("{}.bias", part.name), &[part.rows])?;
        }
        let len = values.len();
        self.typed(values, &[len])
            .map_err(|error| failed(parts[0].name, &error))
    }

    /// One matrix of the rows of all parts, which [`Self::joins`] said can be joined.
    pub(super) fn matrix(
        &self,
        parts: &[TensorRows<'_>],
        columns: usize,
        factors: Option<&[f32]>,
    ) -> Result<Weight> {
        let Some(first) = parts.first() else {
            return Err(LoadError("a linear layer has no weights".into()));
        };
        let packing = self.packing(*first, columns)?;
        match packing.filter(|_| self.backend.keeps_quantised()) {
            Some(packing) => self.quantised(parts, columns, packing),
            None => self.dense(parts, columns, factors),
        }
    }

    fn dense(
        &self,
        parts: &[TensorRows<'_>],
        columns: usize,
        factors: Option<&[f32]>,
    ) -> Result<Weight> {
        // Shapes first: what a description asks for is allocated only where the files agree.
        for part in parts {
            self.tensors
                .expect(&format!("{}.weight", part.name), &[part.rows, columns])?;
        }
        let rows: usize = parts.iter().map(|part| part.rows).sum();
        let mut values = self.buffer.take();
        values.resize(values.len().max(rows * columns), 0.0);
        let mut rest = &mut values[..rows * columns];
        for part in parts {
            let own = rest
                .split_off_mut(..part.rows * columns)
                .unwrap_or_default();
            let name = format!("{}.weight", part.name);
            self.tensors.0.read_f32(&name, own)?;
            if let Some(factors) = factors {
                scale_columns(own, factors);
            }
        }
        self.matrix_of(values, &[rows, columns])
            .and_then(|rows| Dense::new(rows, self.lanes))
            .map(Weight::Dense)
            .map_err(|error| failed(parts[0].name, &error))
    }

    /// Returns a matrix of the first `values`. MLX takes the buffer over if it can, and copies
    /// otherwise; the buffer is then reused, because new memory costs more than reading into it.
    fn matrix_of(&self, mut values: Vec<f32>, shape: &[usize]) -> array::Result<Array> {
        let len = shape.iter().product();
        if self.backend.adopts_memory() {
            values.truncate(len);
            return self.typed(values, shape);
        }
        let dims: Vec<i32> = shape.iter().map(|&size| array::dim(size)).collect();
        let array = Array::from_slice(&values[..len], &dims);
        self.buffer.set(values);
        self.in_type(array)
    }

    fn quantised(
        &self,
        parts: &[TensorRows<'_>],
        columns: usize,
        packing: MlxQuantization,
    ) -> Result<Weight> {
        let rows: usize = parts.iter().map(|part| part.rows).sum();
        let (words, groups) = (packing.words(columns), packing.groups(columns));
        let (mut packed, mut scales, mut biases) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            packed.extend(self.tensors.words(&format!("{}.weight", part.name))?);
            let shape = [part.rows, groups];
            self.tensors
                .append_f32(&mut scales, &format!("{}.scales", part.name), &shape)?;
            self.tensors
                .append_f32(&mut biases, &format!("{}.biases", part.name), &shape)?;
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

    /// Returns the packing of a matrix of this shape; `None` if it is not quantised.
    fn packing(&self, part: TensorRows<'_>, columns: usize) -> Result<Option<MlxQuantization>> {
        let name = format!("{}.weight", part.name);
        self.tensors.expect(&name, &[part.rows, columns])?;
        Ok(self.tensors.0.quantization(&name))
    }

    fn typed(&self, values: Vec<f32>, shape: &[usize]) -> array::Result<Array> {
        self.in_type(from_vec(values, shape)?)
    }

    fn in_type(&self, array: Array) -> array::Result<Array> {
        if self.dtype == ArrayType::Float32 {
            return Ok(array);
        }
        let array = array.as_dtype(self.dtype)?;
        array.eval()?;
        Ok(array)
    }
}

/// Multiplies each column of a matrix by its factor.
fn scale_columns(matrix: &mut [f32], factors: &[f32]) {
    for row in matrix.chunks_exact_mut(factors.len()) {
        for (value, factor) in row.iter_mut().zip(factors) {
            *value *= factor;
        }
    }
}

/// Converts an MLX error about a tensor.
fn failed(name: &str, error: &Exception) -> LoadError {
    LoadError(format!("MLX failed on tensor `{name}`: {error}"))
}
