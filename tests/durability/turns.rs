//! Turns with a content that follows from their id, so that any process can check them.

use std::{path::Path, time::Duration};

use rand::{RngExt, rngs::StdRng};

use stemma::session::{
    self, Access, Event, ForkPoint, LogError, LogOptions, NewSession, SessionId, SessionLog,
    SledOptions,
    admin::verify::verify,
    format::event::{InputAppended, Tokens, TurnClosed, TurnFinish, TurnStatus, Usage},
    log::{NewResponse, TurnEnd},
    store::Direct,
};

pub(super) fn open(dir: &Path) -> Result<SessionLog, LogError> {
    let options = LogOptions {
        full_disk_retry: Duration::from_millis(50),
        ..LogOptions::default()
    };
    session::open(
        dir,
        &SledOptions {
            cache_bytes: 16 << 20,
        },
        options,
    )
}

pub(super) fn any_id(rng: &mut StdRng) -> SessionId {
    SessionId(rng.random())
}

/// Returns the id of a turn whose body usually has several kilobytes.
pub(super) fn large_id(rng: &mut StdRng) -> SessionId {
    let mut id = any_id(rng);
    id.0[0] = 4 + id.0[0] % 60;
    id
}

/// Returns the body of a response: mostly short, sometimes of many parts.
pub(super) fn body(id: SessionId) -> String {
    let [first, second, ..] = id.0;
    let len = match first {
        0..=3 => 300_000,
        4..=40 => 4_000 + usize::from(second) * 20,
        _ => usize::from(second),
    };
    let text: String = id.to_string().chars().cycle().take(len).collect();
    format!("{{\"id\":\"{id}\",\"text\":\"{text}\"}}")
}

fn items(id: SessionId) -> Vec<String> {
    vec![format!("{{\"input\":\"{id}\"}}")]
}

fn tokens(id: SessionId) -> Vec<u32> {
    id.0.iter().map(|byte| u32::from(*byte)).collect()
}

/// Runs one turn. With `previous`, the turn forks and continues that response.
pub(super) async fn store(
    log: &SessionLog,
    id: SessionId,
    previous: Option<SessionId>,
) -> Result<(), LogError> {
    let fork = match previous {
        Some(parent) => {
            let events = log.response_record(&Access::All, parent)?.end_events;
            Some(ForkPoint { parent, events })
        }
        None => None,
    };
    let opening = NewSession {
        id,
        owner: None,
        model: "model".into(),
        fork,
        continues: previous,
        created_at_ms: 1,
    };
    let mut turn = log.begin(opening).await?;
    turn.append(&[
        Event::InputAppended(InputAppended {
            items: items(id),
            head: "{}".into(),
        }),
        Event::PromptAppended(Tokens { tokens: tokens(id) }),
    ])
    .await?;
    let closed = TurnClosed {
        status: TurnStatus::Completed,
        finish: TurnFinish::EndToken(2),
        usage: Usage::default(),
        seed: 0,
        closed_at_ms: 2,
    };
    let response = NewResponse {
        body: body(id),
        preamble_digest: [0; 32],
        forkable: true,
    };
    turn.end(TurnEnd {
        generated: tokens(id),
        closed,
        response: Some(response),
    })
    .await
}

/// Checks a response that must exist.
pub(super) fn check(log: &SessionLog, id: SessionId) -> Result<(), String> {
    let all = Access::All;
    let stored = log
        .response(&all, id)
        .map_err(|error| format!("{id}: {error}"))?;
    if stored.body != body(id) {
        return Err(format!("{id} has another body"));
    }
    let input = log
        .input_items(&all, id)
        .map_err(|error| format!("{id}: {error}"))?;
    if input != items(id) {
        return Err(format!("{id} has other input"));
    }
    let continuation = log
        .continuation(&all, id)
        .map_err(|error| format!("{id}: {error}"))?;
    let expected = [tokens(id), tokens(id)].concat();
    if !continuation.tokens.ends_with(&expected) {
        return Err(format!("{id} has other tokens"));
    }
    let history = log.history(id).map_err(|error| format!("{id}: {error}"))?;
    match history.iter().find(|turn| turn.body != body(turn.id)) {
        Some(turn) => Err(format!(
            "{} in the history of {id} has another body",
            turn.id
        )),
        None => Ok(()),
    }
}

/// Returns the findings of `verify` on a closed store.
pub(super) fn findings(dir: &Path) -> Result<Vec<String>, LogError> {
    let options = SledOptions {
        cache_bytes: 16 << 20,
    };
    let storage = session::SledStorage::open(dir, &options)?;
    let findings = verify(&Direct(&storage))?.findings;
    session::store::Storage::close(&storage)?;
    Ok(findings)
}
