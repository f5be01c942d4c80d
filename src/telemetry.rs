//! Logs: structured events on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::{EnvFilter, fmt};

use crate::cli::{LogArgs, LogFormat};

/// Starts logging for the whole process.
///
/// # Errors
/// When the filter does not parse; the text names it.
pub fn start(args: &LogArgs) -> Result<(), String> {
    let text = &args.log;
    let filter = EnvFilter::try_new(text)
        .map_err(|error| format!("the log filter `{text}` does not parse: {error}"))?;
    let builder = fmt().with_env_filter(filter).with_writer(io::stderr);
    let started = match args.log_format {
        LogFormat::Text => builder.with_ansi(io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| format!("logging is already started: {error}"))
}
