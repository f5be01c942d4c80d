//! Completions of raw texts ↔ the domain.

mod inbound;
mod outbound;

pub use inbound::{Completions, completions};
pub use outbound::{CompletionChunkEncoder, completion};
