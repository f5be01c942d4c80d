//! Turns as the server writes them: an input, a prompt, an output, and the response's JSON object.

use anyhow::{Context, Result};
use stemma::session::{
    Event, ForkPoint, LogError, NewSession, SessionId, SessionLog,
    format::event::{InputAppended, Tokens, TurnClosed, TurnFinish, TurnStatus, Usage},
    log::{NewResponse, TurnEnd},
};

use super::load::Client;

/// Turns of a conversation; each but the first continues the one before.
pub(crate) const CHAIN_TURNS: u64 = 8;
/// New tokens of a turn's prompt, and tokens of its output.
const PROMPT_TOKENS: u32 = 120;
const OUTPUT_TOKENS: u32 = 100;
/// Lengths of the JSON texts that a turn stores, in bytes.
const INPUT_LEN_BYTES: usize = 400;
const PREAMBLE_LEN_BYTES: usize = 120;
const BODY_LEN_BYTES: usize = 1_600;
/// Events of a turn: opened, input, prompt, generated, closed.
const EVENTS: u64 = 5;

/// A client that runs one conversation after the other.
pub(crate) struct Chain {
    log: SessionLog,
    last: Option<SessionId>,
    turns: u64,
}

impl Chain {
    pub(crate) fn on(log: &SessionLog) -> Self {
        Self {
            log: log.clone(),
            last: None,
            turns: 0,
        }
    }
}

impl Client for Chain {
    async fn write(&mut self, id: SessionId) -> Result<()> {
        let previous = self
            .last
            .filter(|_| !self.turns.is_multiple_of(CHAIN_TURNS));
        self.turns += 1;
        self.last = Some(id);
        store(&self.log, id, previous)
            .await
            .context("storing a turn")
    }
}

fn json(id: SessionId, len_bytes: usize) -> String {
    let filler = "It was the best of times, it was the worst of times, ".repeat(len_bytes / 53);
    format!("{{\"id\":\"{id}\",\"text\":\"{filler}\"}}")
}

/// Writes one turn as the server does. Returns once the turn is durable.
pub(crate) async fn store(
    log: &SessionLog,
    id: SessionId,
    previous: Option<SessionId>,
) -> Result<(), LogError> {
    let session = NewSession {
        id,
        owner: None,
        model: "smollm2-135m-instruct-q8_0".into(),
        fork: previous.map(|parent| ForkPoint {
            parent,
            events: EVENTS,
        }),
        continues: previous,
        created_at_ms: 1_760_000_000_000,
    };
    let mut turn = log.begin(session).await?;
    let input = Event::InputAppended(InputAppended {
        items: vec![json(id, INPUT_LEN_BYTES)],
        head: json(id, PREAMBLE_LEN_BYTES),
    });
    let prompt = Event::PromptAppended(Tokens {
        tokens: (0..PROMPT_TOKENS).collect(),
    });
    turn.append(&[input, prompt]).await?;
    if previous.is_some() {
        turn.registered().await?;
    }
    let closed = TurnClosed {
        status: TurnStatus::Completed,
        finish: TurnFinish::EndToken(2),
        usage: Usage::default(),
        seed: 7,
        closed_at_ms: 1_760_000_000_900,
    };
    let response = NewResponse {
        body: json(id, BODY_LEN_BYTES),
        preamble_digest: [7; 32],
        forkable: true,
    };
    turn.end(TurnEnd {
        generated: (0..OUTPUT_TOKENS).collect(),
        closed,
        response: Some(response),
    })
    .await
}
