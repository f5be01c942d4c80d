//! Operations on sessions, as changes to one transaction.

pub mod gc;
pub mod lifecycle;
pub mod lineage;
pub mod replay;
pub mod retention;
