//! Export and import of KV arrays as plain bytes, token by token, for snapshots.
//!
//! Arrays stay on the engine's thread, so an export copies them there.

use std::ops::Range;

use half::{bf16, f16};
use mlx_rs::{Array, ArrayElement, Dtype as ArrayType, error::Exception, ops, transforms};

use super::{KvShape, MlxKv};
use crate::model::exec::{
    ExecError, KvElementType, KvExport,
    mlx::array::{Result, from_vec, slice},
};

/// Bytes of some tokens.
struct ArrayExport {
    bytes: Vec<u8>,
    first: usize,
    width: usize,
}

impl KvExport for ArrayExport {
    fn write(&self, tokens: Range<usize>, out: &mut Vec<u8>) {
        let place = |token: usize| (token - self.first) * self.width;
        out.extend_from_slice(&self.bytes[place(tokens.start)..place(tokens.end)]);
    }
}

/// Copies the keys and values of some tokens.
pub(super) fn of(kv: &MlxKv, tokens: Range<usize>) -> Result<Box<dyn KvExport>> {
    let buffers = kv.buffers.borrow();
    let shape = buffers.shape;
    let by_token = |layer: &Array| {
        let range = slice(layer, 2, tokens.clone())?;
        range.squeeze_axes(&[0])?.transpose_axes(&[1, 0, 2])
    };
    let layers = buffers.layers.iter().map(by_token);
    let layers = layers.collect::<Result<Vec<Array>>>()?;
    // A new array, whose numbers lie in order.
    let all = ops::stack(&layers, 1)?;
    let bytes = match shape.dtype {
        ArrayType::Float16 => bytes_of::<f16, 2>(&all, f16::to_le_bytes),
        ArrayType::Bfloat16 => bytes_of::<bf16, 2>(&all, bf16::to_le_bytes),
        _ => bytes_of::<f32, 4>(&all, f32::to_le_bytes),
    }?;
    Ok(Box::new(ArrayExport {
        bytes,
        first: tokens.start,
        width: shape.bytes_per_token(),
    }))
}

fn bytes_of<T: ArrayElement + Copy, const N: usize>(
    all: &Array,
    bytes: fn(T) -> [u8; N],
) -> Result<Vec<u8>> {
    let elements = all.try_as_slice::<T>();
    let elements = elements.map_err(|error| Exception::custom(error.to_string()))?;
    Ok(elements
        .iter()
        .flat_map(|&element| bytes(element))
        .collect())
}

/// Implements [`KvCache::import`](crate::model::exec::KvCache::import).
pub(super) fn append(
    kv: &mut MlxKv,
    count: usize,
    bytes: &[u8],
) -> std::result::Result<(), ExecError> {
    let shape = kv.buffers.borrow().shape;
    let width = shape.bytes_per_token();
    if count.checked_mul(width) != Some(bytes.len()) {
        let what = format!("{} bytes are not {count} tokens of {width}", bytes.len());
        return Err(ExecError(what));
    }
    append_array(kv, shape, count, bytes).map_err(|error| ExecError(format!("MLX failed: {error}")))
}

fn append_array(kv: &mut MlxKv, shape: KvShape, count: usize, bytes: &[u8]) -> Result<()> {
    let KvShape {
        layer_count,
        head_count,
        head_dim,
        dtype,
    } = shape;
    let sizes = [count, layer_count, 2 * head_count, head_dim];
    let all = match dtype {
        ArrayType::Float16 => array_of(bytes, f16::from_le_bytes, &sizes),
        ArrayType::Bfloat16 => array_of(bytes, bf16::from_le_bytes, &sizes),
        _ => array_of(bytes, f32::from_le_bytes, &sizes),
    }?;
    kv.extend(count)?;
    for layer in 0..layer_count {
        let newest = slice(&all, 1, layer..layer + 1)?.squeeze_axes(&[1])?;
        kv.append(layer, &newest)?;
    }
    let mut arrays = Vec::new();
    kv.visit(|array| arrays.push(array.clone()));
    transforms::eval(&arrays)
}

fn array_of<T: ArrayElement, const N: usize>(
    bytes: &[u8],
    element: fn([u8; N]) -> T,
    sizes: &[usize],
) -> Result<Array> {
    let (elements, _) = bytes.as_chunks::<N>();
    from_vec(
        elements.iter().map(|&bytes| element(bytes)).collect(),
        sizes,
    )
}

impl KvShape {
    /// Returns the element type.
    pub(in crate::model::exec::mlx) fn element(&self) -> KvElementType {
        match self.dtype {
            ArrayType::Float16 => KvElementType::F16,
            ArrayType::Bfloat16 => KvElementType::Bf16,
            _ => KvElementType::F32,
        }
    }
}
