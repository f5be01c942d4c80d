//! Chat completions ↔ the domain.

mod inbound;
mod messages;
mod outbound;
mod stream;

pub(super) use inbound::answers;
pub use inbound::{Chat, chat};
pub use outbound::{ReasoningAlias, completion};
pub(super) use outbound::{finish_reason, usage};
pub use stream::ChatChunkEncoder;
