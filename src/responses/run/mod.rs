//! Runs a turn from its first token to its end.
//!
//! Each turn runs in a task of its own, so that its end is logged even if the client has
//! disconnected. A client that disconnects closes the channel, which ends the turn at the next
//! event.

pub(super) mod decoder;
pub(super) mod logprobs;
pub(super) mod recorder;
pub(super) mod registry;
pub(super) mod snapshots;

use std::{panic::AssertUnwindSafe, sync::Arc, time::Instant};

use futures::FutureExt as _;
use tokio::sync::mpsc;
use tracing::Instrument as _;

use self::{
    decoder::{Decoded, OutputDecoder},
    recorder::TurnRecorder,
    registry::RunningGuard,
    snapshots::SnapshotTarget,
};
use super::{
    ContinuationState, CreateError, Prepared, Service,
    continuation::{Continuation, Warmth},
    prepare::SessionStart,
};
use crate::{
    auth::Permit,
    cache::snapshot::RestorePlan,
    clock::Clock,
    conversation::{
        Failure, ItemStatus, OutputBuilder, OutputDelta, OutputEvent, ResponseState, Status, Usage,
    },
    engine::{FinishReason, GeneratedToken, SubmitError, TokenEvent, TokenStream},
    id::TokenId,
    limits,
};

/// The events of a turn: any number of [`TurnEvent::Answer`], then [`TurnEvent::Ended`].
#[derive(Debug)]
pub enum TurnEvent {
    /// An event of the output.
    Answer(OutputEvent),
    /// The turn has ended, with this final state.
    Ended(Box<ResponseState>),
}

/// A running turn. Dropping it cancels the generation.
#[derive(Debug)]
pub struct RunningTurn {
    record: ResponseState,
    cached_tokens: u64,
    continuation_state: Option<ContinuationState>,
    events: mpsc::Receiver<TurnEvent>,
    ended: bool,
}

impl RunningTurn {
    /// Returns the response at its start.
    pub fn record(&self) -> &ResponseState {
        &self.record
    }

    /// Returns the number of prompt tokens from the prefix cache.
    pub fn cached_tokens(&self) -> u64 {
        self.cached_tokens
    }

    /// Returns the continuation state; `None` if the turn continues no response.
    pub fn continuation_state(&self) -> Option<ContinuationState> {
        self.continuation_state
    }

    /// Returns the next event; `None` after [`TurnEvent::Ended`], which comes exactly once. Cancel
    /// safe: dropping the future loses no event.
    pub async fn next(&mut self) -> Option<TurnEvent> {
        if self.ended {
            return None;
        }
        let event = self.events.recv().await.unwrap_or_else(|| {
            TurnEvent::Ended(Box::new(ResponseState {
                status: Status::Failed(Failure::Server),
                ..self.record.clone()
            }))
        });
        self.ended = matches!(event, TurnEvent::Ended(_));
        Some(event)
    }

    /// Waits for the end.
    pub async fn finish(mut self) -> ResponseState {
        while let Some(event) = self.next().await {
            if let TurnEvent::Ended(record) = event {
                return *record;
            }
        }
        self.record
    }
}

/// The outcome of a generation.
#[derive(Debug)]
pub(super) enum TurnOutcome {
    /// The model sampled this EOS token.
    EndToken(TokenId),
    /// A stop string.
    StopText,
    /// A call beyond the limit.
    CallLimit,
    /// The token limit.
    MaxTokens,
    /// By the end of the context.
    ContextFull,
    /// By a failure.
    Failed(Failure),
    /// By somebody who asked for that.
    Cancelled,
    /// By the client, who has gone.
    Abandoned,
}

impl TurnOutcome {
    /// Returns the outcome as the log names it.
    fn as_str(&self) -> &'static str {
        match self {
            Self::EndToken(_) => "eos_token",
            Self::StopText => "stop_string",
            Self::CallLimit => "call_limit",
            Self::MaxTokens => "max_tokens",
            Self::ContextFull => "context_full",
            Self::Failed(_) => "failed",
            Self::Cancelled => "cancelled",
            Self::Abandoned => "abandoned",
        }
    }
}

