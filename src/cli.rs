//! The command line: what may be typed, with no side effects. Meaning is given in `config`.

mod access;

pub use access::{AccessArgs, KeysCommand};

use std::{net::IpAddr, path::PathBuf};

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum, value_parser};
use serde_json::{Map, Value};

use crate::limits;

/// A durable session-log server for language models: OpenAI's Responses API over MLX.
#[derive(Debug, Parser)]
#[command(name = "stemma", version, about, arg_required_else_help = true)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve models over HTTP until interrupted.
    Serve(Box<ServeArgs>),
    /// Answer one prompt on standard output, without HTTP.
    Generate(GenerateArgs),
    /// Look into, check, save or restore a session log that no server has open.
    Sessions(SessionsArgs),
    /// Make and check keys.
    #[command(subcommand)]
    Keys(KeysCommand),
}

/// `stemma serve`: each flag is also an environment variable and a key of the TOML file.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// TOML file with any of these flags, written without the leading dashes. The command line and
    /// the environment override it.
    #[arg(long, env = "STEMMA_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Model to serve, repeatable: an alias, a folder, a .gguf file or a hub repository;
    /// `NAME=MODEL` serves it under that name.
    #[arg(
        long = "model",
        env = "STEMMA_MODEL",
        value_name = "MODEL",
        value_delimiter = ',',
        required = true
    )]
    pub models: Vec<String>,
    /// Address to listen on.
    #[arg(long, env = "STEMMA_HOST", default_value = "127.0.0.1")]
    pub host: IpAddr,
    /// Port to listen on; 0 picks a free one.
    #[arg(long, env = "STEMMA_PORT", default_value_t = 8080)]
    pub port: u16,
    /// Access control.
    #[command(flatten)]
    pub access: AccessArgs,
    /// Longest answer in tokens where a request names no length [default: what the context holds].
    #[arg(long, env = "STEMMA_MAX_TOKENS", value_name = "TOKENS", value_parser = value_parser!(u32).range(1..))]
    pub max_tokens: Option<u32>,
    /// Take an answer that is one JSON object, bare or in a code fence, as a call. The object needs
    /// the `name` of a declared tool and an object of `arguments`. Small models write calls so.
    #[arg(long, env = "STEMMA_LENIENT_TOOL_CALLS")]
    pub lenient_tool_calls: bool,
    /// Largest request body in bytes, after decompression.
    #[arg(long, env = "STEMMA_MAX_BODY_BYTES", value_name = "BYTES", default_value_t = limits::BODY_BYTES_MAX)]
    pub max_body_bytes: usize,
    /// Largest number of generations running at once, per model.
    #[arg(long, env = "STEMMA_MAX_RUNNING", value_name = "COUNT", default_value_t = 64, value_parser = at_least_one)]
    pub max_running: usize,
    /// Largest number of generations waiting, per model; more are refused with 429.
    #[arg(long, env = "STEMMA_MAX_QUEUE", value_name = "COUNT", default_value_t = 256, value_parser = at_least_one)]
    pub max_queue: usize,
    /// Seconds that a generation may wait for its first step before it is refused with 429; 0 for as long as
    /// it takes.
    #[arg(
        long,
        env = "STEMMA_QUEUE_TIMEOUT",
        value_name = "SECONDS",
        default_value_t = 600
    )]
    pub queue_timeout: u64,
    /// Largest key/value memory of running generations in bytes, per model.
    #[arg(long, env = "STEMMA_KV_BYTES", value_name = "BYTES", default_value_t = 4 << 30, value_parser = at_least_one)]
    pub kv_bytes: usize,
    /// Draft the next tokens and verify them in one step: faster where answers copy from their
    /// prompts. Answers never change.
    #[arg(long, env = "STEMMA_SPECULATE", value_enum, default_value = "off")]
    pub speculate: SpeculateArg,
    /// Folder of the session log, made if it is not there; one server at a time uses it.
    #[arg(
        long,
        env = "STEMMA_SESSIONS",
        value_name = "FOLDER",
        default_value = "./sessions"
    )]
    pub sessions: PathBuf,
    /// Retention of the session log.
    #[command(flatten)]
    pub keeping: KeepArgs,
    /// Options of requests and answers.
    #[command(flatten)]
    pub answers: AnswerArgs,
    /// Seconds that running answers get to finish after SIGTERM.
    #[arg(
        long,
        env = "STEMMA_SHUTDOWN_GRACE",
        value_name = "SECONDS",
        default_value_t = 10
    )]
    pub shutdown_grace: u64,
    /// Settings of loading models.
    #[command(flatten)]
    pub loading: LoadArgs,
    /// Settings of logging.
    #[command(flatten)]
    pub logging: LogArgs,
}

