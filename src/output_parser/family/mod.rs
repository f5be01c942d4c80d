//! Call formats of model families, one file each.

mod call_template;
mod deepseek;
mod gemma;
mod glm;
mod harmony;
mod hermes;
mod invoke;
mod kimi;
mod llama;
mod mistral;
mod pythonic;
mod qwen_coder;
mod tagged;

pub use call_template::{ArgumentTags, CallTemplate, Texts};
pub(super) use harmony::Harmony;

use super::syntax::CallParser;

/// A family of models with the same call format. docs/tool-calls.md shows each format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the names are those of the models that began it"
)]
pub enum Family {
    Harmony,
    Dsml,
    DeepSeek,
    Kimi,
    Mistral,
    Gemma4,
    FunctionGemma,
    MiniMax,
    MiniCpm,
    Hunyuan,
    Glm,
    Seed,
    QwenCoder,
    Cohere,
    Nemotron,
    ToolCalls,
    GigaChat,
    Pythonic,
    Granite,
    Hermes,
    Llama,
}

/// All families, in the order in which templates are matched: markers that several families share
/// come last.
pub(super) const ALL: [Family; 21] = [
    Family::Harmony,
    Family::Dsml,
    Family::DeepSeek,
    Family::Kimi,
    Family::Mistral,
    Family::Gemma4,
    Family::FunctionGemma,
    Family::MiniMax,
    Family::MiniCpm,
    Family::Hunyuan,
    Family::Glm,
    Family::Seed,
    Family::QwenCoder,
    Family::Cohere,
    Family::Nemotron,
    Family::ToolCalls,
    Family::GigaChat,
    Family::Pythonic,
    Family::Granite,
    Family::Hermes,
    Family::Llama,
];

/// Makes what reads calls from behind a marker on.
pub(super) type MakeCalls = fn(marker: &str) -> Box<dyn CallParser>;

/// A family's call format.
#[derive(Clone, Copy)]
pub(super) struct CallFormat {
    /// True if a chat template is one of this family's.
    pub(super) is_of: fn(source: &str) -> bool,
    /// The markers that begin calls.
    pub(super) markers: &'static [&'static str],
    /// Makes the reader of what follows a marker.
    pub(super) behind: MakeCalls,
    /// The characters with which answers begin that may be calls without a marker, and their readers.
    pub(super) at_start: &'static [(char, MakeCalls)],
    /// Control tokens that calls consist of.
    pub(super) tokens: &'static [&'static str],
    /// The call template for this chat template, if the text around calls is fixed.
    pub(super) wrapper: fn(source: &str) -> Option<CallTemplate>,
}

impl Family {
    /// The family whose templates look like this one.
    pub(super) fn recognise(source: &str) -> Option<Self> {
        ALL.into_iter().find(|family| match family.syntax() {
            Some(syntax) => (syntax.is_of)(source),
            None => harmony::is_of(source),
        })
    }

    /// Returns the control tokens of its calls.
    pub(super) fn tokens(self) -> &'static [&'static str] {
        match self.syntax() {
            Some(syntax) => syntax.tokens,
            None => &harmony::TOKENS,
        }
    }

    /// Returns the call template for this chat template, if the text around calls is fixed.
    pub(super) fn wrapper(self, source: &str) -> Option<CallTemplate> {
        match self.syntax() {
            Some(syntax) => (syntax.wrapper)(source),
            None => Some(harmony::WRAPPER),
        }
    }

    /// Returns the markers that start its calls.
    pub(super) fn markers(self) -> &'static [&'static str] {
        match self.syntax() {
            Some(syntax) => syntax.markers,
            None => &[harmony::CALL],
        }
    }

    /// Returns the format of calls within text; `None` for Harmony, which has no text outside of
    /// messages.
    pub(super) fn syntax(self) -> Option<CallFormat> {
        Some(match self {
            Self::Harmony => return None,
            Self::Dsml => invoke::DSML,
            Self::DeepSeek => deepseek::SYNTAX,
            Self::Kimi => kimi::SYNTAX,
            Self::Mistral => mistral::SYNTAX,
            Self::Gemma4 => gemma::GEMMA_4,
            Self::FunctionGemma => gemma::FUNCTION_GEMMA,
            Self::MiniMax => invoke::MINIMAX,
            Self::MiniCpm => invoke::MINICPM,
            Self::Hunyuan => glm::HUNYUAN,
            Self::Glm => glm::GLM,
            Self::Seed => qwen_coder::SEED,
            Self::QwenCoder => qwen_coder::QWEN,
            Self::Cohere => tagged::COHERE,
            Self::Nemotron => tagged::NEMOTRON,
            Self::ToolCalls => tagged::TOOL_CALLS,
            Self::GigaChat => tagged::GIGACHAT,
            Self::Pythonic => pythonic::SYNTAX,
            Self::Granite => tagged::GRANITE,
            Self::Hermes => hermes::SYNTAX,
            Self::Llama => llama::SYNTAX,
        })
    }
}
