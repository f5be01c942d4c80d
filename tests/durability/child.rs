//! The processes that these tests kill: the test program itself, asked by its environment to act.

use std::{
    collections::BTreeSet,
    env,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    thread::{self, JoinHandle},
    time::Duration,
};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use stemma::session::{Access, LogError, SessionId, SessionLog};

use super::turns;

const ROLE: &str = "STEMMA_CHILD_ROLE";
const DIR: &str = "STEMMA_CHILD_DIR";
const SEED: &str = "STEMMA_CHILD_SEED";

/// What a child does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// 16 clients write until the process is killed.
    WriteForEver,
    /// 200 clients do, and much each time, so that commits are large.
    WriteMuch,
    /// One client writes some turns and tells what became of each, then the process ends at once.
    WriteSome,
    /// Opens the store, checks all of it, writes a turn, closes, and does it again.
    OpenAndCheck,
}

impl Role {
    const ALL: [(&'static str, Self); 4] = [
        ("write-for-ever", Self::WriteForEver),
        ("write-much", Self::WriteMuch),
        ("write-some", Self::WriteSome),
        ("open-and-check", Self::OpenAndCheck),
    ];

    fn name(self) -> &'static str {
        Self::ALL
            .into_iter()
            .find(|(_, role)| *role == self)
            .map_or("", |(name, _)| name)
    }
}

/// A command that runs a child; more may be added to its environment.
pub(super) fn command(role: Role, dir: &Path, seed: u64) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["durability::child::acts_if_asked", "--exact", "--nocapture"])
        .env(ROLE, role.name())
        .env(DIR, dir)
        .env(SEED, seed.to_string())
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

/// Not a test of its own: what a child process runs.
#[test]
fn acts_if_asked() {
    let Ok(asked) = env::var(ROLE) else { return };
    let dir = PathBuf::from(env::var(DIR).unwrap());
    let seed = env::var(SEED).unwrap().parse().unwrap();
    let role = Role::ALL
        .into_iter()
        .find(|(name, _)| *name == asked)
        .unwrap()
        .1;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    match role {
        Role::WriteForEver => runtime.block_on(write_for_ever(&dir, seed, 16, turns::any_id)),
        Role::WriteMuch => runtime.block_on(write_for_ever(&dir, seed, 200, turns::large_id)),
        Role::WriteSome => runtime.block_on(write_some(&dir, seed)),
        Role::OpenAndCheck => runtime.block_on(open_and_check(&dir)),
    }
    std::process::exit(0);
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n: {line}").unwrap();
    out.flush().unwrap();
}

/// How ids are made up; what a turn has depends on its id.
type MakeId = fn(&mut StdRng) -> SessionId;

