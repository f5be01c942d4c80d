//! `cargo xtask models`: models through the server's own downloader.

use std::ffi::OsString;

use anyhow::Result;

use crate::{process, project::Project, setup};

/// Sets up and runs `stemma models fetch` for `aliases`.
pub(crate) fn fetch(project: &Project, aliases: &[OsString]) -> Result<()> {
    setup::run(project, None)?;
    process::run(
        project
            .cargo()
            .args([
                "run",
                "--quiet",
                "--package=stemma",
                "--",
                "models",
                "fetch",
            ])
            .args(aliases),
    )
}
