//! `stemma keys`, and flags of `stemma serve` that do not go together.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use stemma::auth::{self, Secret};

fn stemma(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stemma"));
    command.args(arguments);
    command
}

fn output(arguments: &[&str]) -> Output {
    stemma(arguments).output().expect("a program that runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn new_key(sessions: &Path, more: &[&str]) -> Output {
    let sessions = sessions.to_str().expect("a path");
    output(&[&["keys", "new", "--sessions", sessions][..], more].concat())
}

#[test]
fn a_new_key_goes_into_a_policy_as_it_is_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = new_key(
        folder.path(),
        &["--id", "ci", "--name", "The \"CI\"", "--admin"],
    );
    assert!(made.status.success(), "{made:?}");
    let printed = text(&made.stdout);
    let policy = auth::parse(&printed).expect("a policy");
    let key = policy.keys.values().next().expect("a key");
    assert_eq!((key.name.as_str(), key.is_admin), ("The \"CI\"", true));
    let secret = printed
        .split_whitespace()
        .find(|word| word.starts_with("sk-stemma-ci-"));
    let secret = Secret::new(secret.expect("a secret").to_owned());
    assert_eq!(secret.key_id().as_ref(), Some(&key.id));

    let file = folder.path().join("policy.toml");
    fs::write(&file, &printed).expect("written");
    let file = file.to_str().expect("a path");
    assert!(output(&["keys", "check", file]).status.success());
    fs::write(file, printed.replace("admin", "admim")).expect("written");
    let refused = output(&["keys", "check", file]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("unknown field `admim`"),
        "{refused:?}"
    );
}

#[test]
fn a_known_id_is_not_given_away() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("key-ids"), "ci\n").expect("written");
    let refused = new_key(folder.path(), &["--id", "ci"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("--rotate"), "{refused:?}");
    assert!(refused.stdout.is_empty());
    assert!(
        new_key(folder.path(), &["--id", "ci", "--rotate"])
            .status
            .success()
    );
    assert!(new_key(folder.path(), &["--id", "cj"]).status.success());
    assert_eq!(
        new_key(folder.path(), &["--id", "C-I"]).status.code(),
        Some(2)
    );
}

#[test]
fn a_secret_of_ones_own_is_hashed() {
    let hash = |id: &str, secret: &str| {
        let mut child = stemma(&["keys", "hash", "--id", id])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a program that runs");
        let mut stdin = child.stdin.take().expect("an input");
        stdin.write_all(secret.as_bytes()).expect("written");
        drop(stdin);
        child.wait_with_output().expect("an end")
    };
    let hashed = hash("ci", "sk-stemma-ci-abc123\n");
    assert!(
        text(&hashed.stdout).starts_with("$argon2id$v=19$"),
        "{hashed:?}"
    );
    let refused = hash("cj", "sk-stemma-ci-abc123\n");
    assert_eq!(refused.status.code(), Some(1));
    assert!(!text(&refused.stderr).contains("abc123"));
}

#[test]
fn serving_refuses_flags_that_contradict_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let bad = folder.path().join("policy.toml");
    fs::write(&bad, "[[key]]\nid = \"ci\"\n").expect("written");
    let bad = bad.to_str().expect("a path");
    for (flags, code, expected) in [
        (
            &["--api-key", "a", "--key-policy", bad][..],
            2,
            "cannot be used with",
        ),
        (
            &["--share-owned", "--key-policy", bad],
            2,
            "cannot be used with",
        ),
        (&["--tls-cert", bad], 2, "--tls-key"),
        (&["--key-policy", bad], 1, "line 1: missing field `name`"),
        (&["--key-policy", "/none"], 1, "cannot read /none"),
        (&["--api-key", ""], 1, "--api-key is empty"),
        (&["--host", "0.0.0.0"], 1, "nobody needs a key"),
    ] {
        let sessions = folder.path().join("sessions");
        let mut command = stemma(&["serve", "--model", "none", "--sessions"]);
        let refused = command.arg(&sessions).args(flags).output();
        let refused = refused.expect("a program that runs");
        let stderr = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(code), "{flags:?}: {stderr}");
        assert!(stderr.contains(expected), "{flags:?}: {stderr}");
        assert!(!sessions.exists(), "{flags:?}");
    }
}
