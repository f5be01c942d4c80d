//! `kill -9` of the program under sixteen writing clients.

use std::time::Duration;

use rand::RngExt;

use super::{
    heard::{Heard, Until},
    server::{self, Server},
    writers::Load,
};
use crate::durability::{rounds, seeded};

/// Rounds over one store: each of them checks all that was ever written.
const ROUNDS_PER_STORE: u64 = 10;

#[test]
fn what_clients_were_told_survives_kill_9() {
    let mut rng = seeded();
    let mut dir = tempfile::tempdir().unwrap();
    let mut heard = Heard::default();
    let mut told = 0;
    for round in 0..rounds(4) {
        if round % ROUNDS_PER_STORE == ROUNDS_PER_STORE - 1 {
            dir = tempfile::tempdir().unwrap();
            heard = Heard::default();
        }
        let what = format!("round {round}");
        let sessions = dir.path().join("sessions");
        let server = Server::start(server::scripted(&sessions));
        heard.assert_held(&server, true, &what);
        let load = Load {
            url: server.url.clone(),
            seed: rng.random(),
            scripted: true,
        };
        let before = heard.stored.len();
        let time = Duration::from_millis(rng.random_range(20..500));
        heard.write_and_kill(server, &load, Until::After(time));
        told += heard.stored.len() - before;
        server::verify(&sessions);
    }
    let server = Server::start(server::scripted(&dir.path().join("sessions")));
    heard.assert_held(&server, true, "the end");
    println!("{told} responses, none lost");
    assert!(told > 20, "only {told} responses were answered");
}

#[test]
fn what_clients_were_told_by_a_real_model_survives_kill_9() {
    let mut rng = seeded();
    let dir = tempfile::tempdir().unwrap();
    let mut heard = Heard::default();
    for round in 0..rounds(2).min(10) {
        let command = match server::real(dir.path()) {
            Ok(command) => command,
            Err(why) => return println!("skipped: {why}"),
        };
        let server = Server::start(command);
        heard.assert_held(&server, false, &format!("round {round}"));
        let load = Load {
            url: server.url.clone(),
            seed: rng.random(),
            scripted: false,
        };
        let count = heard.stored.len() + rng.random_range(1..24);
        heard.write_and_kill(server, &load, Until::Stored(count));
        server::verify(dir.path());
    }
    let server = Server::start(server::real(dir.path()).unwrap());
    heard.assert_held(&server, false, "the end");
    println!("{} responses, none lost", heard.stored.len());
    assert!(!heard.stored.is_empty());
}
