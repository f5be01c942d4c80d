//! `cargo xtask test`: downloads the tests' models, templates and clients, and runs all tests.

use std::{ffi::OsString, path::PathBuf, process::Command};

use anyhow::Result;

use crate::{models, node, process, project::Project, python::Environment, setup};

/// Models of the tests that use real weights.
const MODELS: [&str; 3] = ["smollm2", "qwen2.5-coder-0.5b", "gemma3-270m"];

/// Sets up, downloads models, chat templates and clients, and runs `cargo test` over the workspace. The
/// clients' Python and Node are in `STEMMA_TEST_PYTHON`, `STEMMA_TEST_NODE` and
/// `STEMMA_TEST_NODE_MODULES`, the templates in `STEMMA_TEST_TEMPLATES`.
pub(crate) fn run(project: &Project, args: &[OsString]) -> Result<()> {
    setup::run(project, None)?;
    models::fetch(&MODELS.map(OsString::from))?;
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

/// Downloads missing chat templates of real models and returns their folder.
fn templates(project: &Project) -> Result<PathBuf> {
    let folder = project.state()?.join("templates");
    let script = project.root().join("tests/goldens/fetch_templates.py");
    process::run(Command::new("python3").arg(script).arg(&folder))?;
    Ok(folder)
}
