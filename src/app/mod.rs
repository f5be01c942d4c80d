//! The program: one file per subcommand, and what they share.

mod auth;
mod device;
mod generate;
mod key_ids;
mod keys;
mod load_model;
mod model_options;
mod models;
mod retention_task;
#[cfg(feature = "scripted")]
mod scripted;
mod serve;
mod sessions;
mod signal;
mod snapshots;

use std::path::Path;

use crate::{
    cli::{Cli, Command, ModelsCommand},
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
        Command::Models(ModelsCommand::Fetch { aliases, cache }) => {
            models::fetch(&aliases, cache.as_deref())
        }
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

/// Returns the sources of models; `cache` overrides the download directory.
fn sources(cache: Option<&Path>) -> Sources {
    let sources = Sources::from_environment(|name| std::env::var(name).ok());
    match cache {
        Some(cache) => Sources {
            cache: cache.to_owned(),
            ..sources
        },
        None => sources,
    }
}
