//! Named tensors of a model, each checked for presence and shape, for any executor.

use crate::load::{LoadError, Tensors};

type Result<T> = std::result::Result<T, LoadError>;

/// A model's tensors, none of which is believed to be what is expected.
#[derive(Clone, Copy)]
pub(super) struct Checked<'a>(pub(super) &'a dyn Tensors);

impl Checked<'_> {
    /// The numbers of a vector of exactly this length.
    pub(super) fn vector(self, name: &str, len: usize) -> Result<Vec<f32>> {
        let mut values = Vec::new();
        self.append_f32(&mut values, name, &[len])?;
        Ok(values)
    }

    /// Appends the elements of a tensor of exactly this shape.
    pub(super) fn append_f32(
        self,
        values: &mut Vec<f32>,
        name: &str,
        shape: &[usize],
    ) -> Result<()> {
        self.expect(name, shape)?;
        let start = values.len();
        values.resize(start + shape.iter().product::<usize>(), 0.0);
        self.0.read_f32(name, &mut values[start..])
    }

    /// The words of a packed matrix.
    pub(super) fn words(self, name: &str) -> Result<Vec<u32>> {
        let bytes = self.0.bytes(name)?;
        let (words, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(self.wrong(name, "does not consist of whole words"));
        }
        Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    /// Refuses a tensor that is missing or has another shape.
    pub(super) fn expect(self, name: &str, shape: &[usize]) -> Result<()> {
        let info = self
            .0
            .info(name)
            .ok_or_else(|| self.wrong(name, "is missing"))?;
        if info.shape == shape {
            return Ok(());
        }
        Err(self.wrong(name, &format!("has shape {:?}, not {shape:?}", info.shape)))
    }

    /// An error about a tensor.
    pub(super) fn wrong(self, name: &str, what: &str) -> LoadError {
        LoadError(format!("{} {what}", self.0.place(name)))
    }
}
