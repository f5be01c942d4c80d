//! Streams that carry several answers at once.

use serde::Serialize;

use crate::conversation::{OutputEvent, ResponseState};

/// Encodes the output events of one request as chunks of its stream.
pub trait ChunkEncoder {
    /// A part of the stream.
    type Chunk: Serialize;

    /// Tells what happened to an answer.
    fn answer(&mut self, index: usize, event: OutputEvent) -> Option<Self::Chunk>;

    /// Ends an answer. After the last of them come the token counts, if they are wanted.
    fn end(&mut self, index: usize, record: ResponseState) -> Vec<Self::Chunk>;

    /// True if all answers have ended.
    fn is_over(&self) -> bool;
}
