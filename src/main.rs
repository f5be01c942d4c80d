//! The `stemma` program: parses, runs, and turns what went wrong into one sentence and an exit code.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use mimalloc::MiMalloc;
use stemma::{
    allocator, app,
    config::{self, ConfigError},
};

/// Much is allocated by one thread and freed by another, for which this one is made: the session log
/// writes about a sixth more turns per second than with that of glibc.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Something went wrong.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    allocator::keep_free_memory();
    let cli = match config::parse(std::env::args_os(), |name| std::env::var_os(name)) {
        Ok(cli) => cli,
        Err(ConfigError::Usage(error)) => {
            // Help and versions come this way too, for standard output and with exit code 0.
            let _ = error.print();
            return ExitCode::from(error.exit_code().clamp(0, 2) as u8);
        }
        Err(ConfigError::File(reason)) => return failed(&reason),
    };
    match app::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&format!("{error:#}")),
    }
}

fn failed(reason: &str) -> ExitCode {
    // Without standard error the message is lost.
    let _ = writeln!(io::stderr(), "stemma: {reason}");
    ExitCode::from(FAILED)
}
