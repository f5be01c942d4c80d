//! Decoders: their description as data, and the executors that run a description on a device.

pub mod exec;
pub mod spec;