/// Options of requests and answers.
#[derive(Debug, Clone, Args)]
pub struct AnswerArgs {
    /// JSON object of arguments for chat templates; a request's `chat_template_kwargs` win over it.
    #[arg(long, env = "STEMMA_CHAT_TEMPLATE_ARGS", value_name = "JSON", value_parser = json_object)]
    pub chat_template_args: Option<Map<String, Value>>,
    /// Render the reasoning of earlier turns in prompts, as far as the chat template does.
    #[arg(long, env = "STEMMA_PRESERVE_THINKING", value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pub preserve_thinking: bool,
    /// Tools of types that this server does not have: refuse the request, or leave them out and
    /// name them in the header `x-stemma-skipped-tools`.
    #[arg(long, env = "STEMMA_UNSUPPORTED_TOOLS", value_enum, default_value_t = UnsupportedToolsArg::Refuse)]
    pub unsupported_tools: UnsupportedToolsArg,
    /// Second name of `reasoning_content` in chat completions.
    #[arg(long, env = "STEMMA_REASONING_ALIAS_FIELD", value_enum, default_value_t = ReasoningAliasArg::Reasoning)]
    pub reasoning_alias_field: ReasoningAliasArg,
}

/// Handling of tools that this server does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UnsupportedToolsArg {
    /// The request is refused.
    Refuse,
    /// They are left out.
    Skip,
}

/// Second name of `reasoning_content`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReasoningAliasArg {
    /// `reasoning`.
    Reasoning,
    /// It has none.
    None,
}

/// Retention of the session log.
#[derive(Debug, Clone, Args)]
pub struct KeepArgs {
    /// Largest number of stored responses; the oldest are dropped. 0 keeps none: reading, deleting
    /// and continuing responses is an error then [default: no bound].
    #[arg(long, env = "STEMMA_RESPONSES_STORE_MAX_ENTRIES", value_name = "COUNT")]
    pub responses_store_max_entries: Option<u64>,
    /// Most bytes of stored responses; the oldest are dropped. 0 drops each as soon as it is stored
    /// [default: no bound].
    #[arg(long, env = "STEMMA_RESPONSES_STORE_MAX_BYTES", value_name = "BYTES")]
    pub responses_store_max_bytes: Option<u64>,
    /// Seconds after which a stored response is dropped; 0 is never [default: never].
    #[arg(long, env = "STEMMA_RESPONSES_STORE_TTL_SECS", value_name = "SECONDS")]
    pub responses_store_ttl_secs: Option<u64>,
    /// Seconds after which the log of a request that stored no response is erased; 0 is never.
    #[arg(
        long,
        env = "STEMMA_UNSTORED_RETENTION",
        value_name = "SECONDS",
        default_value_t = 24 * 60 * 60
    )]
    pub unstored_retention: u64,
    /// Most bytes of KV snapshots on disk, in the folder of the session log. With them,
    /// conversations continue after a restart without prefill. The least recently used are evicted
    /// first. 0 turns snapshots off.
    #[arg(long, env = "STEMMA_SNAPSHOT_MAX_BYTES", value_name = "BYTES", default_value_t = 8 << 30)]
    pub snapshot_max_bytes: u64,
    /// Seconds after which a prefix on disk that was not used is dropped; 0 is never.
    #[arg(
        long,
        env = "STEMMA_SNAPSHOT_MAX_AGE",
        value_name = "SECONDS",
        default_value_t = 7 * 24 * 60 * 60
    )]
    pub snapshot_max_age: u64,
}

/// Variables of other servers that mean the same, by the flag. A `STEMMA_` variable wins over them.
pub const OTHER_VARIABLES: [(&str, &str); 4] = [
    ("reasoning-alias-field", "MLXCEL_REASONING_ALIAS_FIELD"),
    (
        "responses-store-max-entries",
        "LLAMA_ARG_RESPONSES_STORE_MAX_ENTRIES",
    ),
    (
        "responses-store-max-bytes",
        "MLXCEL_RESPONSES_STORE_MAX_BYTES",
    ),
    (
        "responses-store-ttl-secs",
        "LLAMA_ARG_RESPONSES_STORE_TTL_SECS",
    ),
];

/// Sources and loading of models.
#[derive(Debug, Clone, Args)]
pub struct LoadArgs {
    /// Executor: MLX, or the CPU kernels. `auto` is MLX on Apple silicon and with CUDA, the CPU
    /// kernels on x86-64 with AVX2, and MLX elsewhere.
    #[arg(long, env = "STEMMA_DEVICE", value_enum, default_value_t = DeviceArg::Auto)]
    pub device: DeviceArg,
    /// Threads of the CPU kernels [default: one for each physical core].
    #[arg(long, env = "STEMMA_THREADS", value_name = "COUNT", value_parser = at_least_one)]
    pub threads: Option<usize>,
    /// Type of KV cache elements on the CPU kernels [default: f16].
    #[arg(long, env = "STEMMA_KV_TYPE", value_enum)]
    pub kv_type: Option<KvTypeArg>,
    /// Quantise f32, f16 and bf16 weights at load, on the CPU kernels [default: keep them].
    #[arg(long, env = "STEMMA_QUANTIZE", value_enum)]
    pub quantize: Option<QuantizeArg>,
    /// SIMD level of the CPU kernels [default: the fastest that the processor has].
    #[arg(long, env = "STEMMA_SIMD", value_enum)]
    pub simd: Option<SimdArg>,
    /// Type to compute in on MLX; `auto` is f32 on CPUs and the stored type on GPUs. On the CPU
    /// kernels f32 takes activations of 16 bits instead of 8.
    #[arg(long, env = "STEMMA_DTYPE", value_enum, default_value_t = DtypeArg::Auto)]
    pub dtype: DtypeArg,
    /// Folder of downloaded models [default: stemma in the user's cache folder].
    #[arg(long, env = "STEMMA_DOWNLOAD_DIR", value_name = "FOLDER")]
    pub download_dir: Option<PathBuf>,
}