/// Submits a turn's job. Rejects it first if the log cannot be written. Once the engine accepts the
/// job, begins the session and runs the turn.
pub(super) async fn run(
    service: &Service,
    prepared: Prepared,
    permit: Option<Arc<Permit>>,
) -> Result<RunningTurn, CreateError> {
    let Prepared {
        model,
        job,
        state: record,
        session,
    } = prepared;
    service.log.check_writable().await?;
    let seed = job.sampling.seed;
    let input_tokens = job.prompt.len() as u64;
    let snapshot_tokens = job.restore.as_ref().map_or(0, RestorePlan::len);
    let source = SnapshotTarget {
        model: Arc::clone(&model),
        scope: job.cache_scope,
        unstored_ms_max: snapshots::unstored_ms_max(service.log.retention()),
    };
    let mut tokens = model.engine.submit(job).map_err(refusal_of)?;
    let warmth = accepted(&mut tokens).await?;
    let cached_tokens = warmth.cached_tokens;
    let decision = continuation(&session, warmth);
    let reader = OutputDecoder::new(&model, &record.turn, &session.prompt);
    let (id, text) = (session.opening.id, session.text.clone());
    let owner = session.opening.owner.clone();
    let lines = Arc::clone(&service.resend_index);
    let recording = TurnRecorder::begin(&service.log, lines, session, seed).await?;
    if let Some(text) = text {
        service.parent_cache.insert_prompt(id, text);
    }
    if let Some(decision) = decision {
        tracing::info!(
            response = %record.id,
            state = decision.state().as_str(),
            reason = decision.rebuild_reason().map(display),
            snapshot_tokens,
            "response continued"
        );
        service.continuation_counts.count(decision);
    }
    let (sender, events) = mpsc::channel(limits::TURN_EVENTS_MAX);
    let task = TurnTask {
        reader,
        answer: OutputBuilder::new(record.id, Arc::clone(&record.turn.tools)),
        calls_max: record.turn.tool_rules.calls_limit(),
        is_full: false,
        usage: Usage {
            input_tokens,
            cached_tokens,
            ..Usage::default()
        },
        record: record.clone(),
        clock: Arc::clone(&service.clock),
        recording,
        source,
        permit,
        place: service.running.enter(record.id, owner),
        listener: sender,
    };
    tokio::spawn(task.run(tokens).in_current_span());
    Ok(RunningTurn {
        record,
        cached_tokens,
        continuation_state: decision.map(Continuation::state),
        events,
        ended: false,
    })
}

/// Returns the continuation of a turn; `None` if it continues no response.
fn continuation(session: &SessionStart, warmth: Warmth) -> Option<Continuation> {
    session.opening.continues?;
    Some(match session.rebuilt {
        None => Continuation::Forked(warmth),
        Some(reason) => Continuation::Rebuilt(reason),
    })
}

fn refusal_of(error: SubmitError) -> CreateError {
    match error {
        SubmitError::QueueFull => CreateError::Busy,
        SubmitError::ShutDown => CreateError::ShuttingDown,
        other => CreateError::Broken(format!("the engine refuses a job: {other}")),
    }
}

/// Waits until the engine has the job; gives how much it need not read.
async fn accepted(tokens: &mut TokenStream) -> Result<Warmth, CreateError> {
    match tokens.next().await {
        Some(TokenEvent::Accepted {
            cached_tokens,
            restored_tokens,
        }) => Ok(Warmth {
            cached_tokens: cached_tokens as u64,
            restored_tokens: restored_tokens as u64,
        }),
        Some(TokenEvent::Finished(FinishReason::Cancelled)) => Err(CreateError::ShuttingDown),
        Some(TokenEvent::Finished(FinishReason::QueueTimeout)) => Err(CreateError::Busy),
        other => Err(CreateError::Broken(format!(
            "the engine begins a job with {other:?}"
        ))),
    }
}

