//! What the command line, the environment and the file resolve to.

use std::{ffi::OsString, fs, path::Path};

use clap::{ArgMatches, Command, CommandFactory, FromArgMatches, parser::ValueSource};
use toml::{Table, Value};

use crate::cli::Cli;

/// Why there is nothing to run.
#[derive(Debug)]
pub enum ConfigError {
    /// The command line does not parse, or asked for help: clap prints it and knows the exit code.
    Usage(clap::Error),
    /// The file is not usable; the text names it.
    File(String),
}

/// Parses the command line, laying it and the environment over the file that `--config` names.
///
/// # Errors
/// When any of the three is not valid.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, ConfigError> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    // What the file may provide cannot be required yet.
    let lenient = Cli::command().mut_subcommand("serve", |serve| {
        serve.mut_arg("models", |models| models.required(false))
    });
    let matches = lenient
        .try_get_matches_from(&arguments)
        .map_err(ConfigError::Usage)?;
    let from_file = match matches.subcommand() {
        Some(("serve", serve)) => flags_of_file(serve)?,
        _ => Vec::new(),
    };
    let all = arguments.into_iter().chain(from_file);
    let matches = Cli::command()
        .try_get_matches_from(all)
        .map_err(ConfigError::Usage)?;
    Cli::from_arg_matches(&matches).map_err(ConfigError::Usage)
}

/// The flags to add to the command line for the keys of the file that nothing else has set.
fn flags_of_file(serve: &ArgMatches) -> Result<Vec<OsString>, ConfigError> {
    let Some(path) = serve.get_one::<std::path::PathBuf>("config") else {
        return Ok(Vec::new());
    };
    let table = read_table(path)?;
    let command = Cli::command();
    let command = command
        .find_subcommand("serve")
        .ok_or_else(|| ConfigError::File("there is no serve command".to_owned()))?;
    let mut flags = Vec::new();
    for (key, value) in &table {
        let id = argument_id(command, key).ok_or_else(|| {
            ConfigError::File(format!("{}: there is no setting `{key}`", path.display()))
        })?;
        let already_set = matches!(
            serve.value_source(id),
            Some(ValueSource::CommandLine | ValueSource::EnvVariable)
        );
        if !already_set {
            flags.extend(flags_of_value(path, key, value)?);
        }
    }
    Ok(flags)
}

fn read_table(path: &Path) -> Result<Table, ConfigError> {
    let text = fs::read_to_string(path)
        .map_err(|error| ConfigError::File(format!("cannot read {}: {error}", path.display())))?;
    text.parse()
        .map_err(|error| ConfigError::File(format!("{}: {error}", path.display())))
}

fn argument_id<'a>(command: &'a Command, key: &str) -> Option<&'a str> {
    command
        .get_arguments()
        .find(|argument| argument.get_long() == Some(key) && key != "config")
        .map(|argument| argument.get_id().as_str())
}

/// `key = value` as the flags a person would have typed.
fn flags_of_value(path: &Path, key: &str, value: &Value) -> Result<Vec<OsString>, ConfigError> {
    let flag = |text: String| OsString::from(format!("--{key}={text}"));
    Ok(match value {
        Value::Boolean(true) => vec![OsString::from(format!("--{key}"))],
        Value::Boolean(false) => Vec::new(),
        Value::String(text) => vec![flag(text.clone())],
        Value::Integer(number) => vec![flag(number.to_string())],
        Value::Float(number) => vec![flag(number.to_string())],
        Value::Array(values) => {
            let mut flags = Vec::new();
            for value in values {
                flags.extend(flags_of_value(path, key, value)?);
            }
            flags
        }
        Value::Datetime(_) | Value::Table(_) => {
            return Err(ConfigError::File(format!(
                "{}: `{key}` cannot be a {}",
                path.display(),
                value.type_str()
            )));
        }
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::cli::{self, ServeArgs};

    fn serve(file: &str, arguments: &[&str]) -> Result<ServeArgs, String> {
        let mut config = tempfile::NamedTempFile::new().expect("a temporary file");
        config.write_all(file.as_bytes()).expect("written");
        let mut all: Vec<OsString> = ["stemma", "serve", "--config"].map(OsString::from).into();
        all.push(config.path().into());
        all.extend(arguments.iter().map(OsString::from));
        match parse(all) {
            Ok(Cli {
                command: cli::Command::Serve(serve),
            }) => Ok(serve),
            Ok(other) => Err(format!("{other:?}")),
            Err(ConfigError::Usage(error)) => Err(error.to_string()),
            Err(ConfigError::File(error)) => Err(error),
        }
    }

    #[test]
    fn the_file_fills_in_what_the_command_line_leaves_open() {
        let args = serve(
            "model = [\"a\", \"b\"]\nport = 1\nhost = \"::1\"\nallow-unauthenticated = true\n",
            &["--port", "2"],
        )
        .expect("valid");
        assert_eq!(args.models, ["a", "b"]);
        assert_eq!(args.port, 2);
        assert!(args.host.is_loopback() && args.host.is_ipv6());
        assert!(args.allow_unauthenticated);
    }

    #[test]
    fn the_command_lines_models_replace_the_files() {
        let args = serve("model = \"a\"", &["--model", "b"]).expect("valid");
        assert_eq!(args.models, ["b"]);
    }

    #[test]
    fn bad_files_are_refused_with_the_key() {
        for (file, expected) in [
            ("moddel = \"a\"", "there is no setting `moddel`"),
            ("model = \"a\"\nport = 70000", "--port"),
            ("model = \"a\"\nmax-tokens = 0", "--max-tokens"),
            ("model = \"a\"\n[port]\n", "`port` cannot be a table"),
            ("model = ", "TOML parse error"),
            ("port = 1", "--model"),
        ] {
            let error = serve(file, &[]).expect_err(file);
            assert!(error.contains(expected), "{file}: {error}");
        }
    }
}
