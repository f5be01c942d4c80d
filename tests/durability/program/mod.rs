//! Durability of the whole server, as its clients see it: `kill -9`, power cuts, disk faults.

mod acknowledged;
mod failing_disk;
mod kill;
mod power_cut;
mod restore;
mod server;
mod writers;
