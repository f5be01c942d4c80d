//! A turn's session in the log, from its input to its end.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    super::{
        CreateError,
        continuation::resend::{ResendIndex, ResendScope},
        prepare::{SessionStart, parent},
    },
    TurnOutcome,
};
use crate::{
    conversation::{ResponseState, Usage},
    id::TokenId,
    session::{
        Event, LogError, NewSession, SessionLog, TurnHandle,
        format::event::{self, Tokens, TurnClosed, TurnFinish, TurnStatus},
        log::{self, NewResponse},
    },
    translate::outbound,
};

/// Writes a turn into the log. Dropping it closes the session as cancelled.
pub(crate) struct TurnRecorder {
    turn: TurnHandle,
    lines: Arc<ResendIndex>,
    model: String,
    owner: Option<String>,
    prompt: Vec<TokenId>,
    /// Tokens of the prompt that are the parent's.
    shared: usize,
    generated: Vec<TokenId>,
    head_digest: [u8; 32],
    seed: u64,
}

impl TurnRecorder {
    /// Begins the session. If it continues a response, that is there from now on until the end.
    pub(crate) async fn begin(
        log: &SessionLog,
        lines: Arc<ResendIndex>,
        beginning: SessionStart,
        seed: u64,
    ) -> Result<Self, CreateError> {
        let SessionStart {
            mut opening,
            input,
            prompt,
            mut shared,
            head_digest,
            ..
        } = beginning;
        let (model, owner) = (opening.model.clone(), opening.owner.clone());
        let continues = opening.continues.is_some();
        let mut turn = None;
        if opening.fork.is_some() && !continues {
            turn = fork_if_there(log, opening.clone()).await?;
            if turn.is_none() {
                (opening.fork, shared) = (None, 0);
            }
        }
        let mut turn = match turn {
            Some(turn) => turn,
            None => log.begin(opening).await.map_err(parent::refusal_of)?,
        };
        let tokens = prompt[shared..].to_vec();
        let input = [
            Event::InputAppended(input),
            Event::PromptAppended(Tokens { tokens }),
        ];
        turn.append(&input).await?;
        if continues {
            turn.registered().await.map_err(parent::refusal_of)?;
        }
        Ok(Self {
            turn,
            lines,
            model,
            owner,
            prompt,
            shared,
            generated: Vec::new(),
            head_digest,
            seed,
        })
    }

    /// Takes a generated token, which is written with the end.
    pub(crate) fn generated(&mut self, token: TokenId) {
        self.generated.push(token);
    }

    /// All tokens of the prompt and the answer.
    pub(crate) fn tokens(&self) -> Vec<TokenId> {
        [self.prompt.as_slice(), &self.generated].concat()
    }

    /// Ends the session; returns when that is durable, with the response if it is to be kept.
    pub(crate) async fn end(
        self,
        ending: &TurnOutcome,
        record: &ResponseState,
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
    pub(crate) async fn abandon(self, usage: Usage, at: Timestamp) -> Result<(), LogError> {
        self.close(&TurnOutcome::Abandoned, usage, at, None).await
    }

    fn response(
        &self,
        ending: &TurnOutcome,
        record: &ResponseState,
    ) -> Result<NewResponse, LogError> {
        let body = serde_json::to_string(&outbound::response(record))
            .map_err(|error| LogError::Invalid(format!("the response has no JSON: {error}")))?;
        Ok(NewResponse {
            body,
            preamble_digest: self.head_digest,
            // The items then say all that the model generated.
            forkable: matches!(ending, TurnOutcome::EndToken(_)),
        })
    }

    async fn close(
        self,
        ending: &TurnOutcome,
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
        let (session, answer) = (self.turn.id(), self.generated.clone());
        let ending = log::TurnEnd {
            generated: self.generated,
            closed,
            response,
        };
        self.turn.end(ending).await?;
        let line = ResendScope {
            model: &self.model,
            owner: self.owner.as_deref(),
        };
        let lines = &self.lines;
        lines.insert(line, session, &self.prompt, self.shared, &answer);
        Ok(())
    }
}

/// Begins a session that only shares the tokens of another, if that is still there.
async fn fork_if_there(
    log: &SessionLog,
    opening: NewSession,
) -> Result<Option<TurnHandle>, LogError> {
    let begun = match log.begin(opening).await {
        Ok(mut turn) => turn.registered().await.map(|()| turn),
        Err(error) => Err(error),
    };
    match begun {
        Ok(turn) => Ok(Some(turn)),
        // What cannot be read need not be shared.
        Err(LogError::NotFound | LogError::ParentGone | LogError::Corrupt(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn outcome(ending: &TurnOutcome) -> (TurnStatus, TurnFinish) {
    match ending {
        TurnOutcome::EndToken(id) => (TurnStatus::Completed, TurnFinish::EndToken(*id)),
        TurnOutcome::StopText => (TurnStatus::Completed, TurnFinish::StopString),
        TurnOutcome::MaxTokens => (TurnStatus::Incomplete, TurnFinish::MaxTokens),
        TurnOutcome::ContextFull => (TurnStatus::Incomplete, TurnFinish::ContextFull),
        TurnOutcome::CallLimit => (TurnStatus::Completed, TurnFinish::CallLimit),
        TurnOutcome::Failed(_) => (TurnStatus::Failed, TurnFinish::Failed),
        TurnOutcome::Cancelled | TurnOutcome::Abandoned => {
            (TurnStatus::Cancelled, TurnFinish::Cancelled)
        }
    }
}
