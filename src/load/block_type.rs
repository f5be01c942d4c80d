//! GGUF's block types: their numbers of elements and bytes.

/// GGUF's quantised block types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the GGUF format")]
pub enum BlockType {
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
}

/// A block of a tensor type: its number of elements and of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Elements of one unit.
    pub elements: usize,
    /// Bytes of one unit.
    pub bytes: usize,
}

impl BlockType {
    /// Elements and bytes of one block.
    #[must_use]
    pub fn block(self) -> Block {
        let (elements, bytes) = match self {
            Self::Q4_0 => (32, 18),
            Self::Q4_1 => (32, 20),
            Self::Q5_0 => (32, 22),
            Self::Q5_1 => (32, 24),
            Self::Q8_0 => (32, 34),
            Self::Q2K => (256, 84),
            Self::Q3K => (256, 110),
            Self::Q4K => (256, 144),
            Self::Q5K => (256, 176),
            Self::Q6K => (256, 210),
        };
        Block { elements, bytes }
    }
}
