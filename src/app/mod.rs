//! The program: one file per subcommand, and what they share.

mod auth;
mod device;
mod generate;
mod key_ids;
mod keys;
mod load_model;
mod model_options;
mod retention_task;
#[cfg(feature = "scripted")]
mod scripted;
mod serve;
mod sessions;
mod signal;
mod snapshots;

use std::path::Path;

use crate::{
    cli::{Cli, Command},
    load::Sources,
};

/// Runs a parsed command line to its end.
///
/// # Errors
/// One sentence for the person at the terminal.
pub fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Sessions(args) => sessions::run(args),
        Command::Keys(command) => keys::run(command),
    }
}

/// The runtime that everything asynchronous of a command runs on.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    use anyhow::Context as _;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the asynchronous runtime")
}

/// Returns the sources of models; `downloads` overrides the download directory.
fn sources(downloads: Option<&Path>) -> Sources {
    let sources = Sources::from_environment(|name| std::env::var(name).ok());
    match downloads {
        Some(downloads) => Sources {
            downloads: downloads.to_owned(),
            ..sources
        },
        None => sources,
    }
}
