//! Failing writes and syncs: the n-th call below sled fails.

use rand::RngExt;

use super::{
    child::{self, Role},
    preload, rounds, seeded,
};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// The call, its errno, the number of failures, and true if the store may recover.
const FAULTS: [(&str, i32, u32, bool); 5] = [
    ("fdatasync", EIO, 1, false),
    ("fdatasync", EIO, u32::MAX, false),
    ("pwrite", EIO, 1, false),
    ("fdatasync", ENOSPC, 1, false),
    ("pwrite", ENOSPC, 1, true),
];

#[test]
fn nothing_is_acknowledged_that_a_failing_disk_did_not_store() {
    let tools = tempfile::tempdir().unwrap();
    let library = match preload::build(tools.path()) {
        Ok(library) => library,
        Err(why) => return println!("skipped: {why}"),
    };
    let mut rng = seeded();
    for round in 0..rounds(5) {
        let (call, errno, count, may_return) = FAULTS[round as usize % FAULTS.len()];
        let dir = tempfile::tempdir().unwrap();
        // Some calls belong to the creation of the store. The store is then refused, or created
        // again.
        let first = rng.random_range(10..45);
        let order = format!("{call}:{errno}:{first}:{count}");
        let mut command = child::command(Role::WriteSome, dir.path(), rng.random());
        command
            .env("LD_PRELOAD", &library)
            .env("STEMMA_FAIL", &order);
        let (exited, output) = child::run(command);
        let what = format!("round {round}, {order}, {} stored", output.stored.len());
        assert!(exited, "{what}: {:?}", output.lines);
        let refused = output.lines_with("refused");
        let unavailable = output.lines_with("unavailable");
        assert!(refused + unavailable > 0, "{what}: nothing failed");
        if may_return && refused == 0 {
            assert!(
                output.stored.len() + unavailable == 60 && unavailable < 30,
                "{what}"
            );
        }
        child::assert_contains_all(dir.path(), &output, &what);
    }
}
