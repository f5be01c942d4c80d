//! Snapshots: restored bytes equal the saved ones, answers stay the same, and no other job waits
//! for a disk.

use std::{collections::HashMap, path::Path, sync::atomic::Ordering};

use super::{
    noise::NoiseExecutor,
    reuse::{Draws, cold, drawn},
    *,
};
use crate::{
    cache::snapshot::{ModelSnapshots, Retention, SnapshotId, SnapshotOptions, Snapshots},
    clock::SystemClock,
};

/// An engine and the snapshots of its model.
struct Warm {
    engine: EngineHandle,
    all: Snapshots,
    model: ModelSnapshots,
}

impl Warm {
    fn new(folder: &Path, engine: EngineHandle, bytes_max: u64) -> Self {
        let all = Snapshots::open(SnapshotOptions {
            folder: folder.to_owned(),
            bytes_max,
            age_ms_max: None,
            free_bytes_min: 0,
            reads_always: true,
            clock: Arc::new(SystemClock),
        });
        let all = all.expect("threads");
        let format = engine.kv_format().expect("memories that can be written");
        Self {
            model: all.of_model(&[0; 32], format),
            engine,
            all,
        }
    }

    /// Engine with the default options.
    fn over(folder: &Path, executor: ScriptedExecutor) -> Self {
        Self::new(folder, engine(EngineOptions::default(), executor), 1 << 30)
    }

    /// The same job with what there is of its prompt.
    fn restoring(&self, job: Job) -> Job {
        Job {
            restore: self.model.find(job.cache_scope, &job.prompt),
            ..job
        }
    }

    /// Returns the cached tokens, the restored ones among them, and the answer.
    async fn ask(&self, job: Job) -> (usize, usize, Vec<TokenId>) {
        let mut stream = self.engine.submit(self.restoring(job)).expect("a place");
        let (cached, thawed) = warmth(&mut stream).await;
        (cached, thawed, read_on(stream).await.0)
    }

    /// Saves the snapshot of a finished sequence.
    fn save(&self, id: u128, scope: CacheScope, tokens: Vec<TokenId>) {
        let announced = self
            .model
            .announce(SnapshotId(id), scope, Retention::WithResponse);
        if let Some(order) = announced.request(tokens) {
            self.engine.save_snapshot(order);
        }
    }

    /// Shuts down the engine, then the snapshots.
    async fn close(self) {
        self.engine.shutdown(Duration::from_secs(60)).await;
        self.all.close();
    }
}

/// Leaves the snapshot of these tokens, 300 of which an engine has read.
async fn leave(folder: &Path, tokens: Vec<TokenId>) {
    let before = Warm::over(folder, repeat(1));
    before.ask(job(0..300)).await;
    before.save(1, CacheScope::default(), tokens);
    before.close().await;
}

async fn warmth(stream: &mut TokenStream) -> (usize, usize) {
    match next(stream).await {
        Some(TokenEvent::Accepted {
            cached_tokens,
            restored_tokens,
        }) => (cached_tokens, restored_tokens),
        other => panic!("not accepted first: {other:?}"),
    }
}

#[tokio::test]
async fn a_conversation_goes_on_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = Warm::over(folder.path(), echo());
    let (cached, thawed, answer) = before.ask(job(0..100)).await;
    assert_eq!((cached, thawed), (0, 0));
    let said: Vec<TokenId> = (0..100).chain(answer).collect();
    before.save(1, CacheScope::default(), said.clone());
    before.close().await;

    let (executor, steps) = recorded(echo());
    let after = Warm::over(folder.path(), executor);
    let prompt = || said.iter().copied().chain([500, 501]);
    let answer: Vec<_> = prompt().rev_tokens();
    assert_eq!(after.ask(job(prompt())).await, (200, 200, answer.clone()));
    let stats = after.engine.stats();
    assert_eq!(stats.prefilled_tokens, 2);
    // Now it is in memory.
    let again = said.iter().copied().chain([502, 503]);
    let (cached, thawed, _) = after.ask(job(again)).await;
    assert_eq!((cached, thawed), (200, 0));
    assert_eq!(after.all.stats().reads, 1);
    let begun = steps.lock().expect("no panic")[0].slots[0].cached;
    assert_eq!(begun, 200);
}

trait RevTokens {
    fn rev_tokens(self) -> Vec<TokenId>;
}

impl<I: Iterator<Item = TokenId>> RevTokens for I {
    fn rev_tokens(self) -> Vec<TokenId> {
        let mut tokens: Vec<TokenId> = self.collect();
        tokens.reverse();
        tokens
    }
}

#[tokio::test]
async fn only_what_memory_lacks_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    leave(folder.path(), (0..300).chain([0]).collect()).await;
    let after = Warm::over(folder.path(), repeat(1));
    assert_eq!(after.ask(job(0..120)).await, (0, 0, vec![0]));
    let longer = || job((0..300).chain([0, 7]));
    assert_eq!(after.ask(longer()).await, (301, 181, vec![0]));
    assert_eq!(after.all.stats().read_tokens, 181);
    assert_eq!(after.ask(longer()).await, (301, 0, vec![0]));
}

