//! The project's folders, and Cargo in the project.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;

/// The clone of the repository that this program was built in.
#[derive(Debug)]
pub(crate) struct Project {
    root: PathBuf,
}

impl Project {
    /// Finds the clone, as the parent of this crate's folder.
    pub(crate) fn find() -> Result<Self> {
        let crate_folder = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = crate_folder
            .parent()
            .context("the folder of xtask has no parent")?;
        let root = fs::canonicalize(root)
            .with_context(|| format!("cannot find the project at {}", root.display()))?;
        Ok(Self { root })
    }

    /// The root folder of the clone.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of the prebuilt MLX: `.mlx`, or the target if `.mlx` is a link.
    pub(crate) fn mlx(&self) -> PathBuf {
        let path = self.root.join(".mlx");
        fs::canonicalize(&path).unwrap_or(path)
    }

    /// The folder of everything else that this program stores: Python environments, unfinished work.
    pub(crate) fn state(&self) -> Result<PathBuf> {
        let path = self.root.join(".stemma");
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    }

    /// Returns a command that runs the Cargo that runs this program, in the clone.
    pub(crate) fn cargo(&self) -> Command {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.root);
        cargo
    }

    /// Builds stemma in release mode and returns the path of the program.
    pub(crate) fn release_build(&self) -> Result<PathBuf> {
        process::run(
            self.cargo()
                .args(["build", "--release", "--package=stemma"]),
        )?;
        Ok(self.target()?.join("release/stemma"))
    }

    /// The folder that Cargo builds into.
    fn target(&self) -> Result<PathBuf> {
        let metadata = self.metadata(false)?;
        let target = metadata["target_directory"]
            .as_str()
            .context("cargo metadata names no target folder")?;
        Ok(PathBuf::from(target))
    }

    /// Returns the output of `cargo metadata`. With `dependencies`, Cargo downloads missing ones.
    pub(crate) fn metadata(&self, dependencies: bool) -> Result<Value> {
        let mut cargo = self.cargo();
        cargo.args(["metadata", "--format-version=1", "--locked"]);
        if !dependencies {
            cargo.arg("--no-deps");
        }
        serde_json::from_str(&process::output(&mut cargo)?)
            .context("cargo metadata wrote something other than JSON")
    }
}
