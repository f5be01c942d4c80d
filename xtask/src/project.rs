//! The project's folders and its Cargo.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;

/// The clone that this program was built in.
#[derive(Debug)]
pub(crate) struct Project {
    root: PathBuf,
}

impl Project {
    /// Finds the clone from the place of this crate in it.
    pub(crate) fn find() -> Result<Self> {
        let crate_folder = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = crate_folder
            .parent()
            .context("the xtask crate lies in no project")?;
        let root = fs::canonicalize(root)
            .with_context(|| format!("cannot find the project at {}", root.display()))?;
        Ok(Self { root })
    }

    /// The folder of the clone.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of the prebuilt MLX, wherever a link at its place leads.
    pub(crate) fn mlx(&self) -> PathBuf {
        let path = self.root.join(".mlx");
        fs::canonicalize(&path).unwrap_or(path)
    }

    /// The folder for whatever else this program keeps: Python environments, unfinished work.
    pub(crate) fn state(&self) -> Result<PathBuf> {
        let path = self.root.join(".stemma");
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    }

    /// The Cargo that runs this program, in the clone.
    pub(crate) fn cargo(&self) -> Command {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.root);
        cargo
    }

    /// The folder that Cargo builds into.
    pub(crate) fn target(&self) -> Result<PathBuf> {
        let metadata = self.metadata(false)?;
        let target = metadata["target_directory"]
            .as_str()
            .context("cargo metadata names no target folder")?;
        Ok(PathBuf::from(target))
    }

    /// What `cargo metadata` tells; with the dependencies it downloads those that are not there.
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
