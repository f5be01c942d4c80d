//! `kill -9` of a process with 16 writers.

use std::{thread, time::Duration};

use rand::RngExt;

use super::{
    child::{self, Output, Role, Writer},
    rounds, seeded,
};

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let mut rng = seeded();
    let mut dir = tempfile::tempdir().unwrap();
    let mut all = Output::default();
    let mut acknowledged = 0;
    for round in 0..rounds(6) {
        if round % 10 == 9 {
            // Every round checks all earlier writes, so a new store responses_max rounds short.
            dir = tempfile::tempdir().unwrap();
            all = Output::default();
        }
        let command = child::command(Role::WriteUntilKilled, dir.path(), rng.random());
        let writer = Writer::start(command);
        thread::sleep(Duration::from_millis(rng.random_range(5..300)));
        let output = writer.kill();
        acknowledged += output.stored.len();
        all.stored.extend(&output.stored);
        all.deleted.extend(&output.deleted);
        all.deleting.extend(&output.deleting);
        child::assert_contains_all(dir.path(), &all, &format!("round {round}"));
    }
    println!("{acknowledged} turns acknowledged");
    assert!(acknowledged > 20, "only {acknowledged} turns were written");
}

#[test]
fn a_second_process_is_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(child::command(Role::WriteUntilKilled, dir.path(), 1));
    let (exited, output) = child::run(child::command(Role::OpenAndCheck, dir.path(), 1));
    assert!(exited);
    assert!(
        output.lines[0].starts_with("refused another process is using"),
        "{:?}",
        output.lines
    );
    let output = writer.kill();
    child::assert_contains_all(dir.path(), &output, "the first process");
}
