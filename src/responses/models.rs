//! The loaded models by id.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::SamplingDefaults;
use crate::{
    cache::snapshot::ModelSnapshots,
    engine::EngineHandle,
    grammar::GrammarCompiler,
    id::TokenId,
    output_parser::ParserSpec,
    template::ChatTemplate,
    tokenizer::Tokenizer,
    translate::{Code, RequestError},
};

/// A loaded model, with everything that a turn on it needs.
pub struct ServedModel {
    /// Id of the model in requests.
    pub id: String,
    /// Time when the model was loaded.
    pub created_at: Timestamp,
    /// Runs it.
    pub engine: EngineHandle,
    /// The model's KV snapshots; `None` if snapshots are off.
    pub snapshots: Option<ModelSnapshots>,
    /// The model's tokenizer.
    pub tokenizer: Tokenizer,
    /// The model's chat template; base models have none.
    pub template: Option<Arc<ChatTemplate>>,
    /// The model's call format and reasoning markers.
    pub parser_spec: ParserSpec,
    /// True if an answer that is one JSON call, without any marker, is parsed as a call.
    pub lenient_tool_calls: bool,
    /// Template arguments for requests without their own.
    pub template_args: Map<String, Value>,
    /// Sampling defaults.
    pub defaults: SamplingDefaults,
    /// Default of the most tokens of an answer; `None` fills the context.
    pub max_output_tokens: Option<u64>,
    /// EOS tokens.
    pub end_tokens: Arc<[TokenId]>,
    /// Compiles grammars for the model.
    pub grammars: GrammarCompiler,
    /// See [`longest_token_bytes`].
    pub longest_token_bytes: usize,
}

/// Returns the length of the tokenizer's longest token. A text has at least its length divided by
/// this many tokens, so a far too long text is rejected without tokenising it.
pub fn longest_token_bytes(tokenizer: &Tokenizer) -> usize {
    let ids = 0..TokenId::try_from(tokenizer.vocab_size()).unwrap_or(TokenId::MAX);
    let bytes = |id: TokenId| tokenizer.token_text(id).len();
    ids.map(bytes).max().unwrap_or(1).max(1)
}

/// The loaded models, in the order of the command line.
pub struct Models {
    models: Vec<Arc<ServedModel>>,
}

impl Models {
    /// Builds a registry of these models.
    ///
    /// # Errors
    /// If there are no models, or two share an id.
    pub fn new(models: Vec<ServedModel>) -> Result<Self, String> {
        if models.is_empty() {
            return Err("no model is loaded".to_owned());
        }
        for (at, model) in models.iter().enumerate() {
            if models[..at].iter().any(|earlier| earlier.id == model.id) {
                return Err(format!("two models have the name `{}`", model.id));
            }
        }
        let models = models.into_iter().map(Arc::new).collect();
        Ok(Self { models })
    }

    /// Iterates over the loaded models.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ServedModel>> {
        self.models.iter()
    }

    /// Returns the model of this id.
    ///
    /// # Errors
    /// If there is no such model.
    pub fn get(&self, id: &str) -> Result<&Arc<ServedModel>, RequestError> {
        self.models
            .iter()
            .find(|model| model.id == id)
            .ok_or_else(|| {
                let message = format!("The model `{id}` is not loaded here.");
                RequestError::of(Code::ModelNotFound, "model", message)
            })
    }

    /// Returns the model of a request: the one with this id, or the only one.
    pub(super) fn resolve(&self, id: Option<&str>) -> Result<&Arc<ServedModel>, RequestError> {
        match (id, self.models.as_slice()) {
            (Some(id), _) => self.get(id),
            (None, [only]) => Ok(only),
            (None, several) => {
                let ids: Vec<&str> = several.iter().map(|model| model.id.as_str()).collect();
                let message = format!("`model` must be one of {}.", ids.join(", "));
                Err(RequestError::of(Code::MissingParameter, "model", message))
            }
        }
    }
}
