//! The session log: every turn an append, every stored response durable, every continuation a fork.
//!
//! From the bottom: [`key`] and [`codec`] say how values are named and checked, [`record`] and
//! [`event`] what they mean, [`storage`] what is asked of the engine below, `sled` is that engine;
//! [`txn`] collects one commit and [`view`] shows durable ones; [`turn`], [`fork`], [`purge`] and
//! [`bounds`] are the rules, as changes to a commit; [`log`] carries them out on one thread.

pub mod bounds;
pub mod chain;
pub mod codec;
pub mod error;
pub mod event;
#[cfg(any(test, feature = "scripted"))]
pub mod faulty;
pub mod fork;
pub mod key;
pub mod log;
pub mod memory;
pub mod migrate;
pub mod purge;
pub mod record;
pub mod replay;
pub mod sled;
pub mod storage;
pub mod turn;
pub mod txn;
pub mod view;

pub use bounds::Bounds;
pub use error::LogError;
pub use event::{Event, ForkPoint};
pub use key::SessionId;
pub use log::{Access, SessionLog, Turn};
pub use turn::Opening;