#[tokio::test]
async fn a_reader_that_goes_frees_its_place_and_the_engine_stops_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    leave(folder.path(), (0..300).collect()).await;
    let executor = repeat(1);
    let kv_caches = executor.live_caches();
    let after = Warm::over(folder.path(), executor);
    for _ in 0..50 {
        let job = after.restoring(job((0..300).chain([1])));
        assert!(job.restore.is_some());
        drop(after.engine.submit(job).expect("a place"));
    }
    settle(&after.engine, is_idle).await;
    let thawed = after.restoring(job((0..300).chain([2])));
    let mut stream = after.engine.submit(thawed).expect("a place");
    let engine = after.engine.clone();
    after.close().await;
    assert!(engine.submit(job(0..3)).is_err());
    let mut last = None;
    while let Some(event) = next(&mut stream).await {
        last = Some(event);
    }
    assert!(matches!(last, Some(TokenEvent::Finished(_))), "{last:?}");
    assert_eq!(kv_caches.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_memory_that_has_gone_has_no_snapshot() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = EngineOptions {
        cache_bytes_max: 0,
        ..EngineOptions::default()
    };
    let warm = Warm::new(folder.path(), engine(options, repeat(1)), 1 << 30);
    warm.ask(job(0..300)).await;
    warm.save(1, CacheScope::default(), (0..300).collect());
    let all = warm.all.clone();
    warm.close().await;
    assert_eq!(
        (all.stats().written, all.stats().skipped.iter().sum::<u64>()),
        (0, 1)
    );
}

/// Random jobs in engines that are stopped and started anew over the same snapshots, some of which are
/// damaged or deleted meanwhile. Returns how often tokens were thawed.
async fn history(seed: u64) -> u64 {
    let folder = tempfile::tempdir().expect("a folder");
    let mut draws = Draws(seed);
    let (mut known, mut thawed) = (Vec::new(), 0);
    let mut id = 0;
    for start in 0..5 {
        let options = EngineOptions {
            running_max: 1 + draws.below(8) as usize,
            step_prefill_tokens_max: 1 + draws.below(40) as usize,
            kv_bytes_max: 300 + draws.below(400) as usize,
            cache_bytes_max: 200 + draws.below(400) as usize,
            events_buffered_max: 3 + draws.below(20) as usize,
            ..EngineOptions::default()
        };
        let started = start_noise(options);
        let warm = Warm::new(
            folder.path(),
            started,
            2000 + u64::from(draws.below(60_000)),
        );
        for round in 0..4 {
            let mut running = HashMap::new();
            for n in 0..1 + draws.below(6) {
                let job = drawn(&mut draws, &known);
                let stream = warm.engine.submit(warm.restoring(copy_of(&job)));
                let stream = stream.expect("a place");
                if draws.below(6) == 0 {
                    continue;
                }
                running.insert(n, (job, tokio::spawn(read(stream))));
            }
            for (n, (job, answer)) in running {
                let (tokens, finish) = answer.await.expect("an answer");
                let said = [&job.prompt[..], &tokens].concat();
                let scope = job.cache_scope;
                let expected = cold(job).await;
                let place = format!("seed {seed}, start {start}, round {round}, job {n}");
                assert_eq!((tokens, finish), expected, "{place}");
                id += 1;
                warm.save(id, scope, said.clone());
                known.push(said);
            }
            if draws.below(3) == 0 {
                let gone = u128::from(draws.below(id as u32 + 1));
                warm.all.forget(SnapshotId(gone));
            }
        }
        thawed += warm.all.stats().read_tokens;
        warm.close().await;
        spoil(&mut draws, folder.path());
    }
    thawed
}

fn start_noise(options: EngineOptions) -> EngineHandle {
    start(options, || Ok(NoiseExecutor)).expect("a model")
}

/// Damages one file or two.
fn spoil(draws: &mut Draws, folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    for _ in 0..draws.below(3) {
        let Some(path) = files.get(draws.below(files.len().max(1) as u32) as usize) else {
            return;
        };
        let mut bytes = std::fs::read(path).expect("a file");
        let at = draws.below(bytes.len().max(1) as u32) as usize;
        match draws.below(3) {
            0 => bytes.truncate(at),
            _ if bytes.is_empty() => {}
            _ => bytes[at] ^= 1 << draws.below(8),
        }
        std::fs::write(path, bytes).expect("a file");
    }
}

#[tokio::test]
async fn restarts_never_change_an_answer() {
    let mut thawed = 0;
    for seed in 0..10 {
        thawed += history(seed).await;
    }
    assert!(thawed > 1000, "the histories were to thaw: {thawed} tokens");
}

#[tokio::test]
async fn those_who_go_on_from_one_prefix_read_it_once() {
    let folder = tempfile::tempdir().expect("a folder");
    leave(folder.path(), (0..300).collect()).await;
    // Jobs submitted during a blocked step are admitted together.
    let (executor, release) = held_at(repeat(1), 1);
    let after = Warm::over(folder.path(), executor);
    let first = after.engine.submit(job(900..903)).expect("a place");
    settle(&after.engine, |stats| {
        stats.running == 1 || stats.waiting == 1
    })
    .await;
    let submit = |n| {
        let job = after.restoring(job((0..300).chain([n])));
        after.engine.submit(job).expect("a place")
    };
    let mut streams: Vec<TokenStream> = (0..20).map(submit).collect();
    // The consumer of the first job goes away.
    drop(streams.remove(0));
    release.send(()).expect("a held engine");
    for mut stream in streams {
        assert_eq!(warmth(&mut stream).await, (300, 300));
        assert_eq!(read_on(stream).await.0, [0]);
    }
    read(first).await;
    assert_eq!(after.all.stats().reads, 1);
}