async fn write_for_ever(dir: &Path, seed: u64, clients: u64, make_id: MakeId) {
    let log = turns::open(dir).unwrap();
    say("ready");
    let clients = (0..clients).map(|n| {
        let (log, rng) = (log.clone(), StdRng::seed_from_u64(seed ^ (n << 56)));
        tokio::spawn(one_client(log, rng, make_id))
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
}

async fn one_client(log: SessionLog, mut rng: StdRng, make_id: MakeId) {
    let mut mine = Vec::new();
    // Some keep little, so that space is used again.
    let keeps = if rng.random() { 3 } else { usize::MAX };
    loop {
        let id = make_id(&mut rng);
        let previous = mine.last().copied().filter(|_| rng.random_ratio(2, 3));
        turns::store(&log, id, previous).await.unwrap();
        say(&format!("stored {id}"));
        mine.push(id);
        if mine.len() > keeps || rng.random_ratio(1, 6) {
            let id = mine.swap_remove(rng.random_range(0..mine.len()));
            say(&format!("deleting {id}"));
            log.delete(Access::All, id).await.unwrap();
            say(&format!("deleted {id}"));
        }
    }
}

/// Writes until 60 turns were tried; waits a little where the store is unavailable.
async fn write_some(dir: &Path, seed: u64) {
    let log = match turns::open(dir) {
        Ok(log) => log,
        Err(error) => return say(&format!("refused {error}")),
    };
    let mut rng = StdRng::seed_from_u64(seed);
    let mut stored = BTreeSet::new();
    for _ in 0..60 {
        let id = SessionId(rng.random());
        match turns::store(&log, id, None).await {
            Ok(()) => {
                stored.insert(id);
                say(&format!("stored {id}"));
            }
            Err(LogError::Unavailable(why)) => {
                say(&format!("unavailable {why}"));
                assert_eq!(log.response(&Access::All, id), Err(LogError::NotFound));
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(error) => panic!("{error}"),
        }
        // Reads go on.
        for id in &stored {
            turns::check(&log, *id).unwrap();
        }
    }
}

async fn open_and_check(dir: &Path) {
    for time in 0..2 {
        let log = match turns::open(dir) {
            Ok(log) => log,
            Err(error) => return say(&format!("refused {error}")),
        };
        let mut damaged = false;
        for listed in log.list(None, None, usize::MAX).unwrap_or_default() {
            match turns::check(&log, listed.id) {
                Ok(()) => say(&format!("whole {}", listed.id)),
                Err(why) => {
                    damaged = true;
                    say(&format!("damaged {why}"));
                }
            }
        }
        if damaged {
            return;
        }
        turns::store(&log, SessionId([0xf0 + time; 16]), None)
            .await
            .unwrap();
        log.close().await.unwrap();
        drop(log);
        // Damage may lie where no response's read comes by: in an index, or in what was replaced.
        let findings = match turns::findings(dir) {
            Ok(findings) => findings,
            Err(error) => return say(&format!("damaged {error}")),
        };
        findings
            .iter()
            .for_each(|finding| say(&format!("found {finding}")));
        say(&format!("closed {time}"));
    }
}

/// What a child has said so far.
#[derive(Debug, Default, Clone)]
pub(super) struct Said {
    pub(super) stored: BTreeSet<SessionId>,
    pub(super) deleted: BTreeSet<SessionId>,
    /// Deletions with an unknown outcome.
    pub(super) deleting: BTreeSet<SessionId>,
    pub(super) whole: BTreeSet<SessionId>,
    /// All other lines.
    pub(super) lines: Vec<String>,
}

impl Said {
    pub(super) fn lines_with(&self, start: &str) -> usize {
        self.lines
            .iter()
            .filter(|line| line.starts_with(start))
            .count()
    }

    fn hear(&mut self, line: &str) {
        let Some(line) = line.strip_prefix(": ") else {
            return;
        };
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (word, rest.parse::<SessionId>()) {
            ("stored", Ok(id)) => drop(self.stored.insert(id)),
            ("deleting", Ok(id)) => drop(self.deleting.insert(id)),
            ("deleted", Ok(id)) => {
                self.deleting.remove(&id);
                self.deleted.insert(id);
            }
            ("whole", Ok(id)) => drop(self.whole.insert(id)),
            _ => self.lines.push(line.to_owned()),
        }
    }

    /// Hears what is left of a child's output, except for a line that its end cut off.
    pub(super) fn hear_out(&mut self, mut from: BufReader<ChildStdout>) {
        let mut line = String::new();
        while from.read_line(&mut line).is_ok_and(|len| len > 0) {
            if let Some(whole) = line.strip_suffix('\n') {
                self.hear(whole);
            }
            line.clear();
        }
    }

    /// What must be readable after all that was said.
    pub(super) fn kept(&self) -> BTreeSet<SessionId> {
        let gone = |id: &SessionId| self.deleted.contains(id) || self.deleting.contains(id);
        self.stored.iter().filter(|id| !gone(id)).copied().collect()
    }
}

/// A writer that has its store open.
pub(super) struct Writer {
    pub(super) child: Child,
    /// Hears what it says, which it could not go on without.
    listener: JoinHandle<Said>,
}

impl Writer {
    pub(super) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while line.trim_end() != ": ready" {
            line.clear();
            assert!(
                out.read_line(&mut line).unwrap() > 0,
                "the child ended: {child:?}"
            );
        }
        let listener = thread::spawn(move || {
            let mut said = Said::default();
            said.hear_out(out);
            said
        });
        Self { child, listener }
    }

    /// Kills the process the hard way; returns what it said before.
    pub(super) fn kill(mut self) -> Said {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.listener.join().unwrap()
    }
}

/// Runs a child to its end; returns whether that was orderly, and what it said.
pub(super) fn run(mut command: Command) -> (bool, Said) {
    let mut child = command.spawn().unwrap();
    let mut said = Said::default();
    said.hear_out(BufReader::new(child.stdout.take().unwrap()));
    (child.wait().unwrap().success(), said)
}

/// Opens a store that a killed process left and checks that it holds what that process said.
pub(super) fn assert_holds(dir: &Path, said: &Said, what: &str) {
    let log = turns::open(dir).unwrap_or_else(|error| panic!("{what}: {error}"));
    let lost: Vec<_> = said
        .kept()
        .iter()
        .filter_map(|id| turns::check(&log, *id).err())
        .collect();
    let total = said.kept().len();
    assert!(
        lost.is_empty(),
        "{what}: {} of {total} lost, the first is {}",
        lost.len(),
        lost[0]
    );
    for id in &said.deleted {
        assert_eq!(
            log.response(&Access::All, *id),
            Err(LogError::NotFound),
            "{what}: deleted"
        );
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let written = SessionId(rand::random());
    runtime.block_on(turns::store(&log, written, None)).unwrap();
    runtime.block_on(log.close()).unwrap();
    drop(log);
    assert_eq!(turns::findings(dir).unwrap(), [""; 0], "{what}");
}
