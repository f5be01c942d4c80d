//! `cargo xtask test`: everything the tests need, and all of them.

use std::{ffi::OsString, path::PathBuf, process::Command};

use anyhow::Result;

use crate::{models, node, process, project::Project, python::Environment, setup};

/// The models that tests run on real weights.
const MODELS: [&str; 3] = ["smollm2", "qwen2.5-coder-0.5b", "gemma3-270m"];

/// Sets up, fetches models, chat templates and the real clients, and runs `cargo test` over the
/// workspace. The tests find the Python and the Node with the clients in `STEMMA_TEST_PYTHON`,
/// `STEMMA_TEST_NODE` and `STEMMA_TEST_NODE_MODULES`, the templates in `STEMMA_TEST_TEMPLATES`.
pub(crate) fn run(project: &Project, args: &[OsString]) -> Result<()> {
    setup::run(project, None)?;
    models::fetch(project, &MODELS.map(OsString::from))?;
    let templates = templates(project)?;
    let requirements = project.root().join("tests/clients/requirements.txt");
    let clients = Environment::new(project.state()?.join("clients"), requirements);
    clients.prepare()?;
    let node = node::prepare(
        &project.root().join("tests/clients/node"),
        &project.state()?.join("node"),
    )?;
    process::run(
        project
            .cargo()
            .args(["test", "--workspace"])
            .args(args)
            .env("STEMMA_TEST_PYTHON", clients.python())
            .env("STEMMA_TEST_NODE", node.node)
            .env("STEMMA_TEST_NODE_MODULES", node.modules)
            .env("STEMMA_TEST_TEMPLATES", templates),
    )
}

/// The folder of real chat templates, filled where it is not yet.
fn templates(project: &Project) -> Result<PathBuf> {
    let folder = project.state()?.join("templates");
    let script = project.root().join("tests/goldens/fetch_templates.py");
    process::run(Command::new("python3").arg(script).arg(&folder))?;
    Ok(folder)
}
