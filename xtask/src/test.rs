//! `cargo xtask test`: everything the tests need, and all of them.

use std::ffi::OsString;

use anyhow::Result;

use crate::{models, process, project::Project, python::Environment, setup};

/// The models that tests run on real weights.
const MODELS: [&str; 1] = ["smollm2"];

/// Sets up, fetches models and the real clients, and runs `cargo test` over the workspace. The
/// tests find the Python with the clients in `STEMMA_TEST_PYTHON`.
pub(crate) fn run(project: &Project, args: &[OsString]) -> Result<()> {
    setup::run(project, None)?;
    models::fetch(project, &MODELS.map(OsString::from))?;
    let requirements = project.root().join("tests/clients/requirements.txt");
    let clients = Environment::new(project.state()?.join("clients"), requirements);
    clients.prepare()?;
    process::run(
        project
            .cargo()
            .args(["test", "--workspace"])
            .args(args)
            .env("STEMMA_TEST_PYTHON", clients.python()),
    )
}
