//! `kill -9` of the server with 16 writing clients.

use std::time::Duration;

use rand::RngExt;

use super::{
    acknowledged::{Acknowledged, Until},
    server::{self, Server},
    writers::Load,
};
use crate::durability::{rounds, seeded};

/// Rounds per store. Each round checks all earlier writes.
const ROUNDS_PER_STORE: u64 = 10;

#[test]
fn acknowledged_responses_survive_kill_9() {
    let mut rng = seeded();
    let mut dir = tempfile::tempdir().unwrap();
    let mut acknowledged = Acknowledged::default();
    let mut count = 0;
    for round in 0..rounds(4) {
        if round % ROUNDS_PER_STORE == ROUNDS_PER_STORE - 1 {
            dir = tempfile::tempdir().unwrap();
            acknowledged = Acknowledged::default();
        }
        let what = format!("round {round}");
        let sessions = dir.path().join("sessions");
        let server = Server::start(server::scripted(&sessions));
        acknowledged.assert_contains_all(&server, true, &what);
        let load = Load {
            url: server.url.clone(),
            seed: rng.random(),
            scripted: true,
        };
        let before = acknowledged.stored.len();
        let time = Duration::from_millis(rng.random_range(20..500));
        acknowledged.write_and_kill(server, &load, Until::After(time));
        count += acknowledged.stored.len() - before;
        server::verify(&sessions);
    }
    let server = Server::start(server::scripted(&dir.path().join("sessions")));
    acknowledged.assert_contains_all(&server, true, "the end");
    println!("{count} responses, none lost");
    assert!(count > 20, "only {count} responses were answered");
}

#[test]
fn responses_of_a_real_model_survive_kill_9() {
    let mut rng = seeded();
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = Acknowledged::default();
    for round in 0..rounds(2).min(10) {
        let command = match server::real(dir.path()) {
            Ok(command) => command,
            Err(why) => return println!("skipped: {why}"),
        };
        let server = Server::start(command);
        acknowledged.assert_contains_all(&server, false, &format!("round {round}"));
        let load = Load {
            url: server.url.clone(),
            seed: rng.random(),
            scripted: false,
        };
        let count = acknowledged.stored.len() + rng.random_range(1..24);
        acknowledged.write_and_kill(server, &load, Until::Stored(count));
        server::verify(dir.path());
    }
    let server = Server::start(server::real(dir.path()).unwrap());
    acknowledged.assert_contains_all(&server, false, "the end");
    println!("{} responses, none lost", acknowledged.stored.len());
    assert!(!acknowledged.stored.is_empty());
}
