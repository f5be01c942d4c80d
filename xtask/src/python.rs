//! Python packages from the index that the user's pip is configured for, and virtual environments.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::process::{self, say};

const NO_PYTHON: &str = "the set-up needs Python 3 with pip; on Debian or Ubuntu type: \
    sudo apt install python3 python3-pip";

/// Returns a command that runs pip. The error names the packages to install.
pub(crate) fn pip() -> Result<Command> {
    process::output(Command::new("python3").args(["-m", "pip", "--version"])).context(NO_PYTHON)?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip"])
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
        .env("PIP_ROOT_USER_ACTION", "ignore");
    Ok(pip)
}

/// Unpacks a wheel, which is a ZIP file, into `folder`.
pub(crate) fn unpack(wheel: &Path, folder: &Path) -> Result<()> {
    process::run(
        Command::new("python3")
            .args(["-m", "zipfile", "-e"])
            .args([wheel, folder]),
    )
    .with_context(|| format!("cannot unpack {}", wheel.display()))
}

/// A virtual environment with the packages of a requirements file.
#[derive(Debug)]
pub(crate) struct Environment {
    folder: PathBuf,
    requirements: PathBuf,
}

impl Environment {
    /// Describes an environment without creating it.
    pub(crate) fn new(folder: PathBuf, requirements: PathBuf) -> Self {
        Self {
            folder,
            requirements,
        }
    }

    /// The environment's interpreter.
    pub(crate) fn python(&self) -> PathBuf {
        self.folder.join("bin/python")
    }

    /// Creates the environment, unless it was created with the same requirements already.
    pub(crate) fn prepare(&self) -> Result<()> {
        let requirements = fs::read_to_string(&self.requirements)
            .with_context(|| format!("cannot read {}", self.requirements.display()))?;
        let done = self.folder.join("requirements.txt");
        if fs::read_to_string(&done).is_ok_and(|installed| installed == requirements) {
            return Ok(());
        }
        say(&format!("Python packages into {}", self.folder.display()));
        let mut pip = pip()?;
        // Without pip, because Debian's python3 can install pip only if python3-venv is installed.
        process::run(
            Command::new("python3")
                .args(["-m", "venv", "--clear", "--without-pip"])
                .arg(&self.folder),
        )?;
        process::run(
            pip.args(["install", "--quiet", "--no-warn-conflicts", "--target"])
                .arg(self.packages()?)
                .arg("--requirement")
                .arg(&self.requirements),
        )?;
        fs::write(&done, requirements).with_context(|| format!("cannot write {}", done.display()))
    }

    /// Returns the folder of the environment's packages (`purelib` of sysconfig).
    pub(crate) fn packages(&self) -> Result<PathBuf> {
        let ask = "import sysconfig; print(sysconfig.get_path('purelib'))";
        let path = process::output(Command::new(self.python()).args(["-c", ask]))?;
        Ok(PathBuf::from(path.trim()))
    }
}
