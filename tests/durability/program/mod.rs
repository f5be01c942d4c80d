//! The whole program as its clients see it while it is killed, cut off from power or out of disk.

mod failing_disk;
mod heard;
mod kill;
mod power_cut;
mod server;
mod thaw;
mod writers;
