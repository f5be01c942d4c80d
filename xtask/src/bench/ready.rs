//! How long the whole server takes to be ready.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, bail};

use crate::{folder, project::Project};

/// Seconds from starting `stemma serve` until its first line, which says that it listens.
pub(super) fn seconds(project: &Project, model: &str, work: &Path) -> Result<f64> {
    let program = project.target()?.join("release/stemma");
    // Whatever the server keeps beside itself stays in here.
    let folder = work.join("server");
    folder::empty(&folder)?;
    let start = Instant::now();
    let mut server = Command::new(&program)
        .args(["serve", "--port=0", "--log=error", "--model", model])
        .current_dir(&folder)
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let line = first_line(&mut server);
    let seconds = start.elapsed().as_secs_f64();
    server.kill().context("cannot end the server")?;
    server.wait().context("cannot end the server")?;
    let line = line?;
    if !line.starts_with("stemma listening on ") {
        bail!("the server did not come up: it wrote {line:?}");
    }
    Ok(seconds)
}

fn first_line(server: &mut Child) -> Result<String> {
    let output = server.stdout.take().context("the server has no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    Ok(line)
}
