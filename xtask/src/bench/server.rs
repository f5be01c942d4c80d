//! One server process: started, asked and killed.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use super::client::Client;

/// A server process, killed by SIGKILL when this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    pub(super) client: Client,
    /// Seconds from starting the process until it was ready.
    pub(super) ready_s: f64,
}

impl Server {
    /// Starts `stemma serve` in `folder` and waits until it listens. `configure` adds flags.
    pub(super) fn stemma(
        program: &Path,
        model: &str,
        folder: &Path,
        configure: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Result<Self> {
        let start = Instant::now();
        let mut command = Command::new(program);
        command
            .args(["serve", "--port=0", "--log=error", "--model", model])
            .current_dir(folder)
            .stdout(Stdio::piped());
        let mut child = configure(&mut command)
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let output = child.stdout.take().context("the server has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let port = line.trim().rsplit(':').next().map(str::parse);
        let Some(Ok(port)) = port else {
            let _ = child.kill();
            child.wait()?;
            bail!("the server did not start: it wrote {line:?}");
        };
        Ok(Self {
            child,
            client: Client::new(port),
            ready_s: start.elapsed().as_secs_f64(),
        })
    }

    /// Starts another server that listens on `port`, and waits until it has answered a chat.
    /// `health` is the path that it answers with 200 once it listens; `log` takes its output.
    pub(super) fn baseline(
        mut command: Command,
        port: u16,
        health: &str,
        log: &Path,
    ) -> Result<Self> {
        let output = File::create(log)?;
        let start = Instant::now();
        let child = command
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("cannot run {}", command.get_program().display()))?;
        let mut server = Self {
            child,
            client: Client::new(port),
            ready_s: 0.0,
        };
        while !server.client.is_there(health) {
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

    /// The process id.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGKILL and waits until the process has ended.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.child.kill().context("cannot end a server")?;
        self.child.wait().context("cannot end a server")?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both calls fail only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
