//! Files that are damaged, cut, moved or taken away: fewer tokens come back, never other ones.

use super::*;

/// Three turns of one line; the prompt that goes on from them.
fn written(folder: &Path) -> Vec<TokenId> {
    let shelf = Shelf::in_folder(folder);
    let first = tokens(1, 100);
    let second = after(&first, &tokens(2, 60));
    let third = after(&second, &tokens(3, 30));
    shelf.write(1, &first);
    shelf.write(2, &second);
    shelf.write(3, &third);
    shelf.settle();
    after(&third, &[1])
}

/// Restores the chain after `damage` was done to its second file, before the start and after it.
fn check(what: &str, expected: usize, damage: impl Fn(&Path)) {
    for before_start in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let prompt = written(folder.path());
        let second = file(folder.path(), 2);
        if before_start {
            damage(&second);
        }
        let shelf = Shelf::in_folder(folder.path());
        drop(shelf.all.handle.shared.scanned_state());
        if !before_start {
            damage(&second);
        }
        let thawed = shelf.thawed(&prompt, 0);
        assert!(thawed >= expected, "{what}: {thawed}");
        assert_ne!(thawed, 190, "{what}");
        assert!(shelf.all.stats().unusable >= 1 || thawed == 100, "{what}");
        // Then it is as if it had never been, and the next turn writes anew what is lacking.
        assert_eq!(shelf.thawed(&prompt, 0), 100, "{what}");
        assert_eq!(files(folder.path()), [name(1)], "{what}");
        shelf.write(3, &prompt[..190]);
        shelf.settle();
        assert_eq!(shelf.thawed(&prompt, 0), 190, "{what}");
    }
}

#[test]
fn no_byte_can_change_unseen() {
    let folder = tempfile::tempdir().unwrap();
    let prompt = written(folder.path());
    let path = file(folder.path(), 2);
    let whole = fs::read(&path).unwrap();
    let data = 60 * LAYOUT.bytes_per_token();
    let header = whole.len() - data - 8;
    let places = (0..header)
        .step_by(17)
        .chain((header..whole.len()).step_by(97));
    for place in places.chain([whole.len() - 1]) {
        let mut bytes = whole.clone();
        bytes[place] ^= 1 << (place % 8);
        fs::write(&path, &bytes).unwrap();
        let shelf = Shelf::in_folder(folder.path());
        assert_eq!(shelf.thawed(&prompt, 0), 100, "byte {place}");
        shelf.write(2, &prompt[..160]);
        shelf.write(3, &prompt[..190]);
        shelf.settle();
        assert_eq!(shelf.thawed(&prompt, 0), 190, "after byte {place}");
    }
}

#[test]
fn files_cut_at_any_length_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let prompt = written(folder.path());
    let path = file(folder.path(), 2);
    let whole = fs::read(&path).unwrap();
    for len in (0..whole.len()).step_by(61).chain([7, 8, whole.len() - 1]) {
        fs::write(&path, &whole[..len]).unwrap();
        let shelf = Shelf::in_folder(folder.path());
        assert_eq!(shelf.thawed(&prompt, 0), 100, "{len} bytes");
        assert_eq!(files(folder.path()), [name(1)], "{len} bytes");
        shelf.write(2, &prompt[..160]);
        shelf.write(3, &prompt[..190]);
        shelf.settle();
    }
}

#[test]
fn what_is_not_as_it_was_is_not_used() {
    check("removed", 100, |path| fs::remove_file(path).unwrap());
    check("empty", 100, |path| fs::write(path, "").unwrap());
    check("longer", 100, |path| {
        let mut bytes = fs::read(path).unwrap();
        bytes.push(0);
        fs::write(path, bytes).unwrap();
    });
    check("its sibling's", 100, |path| {
        let sibling = path.with_file_name(name(3));
        fs::copy(sibling, path).unwrap();
    });
    check("a header of 2^63 bytes", 100, |path| {
        let mut bytes = fs::read(path).unwrap();
        bytes[..8].copy_from_slice(&(1u64 << 63).to_le_bytes());
        fs::write(path, bytes).unwrap();
    });
    check("of another format version", 100, |path| {
        let mut bytes = fs::read(path).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let at = text.find("\"stemma_snapshot\":\"1\"").unwrap() + 19;
        bytes[at] = b'2';
        fs::write(path, bytes).unwrap();
    });
}

#[test]
fn the_folder_can_go_at_any_time() {
    let folder = tempfile::tempdir().unwrap();
    let prompt = written(folder.path());
    let shelf = Shelf::in_folder(folder.path());
    assert_eq!(shelf.thawed(&prompt, 0), 190);
    fs::remove_dir_all(folder.path().join("snapshots")).unwrap();
    shelf.write(5, &after(&prompt, &tokens(5, 40)));
    shelf.settle();
    // A file that builds on what has gone is not written.
    assert_eq!(shelf.thawed(&prompt, 0), 0);
    shelf.write(6, &after(&prompt, &tokens(6, 40)));
    shelf.settle();
    assert_eq!(files(folder.path()), [name(6)]);
    assert_eq!(shelf.thawed(&after(&prompt, &tokens(6, 41)), 0), 231);
}

#[test]
fn leftovers_go_and_strangers_stay() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path());
    let inside = folder.path().join("snapshots");
    fs::write(inside.join(format!("{}.partial", SnapshotId(9))), "half").unwrap();
    fs::write(inside.join("README"), "mine").unwrap();
    fs::write(inside.join("a.safetensors"), "mine").unwrap();
    fs::remove_file(file(folder.path(), 1)).unwrap();
    let found = inspect(&inside, true).unwrap();
    assert_eq!((found.whole, found.unusable.len()), (2, 1));
    let shelf = Shelf::in_folder(folder.path());
    drop(shelf.all.handle.shared.scanned_state());
    // Without the first the others hold tokens after which nothing can be read.
    assert_eq!(files(folder.path()), ["README", "a.safetensors"]);
}

#[test]
fn an_operator_sees_damage() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path());
    let inside = folder.path().join("snapshots");
    let path = file(folder.path(), 2);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() - 1000;
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert_eq!(inspect(&inside, false).unwrap().whole, 3);
    let deep = inspect(&inside, true).unwrap();
    assert_eq!((deep.whole, deep.unusable.len()), (2, 1));
    assert_eq!(deep.unusable[0].0, name(2));
    let none = inspect(&folder.path().join("nowhere"), true).unwrap();
    assert_eq!(none, Inspection::default());
}

#[cfg(unix)]
#[test]
fn what_cannot_be_written_is_only_missing() {
    let folder = tempfile::tempdir().unwrap();
    // A file where the folder should be: also root cannot write below it.
    fs::write(folder.path().join("snapshots"), "").unwrap();
    let shelf = Shelf::in_folder(folder.path());
    shelf.write(1, &tokens(1, 100));
    let stats = shelf.settle();
    assert_eq!(stats.skipped[SkipReason::Failed as usize], 1);
    drop(shelf);
    let full = Shelf::open(SnapshotOptions {
        free_bytes_min: u64::MAX / 2,
        folder: folder.path().join("other"),
        ..options(folder.path())
    });
    full.write(1, &tokens(1, 100));
    full.write(2, &tokens(2, 100));
    let stats = full.settle();
    // The free space is unknown until the directory exists.
    assert_eq!(stats.written + stats.skipped[SkipReason::Space as usize], 2);
    assert!(stats.skipped[SkipReason::Space as usize] >= 1);
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let other = folder.path().join("other");
    assert_eq!(mode(&other), 0o700);
    assert_eq!(mode(&other.join(name(1))), 0o600);
}
