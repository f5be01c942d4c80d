//! The whole program, seen by clients, with `kill -9`, power cuts and full disks.

mod acknowledged;
mod failing_disk;
mod kill;
mod power_cut;
mod restore;
mod server;
mod writers;
