//! Units of the quantised layouts: blocks of columns, and lines of quants.

/// Columns of a block.
pub(in crate::model::exec::cpu) const BLOCK: usize = 32;

/// 64 bytes that lie in one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(in crate::model::exec::cpu) struct QuantLine(pub(in crate::model::exec::cpu) [u8; 64]);
