//! Python: its packages from the index that the user's pip is set to, and own environments.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::process::{self, say};

const NO_PYTHON: &str = "the set-up needs Python 3 with pip; on Debian or Ubuntu type: \
    sudo apt install python3 python3-pip";

/// A command that runs pip, or what to type where there is none.
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

/// A folder with a Python of its own and the packages that a requirements file lists.
#[derive(Debug)]
pub(crate) struct Environment {
    folder: PathBuf,
    requirements: PathBuf,
}

impl Environment {
    /// Names an environment; nothing is made yet.
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

    /// Makes the environment, unless it holds these very requirements already.
    pub(crate) fn prepare(&self) -> Result<()> {
        let wanted = fs::read_to_string(&self.requirements)
            .with_context(|| format!("cannot read {}", self.requirements.display()))?;
        let done = self.folder.join("requirements.txt");
        if fs::read_to_string(&done).is_ok_and(|have| have == wanted) {
            return Ok(());
        }
        say(&format!("Python packages into {}", self.folder.display()));
        let mut pip = pip()?;
        // Without a pip inside, for Debian's python3 makes one only where python3-venv is.
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
        fs::write(&done, wanted).with_context(|| format!("cannot write {}", done.display()))
    }

    /// The folder in which the environment's interpreter looks for packages.
    pub(crate) fn packages(&self) -> Result<PathBuf> {
        let ask = "import sysconfig; print(sysconfig.get_path('purelib'))";
        let said = process::output(Command::new(self.python()).args(["-c", ask]))?;
        Ok(PathBuf::from(said.trim()))
    }
}
