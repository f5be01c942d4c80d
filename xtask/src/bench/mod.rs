//! `cargo xtask bench engine`: the engine beside mlx-lm, on the same weights and the same BLAS;
//! and `cargo xtask bench log`: the session log beside other stores.

mod figures;
mod log;
mod log_report;
mod ready;
mod report;

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use clap::Args;

use self::figures::Figures;
pub(crate) use self::log::{LogArgs, log};
use crate::{
    folder,
    process::{self, say},
    project::Project,
    python::Environment,
    setup,
};

/// What is measured, and how often.
#[derive(Debug, Args)]
pub(crate) struct EngineArgs {
    /// Alias, folder or file of the model.
    #[arg(long, default_value = "smollm2")]
    model: String,
    /// How often each side is measured, in turn; the figures are medians.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Measures both sides in turn and writes `docs/benchmarks/engine.md` and `engine.json`.
pub(crate) fn engine(project: &Project, args: &EngineArgs) -> Result<()> {
    setup::run(project, None)?;
    process::run(bench(project).arg("--no-run"))?;
    process::run(
        project
            .cargo()
            .args(["build", "--release", "--package=stemma"]),
    )?;
    let work = project.state()?.join("bench");
    folder::create(&work)?;
    let python = mlx_lm(project, &work)?;
    let weights = work.join("weights");
    process::run(
        bench(project)
            .args(["--", "export", &args.model])
            .arg(&weights),
    )?;

    let reference = project.root().join("xtask/bench/reference.py");
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for round in 1..=args.rounds {
        say(&format!("round {round} of {}", args.rounds));
        let mut figures = measured(bench(project).args(["--", "measure", &args.model]))?;
        figures.insert(
            "ready_s".into(),
            ready::seconds(project, &args.model, &work)?,
        );
        ours.push(figures);
        theirs.push(measured(
            Command::new(&python).args([&reference, &weights]),
        )?);
    }
    let report = report::Report {
        model: &args.model,
        ours: &ours,
        theirs: &theirs,
    };
    write(project, "engine", &report.markdown(), &report.json())
}

fn bench(project: &Project) -> Command {
    let mut cargo = project.cargo();
    cargo.args(["bench", "--quiet", "--package=stemma", "--bench=engine"]);
    cargo
}

fn measured(command: &mut Command) -> Result<Figures> {
    figures::parse(&process::output(command)?)
}

/// A Python with mlx-lm, whose MLX has the same OpenBLAS as ours.
fn mlx_lm(project: &Project, work: &Path) -> Result<PathBuf> {
    let requirements = project.root().join("xtask/bench/requirements.txt");
    let environment = Environment::new(work.join("mlx-lm"), requirements);
    environment.prepare()?;
    let theirs = environment.packages()?.join("mlx_cpu.libs");
    let ours = project.mlx().join("site/mlx_cpu.libs");
    if theirs.is_dir() {
        ensure!(
            ours.is_dir(),
            "mlx-lm is compared on the CPU only: `cargo xtask setup --mlx cpu` first"
        );
        copy_files(&ours, &theirs)?;
    }
    Ok(environment.python())
}

fn copy_files(from: &Path, to: &Path) -> Result<()> {
    let entries = fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))?;
    for entry in entries {
        let path = entry?.path();
        let copy = to.join(path.file_name().unwrap_or(OsStr::new("")));
        fs::copy(&path, &copy).with_context(|| format!("cannot write {}", copy.display()))?;
    }
    Ok(())
}

/// Writes a report into `docs/benchmarks/` and shows it.
fn write(project: &Project, name: &str, markdown: &str, json: &str) -> Result<()> {
    let to = project.root().join("docs/benchmarks");
    folder::create(&to)?;
    for (extension, text) in [("md", markdown), ("json", json)] {
        let path = to.join(name).with_extension(extension);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    say(markdown);
    Ok(())
}
