//! The `stemma` program.

fn main() {}
