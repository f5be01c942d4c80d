//! Reading little-endian values from a slice, each checked against its end.

use crate::load::LoadError;

/// A position in the bytes of a file.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    pub(super) fn position(&self) -> usize {
        self.position
    }

    pub(super) fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// The next `count` bytes.
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], LoadError> {
        let rest = &self.bytes[self.position..];
        let taken = rest
            .get(..count)
            .ok_or_else(|| format!("is cut short in its header, at byte {}", self.position))?;
        self.position += count;
        Ok(taken)
    }

    /// The next bytes as an array.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], LoadError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn u32(&mut self) -> Result<u32, LoadError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, LoadError> {
        self.array().map(u64::from_le_bytes)
    }

    /// A count of things that take at least `bytes_each` bytes, which the rest of the file must
    /// therefore have room for.
    pub(super) fn count(&mut self, what: &str, bytes_each: usize) -> Result<usize, LoadError> {
        let count = self.u64()?;
        match usize::try_from(count) {
            Ok(count) if count <= self.remaining() / bytes_each => Ok(count),
            _ => Err(format!("claims {count} {what}, more than it has room for").into()),
        }
    }

    /// A string with its length before it.
    pub(super) fn text(&mut self) -> Result<&'a str, LoadError> {
        let start = self.position;
        let length = self.count("bytes in a string", 1)?;
        let bytes = self.take(length)?;
        str::from_utf8(bytes)
            .map_err(|_| format!("has a string at byte {start} that is not UTF-8").into())
    }
}
