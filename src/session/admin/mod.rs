//! Operator commands over a store that no server has open.

pub mod archive;
pub mod carve;
pub mod copy;
pub mod inspect;
#[cfg(test)]
mod tests;
pub mod verify;
