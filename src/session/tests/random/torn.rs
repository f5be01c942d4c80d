//! Tests that `verify` detects a batch that the storage tore.

use std::sync::Arc;

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{for_seeds, run::closed};
use crate::session::{
    Event, LogOptions, NewSession, SessionId, SessionLog,
    admin::verify::verify,
    format::{
        event::{ForkPoint, Tokens},
        record::load_totals,
    },
    log::{NewResponse, TurnEnd},
    store::{
        Direct, Storage,
        faulty::{Fault, FaultyStorage, Loss},
    },
};

/// Writes turns until a sync fails. Returns the number of commits.
fn write_a_few_turns(storage: &Arc<FaultyStorage>, seed: u64) -> u64 {
    let log = SessionLog::start(storage.clone(), LogOptions::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let mut rng = StdRng::seed_from_u64(seed);
    storage.fail_after(rng.random_range(3..8), Fault::CrashBeforeSync);
    let mut previous = None;
    runtime.block_on(async {
        loop {
            let id = SessionId(rng.random());
            let session = NewSession {
                id,
                owner: None,
                model: "model".into(),
                fork: previous.map(|parent| ForkPoint { parent, events: 3 }),
                continues: previous,
                created_at_ms: 1,
            };
            let mut turn = log.begin(session).await.unwrap();
            turn.append(&[Event::PromptAppended(Tokens { tokens: vec![1, 2] })])
                .await
                .unwrap();
            let response = NewResponse {
                body: "{}".into(),
                preamble_digest: [0; 32],
                forkable: true,
            };
            let ending = TurnEnd {
                generated: Vec::new(),
                closed: closed(1),
                response: Some(response),
            };
            if turn.end(ending).await.is_err() {
                break;
            }
            previous = Some(id);
        }
    });
    load_totals(&Direct(&**storage)).unwrap().commit
}

#[test]
fn a_torn_batch_is_detected() {
    for_seeds(40, |seed| {
        let storage = Arc::new(FaultyStorage::default());
        let whole = write_a_few_turns(&storage, seed);
        let torn = storage.restarted(Loss::Torn(seed));
        assert!(whole > 2);
        let report = verify(&Direct(&torn)).unwrap();
        let all_or_nothing = [Loss::Lost, Loss::Kept].into_iter().any(|loss| {
            let untorn = storage.restarted(loss);
            let same = |key| untorn.get(key).unwrap() == torn.get(key).unwrap();
            storage.unsynced_keys().iter().all(same)
        });
        assert!(all_or_nothing || !report.findings.is_empty(), "seed {seed}");
    });
}
