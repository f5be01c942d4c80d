//! Grammars over the small tokenizer of the tests, and what they let through.

mod begins;
mod calls;
mod closing;
mod hostile;
mod inputs;
mod keywords;
mod regular;
mod tagged;
mod watch;

use std::{
    path::PathBuf,
    sync::Arc,
    task::{Context, Poll, Waker},
    thread,
};

use serde_json::{Map, Value};

use super::{GrammarCompiler, GrammarError, GrammarSpec, Shape, StartAt, ValueGrammar};
use crate::{
    id::TokenId,
    output_parser::CallTemplate,
    sampling::{Constraint, TokenBitmask, TokenMask},
    tokenizer::{PromptSegment, Tokenizer, TokenizerSource},
};

/// Result of matching a text.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// It may end here.
    Whole,
    /// More must follow.
    Open,
    /// The grammar rejects the byte at this position.
    Stopped(usize),
}

fn tokenizer() -> Tokenizer {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let source = TokenizerSource::Json {
        tokenizer: root.join("tests/data/tokenizer/chatml.json"),
        config: Map::new(),
    };
    Tokenizer::open(&source).expect("a tokenizer")
}

fn grammars() -> GrammarCompiler {
    let tokenizer = tokenizer();
    let ends: Arc<[TokenId]> = tokenizer.eos_tokens().into();
    GrammarCompiler::new(tokenizer, ends)
}

fn spec(form: ValueGrammar) -> GrammarSpec {
    GrammarSpec {
        shape: Shape::Value(form),
        start: StartAt::Immediately,
    }
}

fn schema(schema: &Value) -> GrammarSpec {
    spec(ValueGrammar::Schema(schema.clone()))
}

/// Hermes's call template.
const HERMES: CallTemplate = CallTemplate {
    opening: "",
    before_name: "<tool_call>\n{\"name\": \"",
    before_arguments: "\", \"arguments\": ",
    after_arguments: "}\n</tool_call>",
    between: "\n",
    closing: "",
    ..CallTemplate::PLAIN
};

/// Room for any text.
const ROOM: usize = 1 << 20;

/// Returns the token mask with room for `left` tokens; `None` admits all tokens.
fn allowed(constraint: &mut dyn Constraint, left: usize) -> Option<TokenBitmask> {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match constraint.poll_mask(left, &mut context) {
            Poll::Ready(Ok(TokenMask::All)) => return None,
            Poll::Ready(Ok(TokenMask::Only(set))) => return Some(set.clone()),
            Poll::Ready(Err(error)) => panic!("{error}"),
            Poll::Pending => thread::yield_now(),
        }
    }
}

/// Has a token taken that is allowed; whether it was.
fn take(constraint: &mut dyn Constraint, token: TokenId, left: usize) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(taken) = constraint.poll_accept(token, left, &mut context) {
            return taken;
        }
        thread::yield_now();
        if allowed(constraint, left).is_some_and(|set| !set.contains(token)) {
            return false;
        }
    }
}

/// Matches a text token by token; control token texts stand for the tokens.
fn run(constraint: &mut dyn Constraint, text: &str) -> Verdict {
    let tokenizer = tokenizer();
    let mut bytes = 0;
    for token in tokenizer.encode_prompt(&[PromptSegment::Template(text.to_owned())]) {
        if allowed(constraint, ROOM).is_some_and(|set| !set.contains(token)) {
            return Verdict::Stopped(bytes);
        }
        assert!(take(constraint, token, ROOM), "there is room");
        bytes += tokenizer.token_text(token).len();
    }
    let ends = tokenizer.eos_tokens();
    match allowed(constraint, ROOM) {
        Some(set) if !ends.iter().any(|&end| set.contains(end)) => Verdict::Open,
        _ => Verdict::Whole,
    }
}

fn verdict(grammars: &GrammarCompiler, spec: &GrammarSpec, text: &str) -> Verdict {
    let constraint = grammars.constraint(spec);
    let mut constraint = constraint.unwrap_or_else(|error| panic!("{spec:?}: {error}"));
    run(&mut *constraint, text)
}

/// The path and the reason of a refusal.
fn refusal(grammars: &GrammarCompiler, spec: &GrammarSpec) -> (String, String) {
    match grammars.constraint(spec) {
        Err(GrammarError::Unsupported { path, reason }) => (path.join("."), reason),
        other => panic!("{spec:?}: {other:?}"),
    }
}
