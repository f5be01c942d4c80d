//! The domain: what a conversation consists of, independent of any API's JSON.

pub mod answer;
pub mod custom_input;
pub mod head;
pub mod item;
pub mod logprobs;
pub mod record;
pub mod tool;
pub mod turn;

pub use answer::{Answer, AnswerEvent, ItemStatus, Output, OutputItem, Piece};
pub use head::Head;
pub use item::{
    CallKind, CallOutput, CustomCall, FunctionCall, Item, Message, Part, Reasoning, Role,
};
pub use logprobs::{LikelyToken, TokenLogprobs};
pub use record::{Failure, Record, Settings, Status, Usage};
pub use tool::{CustomFormat, CustomTool, FunctionTool, GrammarSyntax, Namespace, Tool};
pub use turn::{
    Format, JsonSchema, Labels, NamedTool, RawPrompt, SamplingWishes, ToolChoice, ToolRules,
    Truncation, Turn, Verbosity,
};
