//! `cargo xtask serve`: from a clone to a running server.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::{ffi::OsStrExt as _, process::CommandExt as _},
    path::PathBuf,
    process::Command,
};

use anyhow::{Result, anyhow};

use crate::{models, project::Project, setup};

/// The model without `--model`.
const DEFAULT_MODEL: &str = "smollm2";

/// Sets up, builds in release mode, downloads the aliases that `args` or `STEMMA_MODEL` name, and
/// replaces this process by `stemma serve` with `args`.
pub(crate) fn run(project: &Project, args: &[OsString]) -> Result<()> {
    setup::run(project, None)?;
    let program = project.release_build()?;
    let mut args = args.to_vec();
    if !names_a_model(&args) {
        args.push(format!("--model={DEFAULT_MODEL}").into());
    }
    // A flag overrides the variable.
    let variable = match value_of(&args, "--model") {
        Some(_) => None,
        None => env::var_os("STEMMA_MODEL"),
    };
    let folder = value_of(&args, "--download-dir").map_or_else(models::download_dir, PathBuf::from);
    // The server resolves a relative path against the root too.
    let folder = project.root().join(folder);
    models::fetch_named(args.iter().chain(&variable), &folder)?;
    let error = Command::new(&program)
        .current_dir(project.root())
        .arg("serve")
        .args(args)
        .exec();
    Err(anyhow!(error).context(format!("cannot run {}", program.display())))
}

/// True if the user names a model: in `args`, in the environment, or in a configuration file.
fn names_a_model(args: &[OsString]) -> bool {
    let by_flag = |flag| value_of(args, flag).is_some();
    let by_variable = |name| env::var_os(name).is_some_and(|value| value != OsStr::new(""));
    ["--model", "--config", "--help", "-h"]
        .into_iter()
        .any(by_flag)
        || ["STEMMA_MODEL", "STEMMA_CONFIG"]
            .into_iter()
            .any(by_variable)
}

/// Returns the value of the first `flag` in `args`, written `--flag VALUE` or `--flag=VALUE`; an empty
/// one at the end of `args`.
fn value_of(args: &[OsString], flag: &str) -> Option<OsString> {
    args.iter().enumerate().find_map(|(index, arg)| {
        let rest = arg.as_encoded_bytes().strip_prefix(flag.as_bytes())?;
        match rest {
            [] => Some(args.get(index + 1).cloned().unwrap_or_default()),
            [b'=', value @ ..] => Some(OsStr::from_bytes(value).to_owned()),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_model_replaces_the_default() {
        let named = |args: &[&str]| {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            names_a_model(&args)
        };
        assert!(named(&["--port", "0", "--model", "x.gguf"]));
        assert!(named(&["--model=x.gguf"]));
        assert!(named(&["--config=stemma.toml"]));
        assert!(!named(&["--port", "0", "--models"]));
        assert!(!named(&[]));
    }
    #[test]
    fn a_flag_has_its_value_behind_it_or_in_it() {
        let args = ["--port", "0", "--download-dir=a", "--model", "x", "--help"];
        let args = args.map(OsString::from);
        let value = |flag| value_of(&args, flag).map(|value| value.into_string().expect("UTF-8"));
        assert_eq!(value("--download-dir").as_deref(), Some("a"));
        assert_eq!(value("--model").as_deref(), Some("x"));
        assert_eq!(value("--help").as_deref(), Some(""));
        assert_eq!(value("--down"), None);
    }
}
