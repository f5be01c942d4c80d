//! Chat completions ↔ the domain.

mod inbound;
mod outbound;
mod stream;

pub use inbound::{Chat, chat};
pub use outbound::completion;
pub use stream::Chunks;
