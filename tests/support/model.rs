//! Scripted models with a real tokenizer and a real template.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicUsize},
};

use jiff::Timestamp;
use serde_json::{Map, Value};
use stemma::{
    cache::snapshot::Snapshots,
    engine::{self, EngineOptions, scripted::ScriptedExecutor},
    grammar::GrammarCompiler,
    id::TokenId,
    output_parser::ParserSpec,
    responses::{SamplingDefaults, ServedModel, longest_token_bytes},
    template::ChatTemplate,
    tokenizer::{PromptSegment, Tokenizer, TokenizerSource},
};

const CHATML: &str = "{% for message in messages %}\
    {% if message.content == 'refuse me' %}{{ raise_exception('no such talk') }}{% endif %}\
    {{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}\
    {% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// A scripted model.
pub(crate) struct Script {
    pub(crate) id: String,
    pub(crate) executor: ScriptedExecutor,
    pub(crate) engine: EngineOptions,
    pub(crate) template: Option<&'static str>,
    pub(crate) template_args: Map<String, Value>,
    pub(crate) defaults: SamplingDefaults,
    pub(crate) max_output_tokens: Option<u64>,
    pub(crate) lenient_tool_calls: bool,
    pub(crate) snapshots: Option<Snapshots>,
    tokenizer: Tokenizer,
}

impl Script {
    /// Returns a model whose output is `reply` of the prompt. The prompt includes its control
    /// tokens.
    pub(crate) fn new(id: &str, reply: impl Fn(&str) -> String + Send + 'static) -> Self {
        Self::speaking(id, reply, |tokenizer, said| {
            tokenizer.encode_text(said, false)
        })
    }

    /// As [`new`](Self::new), but texts of control tokens in the output become these tokens.
    pub(crate) fn with_markers(id: &str, reply: impl Fn(&str) -> String + Send + 'static) -> Self {
        Self::speaking(id, reply, |tokenizer, said| {
            tokenizer.encode_prompt(&[PromptSegment::Template(said.to_owned())])
        })
    }

    fn speaking(
        id: &str,
        reply: impl Fn(&str) -> String + Send + 'static,
        encode: fn(&Tokenizer, &str) -> Vec<TokenId>,
    ) -> Self {
        let tokenizer = tokenizer();
        let speaker = tokenizer.clone();
        let say = move |prompt: &[TokenId]| {
            let prompt: String = prompt.iter().map(|&id| speaker.token_text(id)).collect();
            encode(&speaker, &reply(&prompt))
        };
        let end = tokenizer.token_id("<|im_end|>").expect("an end token");
        Self {
            id: id.to_owned(),
            executor: ScriptedExecutor::new(tokenizer.vocab_size(), end, say),
            // The prefix cache is off, so that the engine holds only running sequences.
            engine: EngineOptions {
                cache_bytes_max: 0,
                ..EngineOptions::default()
            },
            template: Some(CHATML),
            template_args: Map::new(),
            defaults: SamplingDefaults::default(),
            max_output_tokens: None,
            lenient_tool_calls: false,
            snapshots: None,
            tokenizer,
        }
    }

    /// Changes the executor.
    pub(crate) fn executor(
        self,
        change: impl FnOnce(ScriptedExecutor) -> ScriptedExecutor,
    ) -> Self {
        Self {
            executor: change(self.executor),
            ..self
        }
    }

    /// Returns the number of sequences whose KV cache the engine holds.
    pub(crate) fn live_caches(&self) -> Arc<AtomicUsize> {
        self.executor.live_caches()
    }

    /// Starts the model's engine.
    pub(crate) fn serve(self) -> ServedModel {
        let executor = self.executor;
        let tokenizer = self.tokenizer;
        let compile = |source| {
            let special = tokenizer.special_tokens();
            ChatTemplate::compile(source, &special, tokenizer.control_token_texts())
        };
        let template = self
            .template
            .map(|source| compile(source).expect("a template"));
        let engine = engine::start(self.engine, move || Ok(executor)).expect("an engine");
        ServedModel {
            id: self.id,
            created_at: Timestamp::constant(1_750_000_000, 0),
            snapshots: self
                .snapshots
                .and_then(|snapshots| Some(snapshots.of_model(&[7; 32], engine.kv_format()?))),
            engine,
            parser_spec: ParserSpec::of(template.as_ref(), &tokenizer),
            lenient_tool_calls: self.lenient_tool_calls,
            template: template.map(Arc::new),
            template_args: self.template_args,
            defaults: self.defaults,
            max_output_tokens: self.max_output_tokens,
            grammars: GrammarCompiler::new(tokenizer.clone(), tokenizer.eos_tokens().into()),
            end_tokens: tokenizer.eos_tokens().into(),
            longest_token_bytes: longest_token_bytes(&tokenizer),
            tokenizer,
        }
    }
}

/// The small byte-level tokenizer of all scripted models.
pub(crate) fn tokenizer() -> Tokenizer {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let source = TokenizerSource::Json {
        tokenizer: root.join("tests/data/tokenizer/chatml.json"),
        config: Map::new(),
    };
    Tokenizer::open(&source).expect("a tokenizer")
}
