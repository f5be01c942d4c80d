//! `--model NAME=scripted:TOKENIZER.json`: a made-up model behind the whole program, so that tests can
//! kill it in the middle of many turns. Not in release builds.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::Map;

use super::load_model::ModelOptions;
use crate::{
    engine::{self, scripted::ScriptedExecutor},
    grammar::GrammarCompiler,
    id::TokenId,
    output_parser::ParserSpec,
    responses::{SamplingDefaults, ServedModel, longest_token_bytes},
    template::ChatTemplate,
    tokenizer::{Tokenizer, TokenizerSource},
};

const CHATML: &str = "{% for message in messages %}\
    {{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}\
    {% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

const CONTEXT_TOKENS: usize = 1 << 16;

/// A model with the tokenizer of this file, which must know ChatML's control tokens.
pub(super) fn open(
    id: &str,
    tokenizer: &Path,
    opening: &ModelOptions<'_>,
) -> anyhow::Result<ServedModel> {
    let source = TokenizerSource::Json {
        tokenizer: tokenizer.to_owned(),
        config: Map::new(),
    };
    let tokenizer = Tokenizer::open(&source).context("the tokenizer of a scripted model")?;
    let special = tokenizer.special_tokens();
    let template = ChatTemplate::compile(CHATML, &special, tokenizer.control_token_texts())?;
    let end = tokenizer.token_id("<|im_end|>");
    let end = end.context("the tokenizer of a scripted model has no <|im_end|>")?;
    let speaker = tokenizer.clone();
    let say = move |prompt: &[TokenId]| {
        let prompt: String = prompt.iter().map(|&id| speaker.token_text(id)).collect();
        speaker.encode_text(&reply(&prompt), false)
    };
    let executor =
        ScriptedExecutor::new(tokenizer.vocab_size(), end, say).context_length(CONTEXT_TOKENS);
    let engine = engine::start(opening.engine.clone(), move || Ok(executor));
    let engine = engine.map_err(anyhow::Error::msg)?;
    Ok(ServedModel {
        id: id.to_owned(),
        created_at: Timestamp::now(),
        snapshots: opening.snapshots_of(&[0; 32], &engine),
        engine,
        parser_spec: ParserSpec::of(Some(&template), &tokenizer),
        lenient_tool_calls: opening.lenient_tool_calls,
        template: Some(Arc::new(template)),
        template_args: opening.template_args.clone(),
        defaults: SamplingDefaults::default(),
        max_output_tokens: opening.max_output_tokens,
        grammars: GrammarCompiler::new(tokenizer.clone(), tokenizer.eos_tokens().into()),
        end_tokens: tokenizer.eos_tokens().into(),
        longest_token_bytes: longest_token_bytes(&tokenizer),
        tokenizer,
    })
}

/// Says which message of the conversation the last one was, and how it began.
fn reply(prompt: &str) -> String {
    let messages = prompt.matches("<|im_start|>").count() - 1;
    let last = prompt.rsplit("<|im_start|>user\n").next();
    let last = last.and_then(|rest| rest.split("<|im_end|>").next());
    let begun: String = last.unwrap_or_default().chars().take(40).collect();
    format!("Message {messages} was: {begun}")
}
