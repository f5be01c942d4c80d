//! Lines of turns: what is written for each, what is kept, what goes.

use super::*;

#[test]
fn a_line_of_turns_comes_back_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let first = tokens(1, 100);
    let second = after(&first, &tokens(2, 50));
    let fork = after(&first, &tokens(3, 40));
    let whole = {
        let shelf = Shelf::in_folder(folder.path());
        shelf.write(1, &first);
        shelf.write(2, &second);
        shelf.write(3, &fork);
        shelf.settle()
    };
    assert_eq!((whole.files, whole.written, whole.reads), (3, 3, 0));
    let shelf = Shelf::in_folder(folder.path());
    for (prompt, expected) in [
        (after(&first, &[7]), 100),
        (after(&second, &[7]), 150),
        (after(&fork, &[7]), 140),
        // The model must run the last token.
        (second.clone(), 100),
        (after(&second[..149], &[7]), 100),
        (after(&first[..99], &[7]), 0),
        (vec![7], 0),
    ] {
        assert_eq!(shelf.thawed(&prompt, 0), expected);
    }
    assert_eq!(shelf.thawed(&after(&second, &[7]), 33), 150);
    assert_eq!(shelf.thawed(&after(&second, &[7]), 120), 150);
    let stats = shelf.all.stats();
    assert_eq!((stats.files, stats.bytes), (whole.files, whole.bytes));
    assert_eq!(stats.read_tokens, 100 + 150 + 140 + 100 + 100 + 117 + 30);
}

#[test]
fn a_turn_writes_only_what_its_parent_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = Shelf::in_folder(folder.path());
    let first = tokens(1, 400);
    shelf.write(1, &first);
    shelf.write(2, &after(&first, &tokens(2, 20)));
    // Too little to be worth a file, and nothing at all.
    shelf.write(3, &after(&first, &tokens(3, 15)));
    shelf.write(4, &first);
    shelf.settle();
    assert_eq!(files(folder.path()), [name(1), name(2)]);
    let width = LAYOUT.bytes_per_token() as u64;
    let size = |id| fs::metadata(file(folder.path(), id)).unwrap().len();
    assert!(
        (400 * width..400 * width + 2000).contains(&size(1)),
        "{}",
        size(1)
    );
    assert!(
        (20 * width..20 * width + 2000).contains(&size(2)),
        "{}",
        size(2)
    );
    assert_eq!(shelf.all.stats().bytes, size(1) + size(2));
}

#[test]
fn pieces_are_bounded_and_join() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = Shelf::in_folder(folder.path());
    let width = LAYOUT.bytes_per_token();
    let count = 2 * limits::SNAPSHOT_PIECE_BYTES / width + 1234;
    let long: Vec<TokenId> = (0..count as TokenId).collect();
    shelf.write(1, &long);
    shelf.settle();
    let prompt = after(&long, &[1]);
    for known in [0, 1, count / 2, count - 20] {
        assert_eq!(shelf.thawed(&prompt, known), count);
    }
    let restore = shelf.model.find(SCOPE, &prompt).unwrap();
    let pieces = restore.start(&prompt, 0, || {}).unwrap();
    let sizes: Vec<usize> = pieces.iter().map(|piece| piece.bytes.len()).collect();
    assert_eq!(sizes.len(), 3);
    assert!(
        sizes
            .iter()
            .all(|&size| size <= limits::SNAPSHOT_PIECE_BYTES)
    );
    // A file is what any reader of the format takes.
    let bytes = fs::read(file(folder.path(), 1)).unwrap();
    let parsed = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let shape = [
        sizes[0] / width,
        LAYOUT.layers,
        2,
        LAYOUT.heads,
        LAYOUT.head_dim,
    ];
    assert_eq!(parsed.tensor("kv.0").unwrap().shape(), shape);
    assert_eq!(
        parsed.tensor("kv.0").unwrap().data(),
        &made(&long)[..sizes[0]]
    );
}

