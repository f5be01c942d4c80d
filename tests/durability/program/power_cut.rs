//! Power cuts under the server, on a loop-mounted image.

use std::time::Duration;

use rand::RngExt;

use super::{
    acknowledged::{Acknowledged, Until},
    server::{self, Server},
    writers::Load,
};
use crate::durability::{power_cut::Disk, rounds, seeded};

#[test]
fn acknowledged_responses_survive_a_power_cut() {
    let mut rng = seeded();
    let mut count = 0;
    for round in 0..rounds(6) {
        let dir = tempfile::tempdir().unwrap();
        let made = Disk::make(dir.path().join("image"), dir.path().join("before"));
        let disk = match made {
            Ok(disk) => disk,
            Err(why) => return println!("skipped: it needs root and loop devices: {why}"),
        };
        let server = Server::start(server::scripted(&disk.at.join("sessions")));
        let load = Load {
            url: server.url.clone(),
            seed: rng.random(),
            scripted: true,
        };
        let mut acknowledged = Acknowledged::default();
        let time = Duration::from_millis(rng.random_range(30..900));
        acknowledged.write_and_kill(server, &load, Until::After(time));
        let after = disk.cut(dir.path().join("copy"), dir.path().join("after"));
        let disk = after.unwrap();
        let sessions = disk.at.join("sessions");
        let server = Server::start(server::scripted(&sessions));
        acknowledged.assert_contains_all(&server, true, &format!("round {round}"));
        server.kill();
        server::verify(&sessions);
        count += acknowledged.stored.len();
    }
    println!("{count} responses, none lost");
}
