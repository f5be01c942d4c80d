//! `cargo xtask serve`: from a clone to a running server.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::process::CommandExt,
    process::Command,
};

use anyhow::{Result, anyhow};

use crate::{models, project::Project, setup};

/// The model without `--model`.
const DEFAULT_MODEL: &str = "smollm2";

/// Sets up, builds in release mode, downloads the aliases in `args`, and replaces this process by
/// `stemma serve` with `args`.
pub(crate) fn run(project: &Project, args: &[OsString]) -> Result<()> {
    setup::run(project, None)?;
    let program = project.release_build()?;
    let mut serve = Command::new(&program);
    serve.current_dir(project.root()).arg("serve");
    if !names_a_model(args) {
        serve.args(["--model", DEFAULT_MODEL]);
        models::path(DEFAULT_MODEL)?;
    }
    for alias in models::named_in(args) {
        models::path(alias)?;
    }
    let error = serve.args(args).exec();
    Err(anyhow!(error).context(format!("cannot run {}", program.display())))
}

/// True if the user names a model: in `args`, in the environment, or in a configuration file.
fn names_a_model(args: &[OsString]) -> bool {
    let by_flag = |arg: &OsString| {
        let flag = arg.as_encoded_bytes();
        let flag = flag.split(|&byte| byte == b'=').next().unwrap_or(flag);
        [&b"--model"[..], b"--config", b"--help", b"-h"].contains(&flag)
    };
    let by_variable = |name| env::var_os(name).is_some_and(|value| value != OsStr::new(""));
    args.iter().any(by_flag) || by_variable("STEMMA_MODEL") || by_variable("STEMMA_CONFIG")
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
}
