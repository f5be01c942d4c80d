//! Set-up, models, tests and benchmarks of the project, as one command line.

fn main() {}