struct TurnTask {
    reader: OutputDecoder,
    answer: OutputBuilder,
    /// Most calls of the answer.
    calls_max: u64,
    /// True if it had another one; nothing more is added then.
    is_full: bool,
    usage: Usage,
    record: ResponseState,
    clock: Arc<dyn Clock>,
    recording: TurnRecorder,
    source: SnapshotTarget,
    permit: Option<Arc<Permit>>,
    place: RunningGuard,
    listener: mpsc::Sender<TurnEvent>,
}

/// The client has gone.
struct Gone;

impl TurnTask {
    async fn run(mut self, tokens: TokenStream) {
        let generation = AssertUnwindSafe(self.generate(tokens)).catch_unwind();
        let ending = generation.await.unwrap_or_else(|_| {
            // The panic hook has said what and where.
            tracing::error!(response = %self.record.id, "the turn panicked");
            TurnOutcome::Failed(Failure::Server)
        });
        self.end(ending).await;
    }

    /// Reads tokens until something ends them; dropping the stream then frees the engine's place.
    async fn generate(&mut self, mut tokens: TokenStream) -> TurnOutcome {
        loop {
            let event = tokio::select! {
                event = tokens.next() => event,
                () = self.listener.closed() => return TurnOutcome::Abandoned,
                () = self.place.cancelled() => return TurnOutcome::Cancelled,
            };
            match event {
                Some(TokenEvent::Accepted { .. }) => {}
                Some(TokenEvent::Token(token)) => match self.read(&token).await {
                    Ok(_) if self.is_full => return TurnOutcome::CallLimit,
                    Ok(false) => {}
                    Ok(true) => return TurnOutcome::StopText,
                    Err(Gone) => return TurnOutcome::Abandoned,
                },
                Some(TokenEvent::Finished(finish)) => return outcome_of(finish),
                None => return TurnOutcome::Failed(Failure::Server),
            }
        }
    }

    /// Takes a token; says whether a stop text ends the answer.
    async fn read(&mut self, token: &GeneratedToken) -> Result<bool, Gone> {
        self.usage.output_tokens += 1;
        self.recording.generated(token.id);
        let read = self.reader.token(token);
        self.usage.reasoning_tokens = self.reader.reasoning_tokens();
        let stopped = read.stopped;
        self.add(read).await?;
        Ok(stopped)
    }

    async fn add(&mut self, read: Decoded) -> Result<(), Gone> {
        let mut logprobs = read.logprobs.into_iter();
        for piece in read.pieces {
            let logprobs = logprobs.next().unwrap_or_default();
            let is_call = matches!(piece, OutputDelta::Call { .. });
            self.is_full |= is_call && self.answer.calls() >= self.calls_max;
            if self.is_full {
                return Ok(());
            }
            let events = self.answer.push_with_logprobs(piece, logprobs);
            self.tell(events).await?;
        }
        Ok(())
    }

    async fn tell(&mut self, events: Vec<OutputEvent>) -> Result<(), Gone> {
        for event in events {
            let told = self.listener.send(TurnEvent::Answer(event)).await;
            told.map_err(|_| Gone)?;
        }
        Ok(())
    }

