//! Decoders: their description as data, and the executors that run a description on a device.

mod config;
pub mod exec;
mod gemma3;
mod llama;
mod llama_like;
mod mistral;
mod qwen2;
mod qwen3;
mod rope_config;
pub mod spec;

use crate::load::{LoadError, ModelFiles};

use config::ConfigReader;
use spec::DecoderSpec;

type Describe = fn(&ConfigReader<'_>, &ModelFiles) -> Result<DecoderSpec, LoadError>;

/// Every supported `model_type` of `config.json`, and its describing function.
const ARCHITECTURES: [(&str, Describe); 6] = [
    ("llama", llama::describe),
    ("mistral", mistral::describe),
    ("qwen2", qwen2::describe),
    ("qwen3", qwen3::describe),
    ("gemma3_text", gemma3::describe_text),
    ("gemma3", gemma3::describe),
];

/// Describes the decoder in a model's files by its `config.json`.
///
/// # Errors
/// If the architecture is not supported, or if a key is missing, has the wrong type, is out of
/// bounds, or contradicts another key. The error names file and key.
pub fn describe(files: &ModelFiles) -> Result<DecoderSpec, LoadError> {
    let config = ConfigReader::of_files(files);
    let model_type = config.text("model_type")?;
    let Some((_, describe)) = ARCHITECTURES.iter().find(|(name, _)| *name == model_type) else {
        let supported: Vec<&str> = ARCHITECTURES.iter().map(|(name, _)| *name).collect();
        return Err(config.error(
            "model_type",
            format_args!(
                "names an architecture that is not supported: `{model_type}`; supported are {}",
                supported.join(", ")
            ),
        ));
    };
    describe(&config, files)
}
