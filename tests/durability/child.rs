//! Child processes of these tests: the test program itself, in a role given by its environment.

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

/// The role of a child process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// 16 clients write until the process is killed.
    WriteUntilKilled,
    /// 200 clients write large responses until the process is killed, so that commits are large.
    WriteLarge,
    /// One client writes some turns and prints the result of each; then the process exits without
    /// closing.
    WriteSome,
    /// Opens the store, checks all of it, writes a turn, closes; then all of that once more.
    OpenAndCheck,
}

impl Role {
    const ALL: [(&'static str, Self); 4] = [
        ("write-until-killed", Self::WriteUntilKilled),
        ("write-large", Self::WriteLarge),
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

/// Returns the command of a child process. Callers may add environment variables.
pub(super) fn command(role: Role, dir: &Path, seed: u64) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["durability::child::child_process", "--exact", "--nocapture"])
        .env(ROLE, role.name())
        .env(DIR, dir)
        .env(SEED, seed.to_string())
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

/// Not a test: the entry point of a child process.
#[test]
fn child_process() {
    let Ok(role_name) = env::var(ROLE) else {
        return;
    };
    let dir = PathBuf::from(env::var(DIR).unwrap());
    let seed = env::var(SEED).unwrap().parse().unwrap();
    let role = Role::ALL
        .into_iter()
        .find(|(name, _)| *name == role_name)
        .unwrap()
        .1;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    match role {
        Role::WriteUntilKilled => {
            runtime.block_on(write_until_killed(&dir, seed, 16, turns::any_id));
        }
        Role::WriteLarge => runtime.block_on(write_until_killed(&dir, seed, 200, turns::large_id)),
        Role::WriteSome => runtime.block_on(write_some(&dir, seed)),
        Role::OpenAndCheck => runtime.block_on(open_and_check(&dir)),
    }
    std::process::exit(0);
}

fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n: {line}").unwrap();
    out.flush().unwrap();
}

/// A generator of session ids. The content of a turn depends on its id.
type MakeId = fn(&mut StdRng) -> SessionId;

async fn write_until_killed(dir: &Path, seed: u64, clients: u64, make_id: MakeId) {
    let log = turns::open(dir).unwrap();
    print("ready");
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
    // Some clients keep few responses, so that sled reuses space.
    let responses_max = if rng.random() { 3 } else { usize::MAX };
    loop {
        let id = make_id(&mut rng);
        let previous = mine.last().copied().filter(|_| rng.random_ratio(2, 3));
        turns::store(&log, id, previous).await.unwrap();
        print(&format!("stored {id}"));
        mine.push(id);
        if mine.len() > responses_max || rng.random_ratio(1, 6) {
            let id = mine.swap_remove(rng.random_range(0..mine.len()));
            print(&format!("deleting {id}"));
            log.delete(Access::All, id).await.unwrap();
            print(&format!("deleted {id}"));
        }
    }
}

/// Tries 60 turns; waits a little when the store is unavailable.
async fn write_some(dir: &Path, seed: u64) {
    let log = match turns::open(dir) {
        Ok(log) => log,
        Err(error) => return print(&format!("refused {error}")),
    };
    let mut rng = StdRng::seed_from_u64(seed);
    let mut stored = BTreeSet::new();
    for _ in 0..60 {
        let id = SessionId(rng.random());
        match turns::store(&log, id, None).await {
            Ok(()) => {
                stored.insert(id);
                print(&format!("stored {id}"));
            }
            Err(LogError::Unavailable(why)) => {
                print(&format!("unavailable {why}"));
                assert_eq!(log.response(&Access::All, id), Err(LogError::NotFound));
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(error) => panic!("{error}"),
        }
        // Reads must still work.
        for id in &stored {
            turns::check(&log, *id).unwrap();
        }
    }
}

async fn open_and_check(dir: &Path) {
    for time in 0..2 {
        let log = match turns::open(dir) {
            Ok(log) => log,
            Err(error) => return print(&format!("refused {error}")),
        };
        let mut damaged = false;
        for listed in log.list(None, None, usize::MAX).unwrap_or_default() {
            match turns::check(&log, listed.id) {
                Ok(()) => print(&format!("whole {}", listed.id)),
                Err(why) => {
                    damaged = true;
                    print(&format!("damaged {why}"));
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
        // Damage may be where no read of a response looks: in an index, or in an outdated value.
        let findings = match turns::findings(dir) {
            Ok(findings) => findings,
            Err(error) => return print(&format!("damaged {error}")),
        };
        findings
            .iter()
            .for_each(|finding| print(&format!("found {finding}")));
        print(&format!("closed {time}"));
    }
}

/// The output of a child process.
#[derive(Debug, Default, Clone)]
pub(super) struct Output {
    pub(super) stored: BTreeSet<SessionId>,
    pub(super) deleted: BTreeSet<SessionId>,
    /// Deletions without a confirmation.
    pub(super) deleting: BTreeSet<SessionId>,
    pub(super) whole: BTreeSet<SessionId>,
    /// All other lines.
    pub(super) lines: Vec<String>,
}

impl Output {
    pub(super) fn lines_with(&self, start: &str) -> usize {
        self.lines
            .iter()
            .filter(|line| line.starts_with(start))
            .count()
    }

    fn parse_line(&mut self, line: &str) {
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

    /// Reads the rest of a child's output, without a truncated last line.
    pub(super) fn read_rest(&mut self, mut from: BufReader<ChildStdout>) {
        let mut line = String::new();
        while from.read_line(&mut line).is_ok_and(|len| len > 0) {
            if let Some(whole) = line.strip_suffix('\n') {
                self.parse_line(whole);
            }
            line.clear();
        }
    }

    /// Returns the sessions that must be readable.
    pub(super) fn readable(&self) -> BTreeSet<SessionId> {
        let gone = |id: &SessionId| self.deleted.contains(id) || self.deleting.contains(id);
        self.stored.iter().filter(|id| !gone(id)).copied().collect()
    }
}

/// A child process with an open store.
pub(super) struct Writer {
    pub(super) child: Child,
    /// Reads the child's output, so that the pipe never fills.
    listener: JoinHandle<Output>,
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
            let mut output = Output::default();
            output.read_rest(out);
            output
        });
        Self { child, listener }
    }

    /// Kills the process with SIGKILL. Returns its output.
    pub(super) fn kill(mut self) -> Output {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.listener.join().unwrap()
    }
}

/// Runs a child to its end. Returns true if it exited normally, and its output.
pub(super) fn run(mut command: Command) -> (bool, Output) {
    let mut child = command.spawn().unwrap();
    let mut output = Output::default();
    output.read_rest(BufReader::new(child.stdout.take().unwrap()));
    (child.wait().unwrap().success(), output)
}

/// Opens the store of a killed process and checks that it contains every acknowledged write.
pub(super) fn assert_contains_all(dir: &Path, output: &Output, what: &str) {
    let log = turns::open(dir).unwrap_or_else(|error| panic!("{what}: {error}"));
    let lost: Vec<_> = output
        .readable()
        .iter()
        .filter_map(|id| turns::check(&log, *id).err())
        .collect();
    let total = output.readable().len();
    assert!(
        lost.is_empty(),
        "{what}: {} of {total} lost, the first is {}",
        lost.len(),
        lost[0]
    );
    for id in &output.deleted {
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
