//! `kill -9` under sixteen writers.

use std::{thread, time::Duration};

use rand::RngExt;

use super::{
    child::{self, Role, Said, Writer},
    rounds, seeded,
};

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let mut rng = seeded();
    let mut dir = tempfile::tempdir().unwrap();
    let mut all = Said::default();
    let mut acknowledged = 0;
    for round in 0..rounds(6) {
        if round % 10 == 9 {
            // Every round checks all that was ever written: begin anew before that takes long.
            dir = tempfile::tempdir().unwrap();
            all = Said::default();
        }
        let command = child::command(Role::WriteForEver, dir.path(), rng.random());
        let writer = Writer::start(command);
        thread::sleep(Duration::from_millis(rng.random_range(5..300)));
        let said = writer.kill();
        acknowledged += said.stored.len();
        all.stored.extend(&said.stored);
        all.deleted.extend(&said.deleted);
        all.deleting.extend(&said.deleting);
        child::assert_holds(dir.path(), &all, &format!("round {round}"));
    }
    println!("{acknowledged} turns acknowledged");
    assert!(acknowledged > 20, "only {acknowledged} turns were written");
}

#[test]
fn a_second_process_is_refused_with_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(child::command(Role::WriteForEver, dir.path(), 1));
    let (orderly, said) = child::run(child::command(Role::OpenAndCheck, dir.path(), 1));
    assert!(orderly);
    assert!(
        said.lines[0].starts_with("refused another process is using"),
        "{:?}",
        said.lines
    );
    let said = writer.kill();
    child::assert_holds(dir.path(), &said, "the first process");
}
