//! A turn: one request, in the domain's terms.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{CallKind, Item, Preamble, Tool, tool::shown_name};
use crate::id::{ResponseId, TokenId};

/// One request, checked: nothing in it is out of range.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// The model by its id; `None` where the only one is meant.
    pub model: Option<String>,
    /// The preamble of the prompt.
    pub head: Preamble,
    /// The response whose conversation this continues.
    pub previous: Option<ResponseId>,
    /// The new items of the conversation, oldest first.
    pub items: Vec<Item>,
    /// The prompt, where it is not the conversation rendered.
    pub raw: Option<RawPrompt>,
    /// Handling of a conversation that exceeds the context.
    pub truncation: Truncation,
    /// Most tokens of the answer, at least 1; `None` leaves it to the server.
    pub max_output_tokens: Option<u64>,
    /// The requested sampling parameters.
    pub sampling: SamplingRequest,
    /// Texts that end the answer and do not appear in it; none is empty.
    pub stop: Vec<String>,
    /// True if the model's own end tokens are to be passed over.
    pub ignore_eos: bool,
    /// True if the response is to be kept.
    pub store: bool,
    /// True if what the model has read is to be kept on disk for a while, even if the response is not.
    pub keep_prefix: bool,
    /// The tools that the client declares; the head shows those that may be called.
    pub tools: Arc<[Tool]>,
    /// Types of declared tools that were left out.
    pub skipped_tools: Vec<String>,
    /// The rules for calls.
    pub tool_rules: ToolRules,
    /// Reasoning effort, in the client's words; `None` if not given.
    pub effort: Option<String>,
    /// The form that the answer must have.
    pub format: OutputFormat,
    /// Verbosity; echoed, without effect.
    pub verbosity: Option<Verbosity>,
    /// Fields that the response echoes.
    pub labels: EchoedFields,
}

/// Handling of a conversation that exceeds the model's context.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Truncation {
    /// It is refused.
    #[default]
    Disabled,
    /// Its oldest items are left out.
    Auto,
}

/// A prompt that no template makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawPrompt {
    /// To be continued as it stands.
    Text(String),
    /// The same as tokens, not yet checked against a vocabulary; at least one.
    Tokens(Vec<TokenId>),
}

/// Requested sampling parameters; `None` takes the model's default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SamplingRequest {
    /// 0 to 2; 0 is greedy.
    pub temperature: Option<f64>,
    /// Above 0, at most 1.
    pub top_p: Option<f64>,
    /// 0 keeps all.
    pub top_k: Option<u32>,
    /// 0 to 1.
    pub min_p: Option<f64>,
    /// 0.1 to 10; 1 changes nothing.
    pub repetition_penalty: Option<f64>,
    /// -2 to 2.
    pub presence_penalty: Option<f64>,
    /// -2 to 2.
    pub frequency_penalty: Option<f64>,
    /// Token ids, not yet checked against a vocabulary, and -100 to 100.
    pub logit_bias: Vec<(u32, f64)>,
    /// Decides the random numbers.
    pub seed: Option<u64>,
    /// Number of top log probabilities to return with each token, at most 20; `None` returns no log
    /// probabilities.
    pub logprobs: Option<u8>,
}

/// The rules for calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRules {
    /// The tool choice.
    pub choice: ToolChoice,
    /// True if one answer may hold several calls.
    pub parallel: bool,
    /// Most calls of one answer.
    pub calls_max: Option<u64>,
}

impl ToolRules {
    /// Calls after which an answer ends.
    pub fn calls_limit(&self) -> u64 {
        let calls_max = self.calls_max.unwrap_or(u64::MAX);
        if self.parallel {
            calls_max
        } else {
            calls_max.min(1)
        }
    }
}

/// The tool choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice {
    /// As it sees fit.
    Auto,
    /// Not at all.
    None,
    /// It must call at least one.
    Required,
    /// It must call this tool.
    Named(NamedTool),
    /// Only these tools, and at least one of them if that is required.
    Allowed {
        /// True if it must call one.
        required: bool,
        /// At least one.
        tools: Vec<NamedTool>,
    },
}

/// A tool that is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTool {
    /// The kind of tool.
    pub kind: CallKind,
    /// The namespace, if it is of one.
    pub namespace: Option<String>,
    /// Its name there.
    pub name: String,
}

impl NamedTool {
    /// The name by which the model calls it.
    pub fn shown_name(&self) -> String {
        shown_name(self.namespace.as_deref(), &self.name)
    }
}

impl ToolChoice {
    /// True if the model must call something.
    pub fn is_forced(&self) -> bool {
        matches!(
            self,
            Self::Required | Self::Named(_) | Self::Allowed { required: true, .. }
        )
    }
}

/// The form that an answer must have.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum OutputFormat {
    /// Any text.
    #[default]
    Text,
    /// A JSON object.
    JsonObject,
    /// JSON of a schema.
    JsonSchema(JsonSchema),
}

/// The schema of an answer, with the client's key order kept.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonSchema {
    /// The client's name for it.
    pub name: String,
    /// Description of the schema.
    pub description: Option<String>,
    /// The schema; not yet known to be one that can be enforced.
    pub schema: Map<String, Value>,
    /// Shown again; a schema is kept to in any case.
    pub strict: Option<bool>,
    /// Path of the schema in the request.
    pub path: String,
}

/// Requested verbosity of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are OpenAI's")]
pub enum Verbosity {
    Low,
    Medium,
    High,
}

/// Marks of the client's own, which change nothing and are shown again.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EchoedFields {
    /// At most 16 strings by key, in the client's order.
    pub metadata: Map<String, Value>,
    /// The client's own user.
    pub user: Option<String>,
    /// The same, for those who look after misuse.
    pub safety_identifier: Option<String>,
    /// Names what shares a prompt's beginning.
    pub prompt_cache_key: Option<String>,
}