    /// The one place where a turn ends. The client learns of it last, when it is durable.
    async fn end(mut self, ending: TurnOutcome) {
        // Before the client knows, so that its next request finds the place free.
        if let Some(permit) = self.permit.take() {
            let tokens = self.usage.input_tokens + self.usage.output_tokens;
            permit.charge(tokens, Instant::now());
        }
        let status = match ending {
            TurnOutcome::EndToken(_) | TurnOutcome::StopText | TurnOutcome::CallLimit => {
                Status::Completed
            }
            TurnOutcome::MaxTokens | TurnOutcome::ContextFull => Status::Incomplete,
            TurnOutcome::Cancelled => Status::Cancelled,
            TurnOutcome::Failed(failure) => Status::Failed(failure),
            TurnOutcome::Abandoned => return self.abandon().await,
        };
        if self.close(&ending, &status).await.is_err() {
            return self.abandon().await;
        }
        self.log(&ending);
        let ended_at = self.clock.now().max(self.record.created_at);
        // What the engine has read of a prompt it keeps for the next.
        self.usage.cache_write_tokens = self.usage.input_tokens - self.usage.cached_tokens;
        let mut record = ResponseState {
            completed_at: (status == Status::Completed).then_some(ended_at),
            status,
            output: self.answer.into_items(),
            usage: Some(self.usage),
            ..self.record
        };
        // From its end on the response can be deleted.
        let snapshot = self.source.reserve(&record, ended_at);
        let snapshot = snapshot.map(|announced| (announced, self.recording.tokens()));
        match self.recording.end(&ending, &record, ended_at).await {
            Ok(()) => {
                if let Some((announced, tokens)) = snapshot {
                    self.source.save(announced, tokens);
                }
            }
            Err(error) => {
                tracing::error!(response = %record.id, %error, "the turn's end could not be stored");
                record.completed_at = None;
                record.status = Status::Failed(Failure::Storage);
            }
        }
        self.place.leave(&record);
        // A client that has gone by now has missed the end only.
        let _ = self.listener.send(TurnEvent::Ended(Box::new(record))).await;
    }

    /// Ends a turn whose client has disconnected.
    async fn abandon(self) {
        self.log(&TurnOutcome::Abandoned);
        let at = self.clock.now().max(self.record.created_at);
        if let Err(error) = self.recording.abandon(self.usage, at).await {
            tracing::error!(response = %self.record.id, %error, "the turn's end could not be stored");
        }
    }

    /// Completes or breaks off the items.
    async fn close(&mut self, ending: &TurnOutcome, status: &Status) -> Result<(), Gone> {
        let ended_by_model = matches!(ending, TurnOutcome::EndToken(_));
        let rest = self.reader.finish(ended_by_model);
        self.add(rest).await?;
        let last = match status {
            Status::Failed(_) => self.answer.break_off(),
            Status::Incomplete | Status::Cancelled => self.answer.finish(ItemStatus::Incomplete),
            Status::Completed | Status::InProgress => self.answer.finish(ItemStatus::Completed),
        };
        self.tell(last).await
    }

    fn log(&self, ending: &TurnOutcome) {
        let choice = &self.record.turn.tool_rules.choice;
        if choice.is_forced()
            && matches!(ending, TurnOutcome::EndToken(_))
            && self.answer.calls() == 0
        {
            let response = &self.record.id;
            tracing::warn!(%response, "forced tool call missing");
        }
        let Usage {
            input_tokens,
            cached_tokens,
            output_tokens,
            ..
        } = self.usage;
        tracing::info!(
            response = %self.record.id,
            model = self.record.model,
            outcome = ending.as_str(),
            input_tokens,
            cached_tokens,
            output_tokens,
            "turn ended"
        );
    }
}

fn outcome_of(finish: FinishReason) -> TurnOutcome {
    match finish {
        FinishReason::EosToken(token) => TurnOutcome::EndToken(token),
        FinishReason::MaxTokens => TurnOutcome::MaxTokens,
        FinishReason::ContextFull => TurnOutcome::ContextFull,
        FinishReason::Cancelled => TurnOutcome::Failed(Failure::ShuttingDown),
        FinishReason::QueueTimeout => TurnOutcome::Failed(Failure::QueueTimeout),
        FinishReason::Failed(reason) => {
            tracing::error!(reason, "the engine failed");
            TurnOutcome::Failed(Failure::Server)
        }
    }
}
