//! The domain: conversations, independent of any API's JSON.

pub mod custom_input;
pub mod item;
pub mod logprobs;
pub mod output;
pub mod output_builder;
pub mod preamble;
pub mod response;
pub mod tool;
pub mod turn;

pub use item::{
    CallKind, CallOutput, ContentPart, CustomCall, FunctionCall, Item, Message, Reasoning, Role,
};
pub use logprobs::{TokenLogprob, TokenLogprobs};
pub use output::{ItemStatus, Output, OutputItem};
pub use output_builder::{OutputBuilder, OutputDelta, OutputEvent};
pub use preamble::Preamble;
pub use response::{EffectiveSampling, Failure, ResponseState, Status, Usage};
pub use tool::{CustomFormat, CustomTool, FunctionTool, GrammarSyntax, Namespace, Tool};
pub use turn::{
    EchoedFields, JsonSchema, NamedTool, OutputFormat, RawPrompt, SamplingRequest, ToolChoice,
    ToolRules, Truncation, Turn, Verbosity,
};
