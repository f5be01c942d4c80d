//! Decodes the tokens of an answer to output deltas.

use std::sync::Arc;

use super::{
    super::ServedModel,
    logprobs::{self, LogprobAligner},
};
use crate::{
    conversation::{OutputDelta, TokenLogprobs, ToolChoice, Turn},
    engine::GeneratedToken,
    id::TokenId,
    output_parser::{OutputParser, ParserOptions, Plain, StopStrings},
    tokenizer::{Detokenizer, Tokenizer},
};

/// Number of tokens at a prompt's end that are searched for the opening reasoning marker.
const PROMPT_END_TOKENS: usize = 32;

/// Decodes an answer while it is generated.
pub(crate) struct OutputDecoder {
    tokenizer: Tokenizer,
    detokenizer: Detokenizer,
    parser_spec: Box<dyn OutputParser>,
    /// Finds stop strings in message text.
    stops: StopStrings,
    stopped: bool,
    reasoning_tokens: u64,
    /// `None` if the request asks for no log probabilities.
    ledger: Option<LogprobAligner>,
}

/// The deltas of a token.
pub(crate) struct Decoded {
    pub(crate) pieces: Vec<OutputDelta>,
    /// Log probabilities of each delta's tokens, if the request asks for them.
    pub(crate) logprobs: Vec<Vec<TokenLogprobs>>,
    /// True if a stop text ends the answer.
    pub(crate) stopped: bool,
}

impl OutputDecoder {
    /// Builds the decoder for the answer to a prompt.
    pub(crate) fn new(model: &ServedModel, turn: &Turn, prompt: &[TokenId]) -> Self {
        let (detokenizer, parser_spec) = match turn.raw {
            Some(_) => (
                model.tokenizer.detokenizer().continuing(),
                Box::new(Plain) as Box<dyn OutputParser>,
            ),
            None => conversing(model, turn, prompt),
        };
        Self {
            tokenizer: model.tokenizer.clone(),
            ledger: turn.sampling.logprobs.map(|_| LogprobAligner::default()),
            detokenizer,
            parser_spec,
            stops: StopStrings::new(turn.stop.clone()),
            stopped: false,
            reasoning_tokens: 0,
        }
    }

    pub(crate) fn token(&mut self, token: &GeneratedToken) -> Decoded {
        let likely = logprobs::written(&self.tokenizer, &self.detokenizer, token);
        let text = self.detokenizer.push(token.id);
        if let (Some(ledger), Some(likely)) = (&mut self.ledger, likely) {
            ledger.push(likely, &text);
        }
        let reasoning = self.parser_spec.in_reasoning();
        let mut pieces = Vec::new();
        self.parser_spec.push(&text, &mut pieces);
        if reasoning || self.parser_spec.in_reasoning() {
            self.reasoning_tokens += 1;
        }
        let pieces = self.watched(pieces);
        self.read(pieces)
    }

    /// Returns the number of reasoning tokens, markers included.
    pub(crate) fn reasoning_tokens(&self) -> u64 {
        self.reasoning_tokens
    }

    /// Returns the pending text. A character that the model left unfinished becomes U+FFFD; a
    /// character cut by a limit is dropped.
    pub(crate) fn finish(&mut self, ended_by_model: bool) -> Decoded {
        if self.stopped {
            return self.read(Vec::new());
        }
        let rest = match ended_by_model {
            true => self.detokenizer.finish(),
            false => String::new(),
        };
        if let Some(ledger) = &mut self.ledger {
            ledger.push_rest(&rest);
        }
        let mut pieces = Vec::new();
        self.parser_spec.push(&rest, &mut pieces);
        self.parser_spec.finish(&mut pieces);
        let mut pieces = self.watched(pieces);
        if !self.stopped {
            self.release(&mut pieces);
        }
        self.read(pieces)
    }

    /// Pairs deltas with their tokens.
    fn read(&mut self, pieces: Vec<OutputDelta>) -> Decoded {
        let logprobs = self.ledger.as_mut().map(|ledger| ledger.take(&pieces));
        Decoded {
            logprobs: logprobs.unwrap_or_default(),
            pieces,
            stopped: self.stopped,
        }
    }

    /// Returns the deltas up to the first stop string. Text that may be the start of one is held
    /// back.
    fn watched(&mut self, pieces: Vec<OutputDelta>) -> Vec<OutputDelta> {
        let mut shown = Vec::new();
        for piece in pieces {
            let OutputDelta::Text(text) = piece else {
                self.release(&mut shown);
                match (shown.last_mut(), piece) {
                    // One token makes one event.
                    (Some(OutputDelta::Arguments(all)), OutputDelta::Arguments(more)) => {
                        all.push_str(&more);
                    }
                    (_, piece) => shown.push(piece),
                }
                continue;
            };
            let watched = self.stops.push(&text);
            if !watched.text.is_empty() {
                shown.push(OutputDelta::Text(watched.text));
            }
            if watched.stopped {
                self.stopped = true;
                break;
            }
        }
        shown
    }

    /// Releases the text that was held back.
    fn release(&mut self, shown: &mut Vec<OutputDelta>) {
        let held = self.stops.finish();
        if !held.is_empty() {
            shown.push(OutputDelta::Text(held));
        }
    }
}

/// Returns the text at the end of a prompt that decides how an answer starts.
pub(crate) fn prompt_end(model: &ServedModel, prompt: &[TokenId]) -> String {
    let end = &prompt[prompt.len().saturating_sub(PROMPT_END_TOKENS)..];
    end.iter()
        .map(|&id| model.tokenizer.token_text(id))
        .collect()
}

/// Builds the output parser for an answer within a conversation.
fn conversing(
    model: &ServedModel,
    turn: &Turn,
    prompt: &[TokenId],
) -> (Detokenizer, Box<dyn OutputParser>) {
    let tools = match turn.tool_rules.choice {
        ToolChoice::None => &[],
        _ => turn.head.tools.as_slice(),
    };
    let tokens = model.parser_spec.tokens(!tools.is_empty()).into_iter();
    let shown: Arc<[TokenId]> = tokens
        .filter_map(|token_text| model.tokenizer.token_id(token_text))
        .collect();
    let end = prompt_end(model, prompt);
    let reading = ParserOptions {
        tools,
        thinks: model.parser_spec.opens_reasoning(&end),
        lenient: model.lenient_tool_calls,
    };
    let detokenizer = model.tokenizer.detokenizer().showing(shown);
    (detokenizer, model.parser_spec.parser(reading))
}
