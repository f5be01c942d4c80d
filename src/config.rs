//! The configuration: command line, environment and file, resolved.

use std::{ffi::OsString, fs, path::Path};

use clap::{ArgMatches, Command, CommandFactory, FromArgMatches, parser::ValueSource};
use toml::{Table, Value};

use crate::cli::{Cli, OTHER_VARIABLES};

/// The reason why the program does not run.
#[derive(Debug)]
pub enum ConfigError {
    /// The command line does not parse, or asked for help: clap prints it and knows the exit code.
    Usage(clap::Error),
    /// The file is not usable; the text names it.
    File(String),
}

/// Parses the command line, laying it and the environment over the file that `--config` names.
/// `variable` gives the variables that clap does not read, which are other servers' names of flags.
///
/// # Errors
/// When any of the three is not valid.
pub fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Cli, ConfigError> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    // What the file may provide cannot be required yet.
    let lenient = Cli::command().mut_subcommand("serve", |serve| {
        serve.mut_arg("models", |models| models.required(false))
    });
    let matches = lenient
        .try_get_matches_from(&arguments)
        .map_err(ConfigError::Usage)?;
    let more = match matches.subcommand() {
        Some(("serve", serve)) => more_flags(serve, variable)?,
        _ => Vec::new(),
    };
    let all = arguments.into_iter().chain(more);
    let matches = Cli::command()
        .try_get_matches_from(all)
        .map_err(ConfigError::Usage)?;
    Cli::from_arg_matches(&matches).map_err(ConfigError::Usage)
}

/// The flags to add to the command line: for other servers' variables, and for the keys of the file,
/// that nothing before them has set.
fn more_flags(
    serve: &ArgMatches,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<OsString>, ConfigError> {
    let command = Cli::command();
    let command = command
        .find_subcommand("serve")
        .ok_or_else(|| ConfigError::File("there is no serve command".to_owned()))?;
    let mut flags = Vec::new();
    let mut from_variables = Vec::new();
    for (key, name) in OTHER_VARIABLES {
        let value = argument_id(command, key).filter(|id| !is_set(serve, id));
        if let Some(value) = value.and_then(|_| variable(name)) {
            let mut flag = OsString::from(format!("--{key}="));
            flag.push(value);
            flags.push(flag);
            from_variables.push(key);
        }
    }
    let Some(path) = serve.get_one::<std::path::PathBuf>("config") else {
        return Ok(flags);
    };
    for (key, value) in &read_table(path)? {
        let id = argument_id(command, key).ok_or_else(|| {
            ConfigError::File(format!("{}: there is no setting `{key}`", path.display()))
        })?;
        if !is_set(serve, id) && !from_variables.contains(&key.as_str()) {
            flags.extend(match value {
                Value::Boolean(set) if takes_values(command, id) => {
                    vec![OsString::from(format!("--{key}={set}"))]
                }
                value => flags_of_value(path, key, value)?,
            });
        }
    }
    Ok(flags)
}

/// True if the command line or a variable that clap reads has set an argument.
fn is_set(serve: &ArgMatches, id: &str) -> bool {
    let source = serve.value_source(id);
    matches!(
        source,
        Some(ValueSource::CommandLine | ValueSource::EnvVariable)
    )
}

fn read_table(path: &Path) -> Result<Table, ConfigError> {
    let text = fs::read_to_string(path)
        .map_err(|error| ConfigError::File(format!("cannot read {}: {error}", path.display())))?;
    text.parse()
        .map_err(|error| ConfigError::File(format!("{}: {error}", path.display())))
}

/// True if an argument is followed by a value, rather than being there or not.
fn takes_values(command: &Command, id: &str) -> bool {
    let mut arguments = command.get_arguments();
    let argument = arguments.find(|argument| argument.get_id() == id);
    argument.is_some_and(|argument| argument.get_action().takes_values())
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
        serve_in(&[], file, arguments)
    }

    fn serve_in(
        variables: &[(&str, &str)],
        file: &str,
        arguments: &[&str],
    ) -> Result<ServeArgs, String> {
        let mut config = tempfile::NamedTempFile::new().expect("a temporary file");
        config.write_all(file.as_bytes()).expect("written");
        let mut all: Vec<OsString> = ["stemma", "serve", "--config"].map(OsString::from).into();
        all.push(config.path().into());
        all.extend(arguments.iter().map(OsString::from));
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        match parse(all, variable) {
            Ok(Cli {
                command: cli::Command::Serve(serve),
            }) => Ok(*serve),
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
        assert!(args.access.allow_unauthenticated);
    }

    #[test]
    fn other_servers_variables_come_between_the_command_line_and_the_file() {
        let file = "model = \"a\"\nresponses-store-max-entries = 1\nresponses-store-ttl-secs = 2\n";
        let variables = [
            ("LLAMA_ARG_RESPONSES_STORE_MAX_ENTRIES", "10"),
            ("MLXCEL_RESPONSES_STORE_MAX_BYTES", "20"),
        ];
        let kept = |arguments: &[&str]| {
            let keeping = serve_in(&variables, file, arguments)?.keeping;
            Ok::<_, String>([
                keeping.responses_store_max_entries,
                keeping.responses_store_max_bytes,
                keeping.responses_store_ttl_secs,
            ])
        };
        assert_eq!(kept(&[]), Ok([Some(10), Some(20), Some(2)]));
        let typed = ["--responses-store-max-entries", "0"];
        assert_eq!(kept(&typed), Ok([Some(0), Some(20), Some(2)]));
        let wrong = [("LLAMA_ARG_RESPONSES_STORE_TTL_SECS", "soon")];
        let error = serve_in(&wrong, "model = \"a\"", &[]).expect_err("not a number");
        assert!(error.contains("--responses-store-ttl-secs"), "{error}");
    }

    #[test]
    fn a_file_turns_on_and_off_what_has_a_value() {
        for (file, preserved) in [
            ("model = \"a\"", true),
            ("model = \"a\"\npreserve-thinking = false", false),
            ("model = \"a\"\npreserve-thinking = true", true),
        ] {
            let args = serve(file, &[]).expect("valid");
            assert_eq!(args.answers.preserve_thinking, preserved, "{file}");
        }
        let args = "model = \"a\"\nchat-template-args = '{\"a\": [1]}'";
        let args = serve(args, &[]).expect("valid").answers.chat_template_args;
        assert_eq!(serde_json::json!(args), serde_json::json!({"a": [1]}));
        let error = serve("model = \"a\"", &["--chat-template-args", "[]"]).expect_err("no object");
        assert!(error.contains("must be a JSON object"), "{error}");
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
