//! A turn's session in the log, from its input to its end.

use jiff::Timestamp;

use super::{CreateError, past, prepare::Beginning, run::Ending};
use crate::{
    conversation::{Output, Record, Usage},
    id::TokenId,
    session::{
        Event, LogError, SessionLog, Turn,
        event::{self, Tokens, TurnClosed, TurnFinish, TurnStatus},
        log::{self, NewResponse},
    },
    translate::outbound,
};

/// Writes a turn into the log. Dropping it closes the session as cancelled.
pub(super) struct Recording {
    turn: Turn,
    generated: Vec<TokenId>,
    head_digest: [u8; 32],
    seed: u64,
}

impl Recording {
    /// Begins the session. If it continues a response, that is there from now on until the end.
    pub(super) async fn begin(
        log: &SessionLog,
        beginning: Beginning,
        seed: u64,
    ) -> Result<Self, CreateError> {
        let continues = beginning.opening.continues.is_some();
        let mut turn = log
            .begin(beginning.opening)
            .await
            .map_err(past::refusal_of)?;
        let tokens = beginning.prompt;
        let input = [
            Event::InputAppended(beginning.input),
            Event::PromptAppended(Tokens { tokens }),
        ];
        turn.append(&input).await?;
        if continues {
            turn.registered().await.map_err(past::refusal_of)?;
        }
        Ok(Self {
            turn,
            generated: Vec::new(),
            head_digest: beginning.head_digest,
            seed,
        })
    }

    /// Takes a generated token, which is written with the end.
    pub(super) fn generated(&mut self, token: TokenId) {
        self.generated.push(token);
    }

    /// Ends the session; returns when that is durable, with the response if it is to be kept.
    pub(super) async fn end(
        self,
        ending: &Ending,
        record: &Record,
        at: Timestamp,
    ) -> Result<(), LogError> {
        let response = match record.turn.store {
            true => Some(self.response(ending, record)?),
            false => None,
        };
        let usage = record.usage.unwrap_or_default();
        self.close(ending, usage, at, response).await
    }

    /// Ends the session of a client that has gone: nothing is kept but the log.
    pub(super) async fn abandon(self, usage: Usage, at: Timestamp) -> Result<(), LogError> {
        self.close(&Ending::Abandoned, usage, at, None).await
    }

    fn response(&self, ending: &Ending, record: &Record) -> Result<NewResponse, LogError> {
        let body = serde_json::to_string(&outbound::response(record))
            .map_err(|error| LogError::Invalid(format!("the response has no JSON: {error}")))?;
        Ok(NewResponse {
            body,
            head_digest: self.head_digest,
            forkable: matches!(ending, Ending::EndToken(_)) && is_one_message(record),
        })
    }

    async fn close(
        self,
        ending: &Ending,
        usage: Usage,
        at: Timestamp,
        response: Option<NewResponse>,
    ) -> Result<(), LogError> {
        let (status, finish) = outcome(ending);
        let closed = TurnClosed {
            status,
            finish,
            usage: event::Usage {
                input_tokens: usage.input_tokens,
                cached_tokens: usage.cached_tokens,
                output_tokens: usage.output_tokens,
                reasoning_tokens: usage.reasoning_tokens,
            },
            seed: self.seed,
            closed_at_ms: at.as_millisecond(),
        };
        let ending = log::Ending {
            generated: self.generated,
            closed,
            response,
        };
        self.turn.end(ending).await
    }
}

/// Whether the items say all that the model generated: true of a message alone.
fn is_one_message(record: &Record) -> bool {
    match record.output.as_slice() {
        [only] => matches!(only.content, Output::Message(_)),
        _ => false,
    }
}

fn outcome(ending: &Ending) -> (TurnStatus, TurnFinish) {
    match ending {
        Ending::EndToken(id) => (TurnStatus::Completed, TurnFinish::EndToken(*id)),
        Ending::StopText => (TurnStatus::Completed, TurnFinish::StopString),
        Ending::MaxTokens => (TurnStatus::Incomplete, TurnFinish::MaxTokens),
        Ending::ContextFull => (TurnStatus::Incomplete, TurnFinish::ContextFull),
        Ending::Failed(_) => (TurnStatus::Failed, TurnFinish::Failed),
        Ending::Abandoned => (TurnStatus::Cancelled, TurnFinish::Cancelled),
    }
}
