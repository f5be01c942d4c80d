//! The domain: what a conversation consists of, independent of any API's JSON.

pub mod head;
pub mod item;
pub mod tool;

pub use head::Head;
pub use item::{FunctionCall, FunctionOutput, Item, Message, Part, Reasoning, Role};
pub use tool::FunctionTool;
