//! Operations on sessions, as changes to one transaction.

pub mod gc;
pub mod lifecycle;
pub mod lineage;
mod marks;
pub mod replay;
pub mod retention;