#[test]
fn models_and_scopes_see_only_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = Shelf::in_folder(folder.path());
    let said = tokens(1, 50);
    shelf.write(1, &said);
    shelf.settle();
    let prompt = after(&said, &[1]);
    assert!(shelf.model.find(SCOPE, &prompt).is_some());
    assert!(shelf.model.find(CacheScope(6), &prompt).is_none());
    let others = [
        shelf.all.of_model(&[2; 32], &format()),
        shelf.all.of_model(
            &[1; 32],
            &KvFormat {
                compute_id: "another build".to_owned(),
                ..format()
            },
        ),
        shelf.all.of_model(
            &[1; 32],
            &KvFormat {
                layout: KvLayout {
                    element: KvElementType::Bf16,
                    ..LAYOUT
                },
                ..format()
            },
        ),
    ];
    for other in others {
        assert!(other.find(SCOPE, &prompt).is_none());
    }
}

#[test]
fn a_deleted_parent_stays_for_its_children_only() {
    let folder = tempfile::tempdir().unwrap();
    let first = tokens(1, 100);
    let second = after(&first, &tokens(2, 50));
    let third = after(&second, &tokens(3, 50));
    {
        let shelf = Shelf::in_folder(folder.path());
        shelf.write(1, &first);
        shelf.write(2, &second);
        shelf.write(3, &third);
        shelf.settle();
        shelf.all.forget(SnapshotId(2));
        shelf.all.forget(SnapshotId(9));
        assert_eq!(files(folder.path()), [name(1), trunk(2), name(3)]);
        assert_eq!(shelf.thawed(&after(&third, &[1]), 0), 200);
        assert_eq!(shelf.thawed(&after(&second, &[1]), 0), 100, "it is deleted");
    }
    let shelf = Shelf::in_folder(folder.path());
    assert_eq!(shelf.thawed(&after(&third, &[1]), 0), 200);
    shelf.all.forget(SnapshotId(1));
    assert_eq!(files(folder.path()), [trunk(1), trunk(2), name(3)]);
    shelf.all.forget(SnapshotId(3));
    assert_eq!(files(folder.path()), [""; 0]);
    assert_eq!(shelf.all.stats().files, 0);
    assert_eq!(shelf.all.stats().bytes, 0);
}

#[test]
fn what_is_deleted_before_it_is_written_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = Shelf::in_folder(folder.path());
    let said = tokens(1, 100);
    let announced = shelf
        .model
        .announce(SnapshotId(1), SCOPE, Retention::WithResponse);
    shelf.all.forget(SnapshotId(1));
    let order = announced.request(said.clone()).unwrap();
    order.submit(Box::new(Made(made(&said))), said.len());
    shelf.settle();
    assert_eq!(files(folder.path()), [""; 0]);
}

#[test]
fn the_least_recently_used_go_first_and_last_turns_before_first_ones() {
    let folder = tempfile::tempdir().unwrap();
    let width = LAYOUT.bytes_per_token() as u64;
    let lines: Vec<Vec<TokenId>> = (1..4).map(|seed| tokens(seed, 200)).collect();
    {
        let shelf = Shelf::in_folder(folder.path());
        for (id, line) in (1..).zip(&lines) {
            shelf.write(id, line);
            shelf.write(10 + id, &after(line, &tokens(50, 100)));
            shelf.settle();
            std::thread::sleep(Duration::from_millis(5));
        }
        // The first line is used again.
        let first = after(&lines[0], &tokens(50, 100));
        assert_eq!(shelf.thawed(&after(&first, &[1]), 0), 300);
    }
    let shelf = Shelf::open(SnapshotOptions {
        bytes_max: 3 * (300 * width + 4000),
        ..options(folder.path())
    });
    shelf.write(4, &tokens(7, 150));
    shelf.settle();
    let left = [name(1), name(2), name(3), name(4), name(0xb), name(0xd)];
    assert_eq!(
        files(folder.path()),
        left,
        "the end of the second line went"
    );
    // A snapshot that does not fit at all evicts nothing.
    shelf.write(5, &tokens(8, 2000));
    let stats = shelf.settle();
    assert_eq!(files(folder.path()), left);
    assert_eq!(stats.skipped[SkipReason::Size as usize], 1);
    assert_eq!(stats.evicted, 1);
}

