//! Writes and syncs that fail at the n-th call, injected below sled.

use rand::RngExt;

use super::{
    child::{self, Role},
    preload, rounds, seeded,
};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Calls, errors, how often each fails, and whether the store may come back.
const FAULTS: [(&str, i32, u32, bool); 5] = [
    ("fdatasync", EIO, 1, false),
    ("fdatasync", EIO, u32::MAX, false),
    ("pwrite", EIO, 1, false),
    ("fdatasync", ENOSPC, 1, false),
    ("pwrite", ENOSPC, 1, true),
];

#[test]
fn nothing_is_acknowledged_that_a_failing_disk_did_not_take() {
    let tools = tempfile::tempdir().unwrap();
    let library = match preload::build(tools.path()) {
        Ok(library) => library,
        Err(why) => return println!("skipped: {why}"),
    };
    let mut rng = seeded();
    for round in 0..rounds(5) {
        let (call, errno, count, may_return) = FAULTS[round as usize % FAULTS.len()];
        let dir = tempfile::tempdir().unwrap();
        // Some calls belong to the making of the store: then it is refused, or made anew.
        let first = rng.random_range(10..45);
        let order = format!("{call}:{errno}:{first}:{count}");
        let mut command = child::command(Role::WriteSome, dir.path(), rng.random());
        command
            .env("LD_PRELOAD", &library)
            .env("STEMMA_FAIL", &order);
        let (orderly, said) = child::run(command);
        let what = format!("round {round}, {order}, {} stored", said.stored.len());
        assert!(orderly, "{what}: {:?}", said.lines);
        let refused = said.lines_with("refused");
        let unavailable = said.lines_with("unavailable");
        assert!(refused + unavailable > 0, "{what}: nothing failed");
        if may_return && refused == 0 {
            assert!(
                said.stored.len() + unavailable == 60 && unavailable < 30,
                "{what}"
            );
        }
        child::assert_holds(dir.path(), &said, &what);
    }
}