/// Log filter and format.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    /// Format of the log on standard error.
    #[arg(long, env = "STEMMA_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Log filter, such as `debug` or `warn,stemma=info`.
    #[arg(
        long,
        env = "STEMMA_LOG",
        value_name = "FILTER",
        default_value = "info"
    )]
    pub log: String,
}

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Executors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DeviceArg {
    /// The fastest on the machine.
    Auto,
    /// The CPU kernels.
    Cpu,
    /// MLX.
    Mlx,
}

/// Drafting methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SpeculateArg {
    /// None are made.
    Off,
    /// The tokens that followed the same n-gram before, in the prompt or the answer.
    Ngram,
}

/// Numbers of key/value memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KvTypeArg {
    /// IEEE 16-bit floats.
    F16,
    /// 32-bit floats.
    F32,
}

/// The type to which plain weights are quantised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum QuantizeArg {
    /// 8 bits in blocks of 32.
    Q8,
    /// 4 bits in blocks of 32.
    Q4,
}

/// Instructions of processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SimdArg {
    /// AVX-512 with VNNI.
    Avx512,
    /// AVX2, and AVX-VNNI where there is that.
    Avx2,
    /// None in particular.
    Portable,
}

/// Types that MLX computes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DtypeArg {
    /// The device's fastest type.
    Auto,
    /// 32-bit floats.
    F32,
    /// Brain 16-bit floats.
    Bf16,
    /// IEEE 16-bit floats.
    F16,
}

/// `stemma generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// Alias, folder, .gguf file or hub repository.
    #[arg(long, env = "STEMMA_MODEL")]
    pub model: String,
    /// The prompt; a model without a chat template continues it as raw text.
    pub prompt: String,
    /// Leading system message.
    #[arg(long)]
    pub instructions: Option<String>,
    /// Longest answer in tokens [default: fill the context].
    #[arg(long, env = "STEMMA_MAX_TOKENS", value_name = "TOKENS")]
    pub max_tokens: Option<u32>,
    /// 0 always takes the likeliest token [default: the model's].
    #[arg(long)]
    pub temperature: Option<f32>,
    /// Decides the random numbers [default: another one each time].
    #[arg(long)]
    pub seed: Option<i64>,
    /// Settings of loading the model.
    #[command(flatten)]
    pub loading: LoadArgs,
    /// Settings of logging.
    #[command(flatten)]
    pub logging: LogArgs,
}

/// `stemma sessions`.
#[derive(Debug, Args)]
pub struct SessionsArgs {
    /// Folder of the session log.
    #[arg(
        long,
        env = "STEMMA_SESSIONS",
        value_name = "FOLDER",
        default_value = "sessions",
        global = true
    )]
    pub sessions: PathBuf,
    /// The subcommand.
    #[command(subcommand)]
    pub command: SessionsCommand,
}

/// The commands on a session log.
#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// List every session.
    List,
    /// Print one session's events.
    Show {
        /// Id of the session, or of its response.
        id: String,
    },
    /// Print the family of a session: what it descends from, and what descends from it.
    Tree {
        /// Id of the session, or of its response.
        id: String,
    },
    /// Check every checksum and reference; exit code 1 with what is wrong.
    Verify,
    /// Write the log, or one session with all it builds on, into a file.
    Export {
        /// The file, which must not exist.
        file: PathBuf,
        /// Only this session, or this response's.
        #[arg(long)]
        id: Option<String>,
        /// Collect what is intact straight from a damaged log.
        #[arg(long, conflicts_with = "id")]
        carve: bool,
    },
    /// Read an exported file into an empty folder.
    Import {
        /// The file.
        file: PathBuf,
    },
    /// Make a checked copy in another folder.
    Backup {
        /// The folder, which must hold no session log.
        dest: PathBuf,
    },
    /// Write the log anew without the space that deleted sessions left.
    Compact,
    /// Count what is there.
    Stats,
}

/// Parses a JSON object.
fn json_object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("must be a JSON object: {error}"))
}

/// Parses a count that cannot be zero.
fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(count) => Ok(count),
        Err(error) => Err(format!("{error}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_of_serve_has_an_environment_variable() {
        let command = Cli::command();
        let serve = command.find_subcommand("serve").expect("serve exists");
        for argument in serve.get_arguments().filter(|a| a.get_id() != "help") {
            let env = argument.get_env().and_then(|env| env.to_str());
            assert!(
                env.is_some_and(|env| env.starts_with("STEMMA_")),
                "--{} has no STEMMA_ variable",
                argument.get_id()
            );
        }
    }
}