#[test]
fn time_and_the_log_decide_what_stays() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = Shelf::open(SnapshotOptions {
        age_ms_max: Some(60_000),
        ..options(folder.path())
    });
    shelf.write(1, &tokens(1, 50));
    shelf.write(2, &tokens(2, 50));
    shelf.keep(3, &tokens(3, 50), Retention::UntilMs(1));
    shelf.keep(4, &tokens(4, 50), Retention::UntilMs(i64::MAX));
    shelf.settle();
    shelf.all.sweep(|id| id == SnapshotId(2));
    assert_eq!(files(folder.path()), [name(2), name(4)]);
    drop(shelf);
    let old = fs::File::options().write(true).open(file(folder.path(), 2));
    dir::touch(&old.unwrap(), 1000).unwrap();
    let shelf = Shelf::open(SnapshotOptions {
        age_ms_max: Some(60_000),
        ..options(folder.path())
    });
    shelf.all.sweep(|_| true);
    assert_eq!(files(folder.path()), [name(4)]);
    assert_eq!(shelf.all.stats().evicted, 1);
}

#[test]
fn more_than_may_wait_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = Shelf::in_folder(folder.path());
    struct Slow(std::sync::mpsc::Receiver<()>);
    impl KvExport for Slow {
        fn write(&self, tokens: std::ops::Range<usize>, out: &mut Vec<u8>) {
            let _ = self.0.recv();
            out.resize(tokens.len() * LAYOUT.bytes_per_token(), 0);
        }
    }
    let (release, wait) = std::sync::mpsc::sync_channel(1);
    let order = |id: u128| {
        let announced = shelf
            .model
            .announce(SnapshotId(id), SCOPE, Retention::WithResponse);
        announced.request(tokens(id as u32, 20)).unwrap()
    };
    order(1).submit(Box::new(Slow(wait)), 20);
    let all = limits::SNAPSHOT_QUEUE_LEN_MAX as u128 + 10;
    for id in 2..all {
        order(id).submit(Box::new(Made(made(&tokens(id as u32, 20)))), 20);
    }
    release.send(()).unwrap();
    let stats = shelf.settle();
    let dropped = stats.skipped[SkipReason::Queue as usize];
    assert!((8..=9).contains(&dropped), "{dropped}");
    assert_eq!(stats.written + dropped, all as u64 - 1);
}

#[test]
fn closing_writes_what_waits() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = Shelf::in_folder(folder.path());
    for id in 1..20 {
        shelf.write(id, &tokens(id as u32, 300));
    }
    shelf.all.close();
    assert_eq!(files(folder.path()).len(), 19);
    shelf.write(50, &tokens(50, 300));
    assert_eq!(shelf.all.stats().skipped[SkipReason::Queue as usize], 1);
}

#[test]
fn reading_must_be_faster_than_computing() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = Shelf::in_folder(folder.path());
    let width = LAYOUT.bytes_per_token();
    let said: Vec<TokenId> = (0..(4 << 20) / width as TokenId).collect();
    shelf.write(1, &said);
    shelf.settle();
    let prompt = after(&said, &[1]);
    let pays = |known, compute| {
        let restore = shelf.model.find(SCOPE, &prompt).unwrap();
        restore.pays(known, compute)
    };
    let slow = Some(Duration::from_millis(1));
    let fast = Some(Duration::from_nanos(1));
    // Before anything was read, only files cost time.
    assert!(pays(0, None) && pays(0, slow) && !pays(0, fast));
    // What is there already need not be read, and a little more is not worth it.
    assert!(!pays(said.len(), None) && !pays(said.len() - 15, None));
    assert!(pays(said.len() - 16, None));
    // A slow disk: 4 MiB in 40 s.
    let counters = &shelf.all.handle.shared.counters;
    counters.read(1, 4 << 20, Duration::from_secs(40));
    let each = |seconds: f64| Some(Duration::from_secs_f64(seconds / said.len() as f64));
    assert!(!pays(0, each(30.0)) && pays(0, each(50.0)));
    // The estimate follows a disk that becomes faster.
    for _ in 0..40 {
        counters.read(1, 4 << 20, Duration::from_millis(1));
    }
    assert!(pays(0, each(1.0)));
}
