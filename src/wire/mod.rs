//! Mirrors of OpenAI's JSON, and nothing else.

pub mod chat;
pub mod completion;
pub mod error;
pub mod event;
pub mod health;
pub mod list;
pub mod model;
pub mod request;
pub mod response;
pub mod tool;
pub mod values;

pub use error::{ErrorBody, ErrorObject};
pub use event::{Event, EventBody};
pub use health::Health;
pub use list::{Deleted, ItemList};
pub use model::{Model, ModelList};
pub use request::{ContentPart, CreateRequest, InputItem, TextOrList};
pub use response::{InputTokens, Response};
pub use tool::ToolDeclaration;
