//! A server process with a scripted or a real model.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use stemma::load::{Sources, alias};

/// The server binary, built with the `scripted` feature.
const PROGRAM: &str = env!("CARGO_BIN_EXE_stemma");

/// The real model.
const REAL: &str = "smollm2";

/// Returns the command that serves a scripted model.
pub(super) fn scripted(sessions: &Path) -> Command {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let tokenizer = root.join("tests/data/tokenizer/chatml.json");
    serve(sessions, &format!("m=scripted:{}", tokenizer.display()))
}

/// Returns the command that serves a real model. The error is the reason why that is impossible
/// here.
pub(super) fn real(sessions: &Path) -> Result<Command, String> {
    let cache = Sources::from_environment(|name| std::env::var(name).ok()).downloads;
    match alias::find(REAL).and_then(|alias| alias::cached(alias, &cache)) {
        Some(_) => Ok(serve(sessions, &format!("m={REAL}"))),
        None => Err(format!("{REAL} is not in {}", cache.display())),
    }
}

fn serve(sessions: &Path, model: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args(["serve", "--port", "0", "--log", "warn", "--model", model])
        .arg("--sessions")
        .arg(sessions);
    command
}

/// A running server.
pub(super) struct Server {
    child: Child,
    errors: File,
    pub(super) url: String,
}

impl Server {
    /// Starts the server. Every start must succeed.
    pub(super) fn start(mut command: Command) -> Self {
        let errors = tempfile::tempfile().unwrap();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors.try_clone().unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let mut server = Self {
            child,
            errors,
            url: String::new(),
        };
        match line.trim_end().strip_prefix("stemma listening on ") {
            Some(url) => server.url = url.to_owned(),
            None => panic!("no start: {}", server.errors()),
        }
        server
    }

    /// Returns the server's standard error output.
    pub(super) fn errors(&mut self) -> String {
        let mut text = String::new();
        self.errors.seek(SeekFrom::Start(0)).unwrap();
        self.errors.read_to_string(&mut text).unwrap();
        text
    }

    /// Kills the server with SIGKILL.
    pub(super) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // If the server already exited, its clients have reported the failure.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs `stemma sessions verify`, which must find no problem. Returns its output.
pub(super) fn verify(sessions: &Path) -> String {
    let out = Command::new(PROGRAM)
        .args(["sessions", "verify", "--sessions"])
        .arg(sessions)
        .output()
        .unwrap();
    let text = [out.stdout, out.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(
        out.status.success() && text.contains("all is well"),
        "{text}"
    );
    text
}
