//! Session ids, and the typed, ordered keys of the store.

mod id;
mod key;
mod range;

pub use id::{NotAnId, SessionId};
pub use key::{EdgeKind, KEY_LEN_MAX_BYTES, Key, Space};
pub use range::KeyRange;
