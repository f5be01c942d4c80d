//! A store that cannot be written or opened.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use serde_json::json;
use stemma::session::{
    LogError, LogOptions, SessionLog,
    store::faulty::{Fault, FaultyStorage},
};

use super::{open, parrot, path_of};
use crate::support::{Setup, error};

#[tokio::test]
async fn an_answer_that_cannot_be_stored_is_a_failure() {
    let storage = Arc::new(FaultyStorage::default());
    let log = SessionLog::start(storage.clone(), LogOptions::default()).expect("a log");
    let steps = Arc::<AtomicUsize>::default();
    let counted = steps.clone();
    let model = parrot("m").executor(|executor| {
        executor.before_step(move |_| {
            counted.fetch_add(1, SeqCst);
            Ok(())
        })
    });
    let setup = Setup {
        log,
        ..Setup::of(model)
    };
    let app = setup.start().await;
    let before = app.created(json!({"input": "x"})).await;
    storage.fail_after(0, Fault::SyncFails);
    let events = app.stream(json!({"input": "x"})).await.all().await;
    let [.., error_event, failed] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(error_event["code"], "storage_unavailable");
    assert_eq!(failed["type"], "response.failed");
    assert_eq!(failed["response"]["error"]["code"], "storage_unavailable");
    // From then on turns are refused before anything is generated.
    let generated = steps.load(SeqCst);
    let next = json!({"input": "x", "previous_response_id": before["id"]});
    for request in [
        json!({"input": "x"}),
        json!({"input": "x", "stream": true}),
        next,
    ] {
        let refused = error(app.create(request).await, 503).await;
        assert_eq!(refused["code"], "storage_unavailable");
    }
    assert_eq!(steps.load(SeqCst), generated);
    let refused = error(app.delete(&path_of(&before)).await, 503).await;
    assert_eq!(refused["code"], "storage_unavailable");
    // Reads go on.
    assert_eq!(app.get(&path_of(&before)).await.status(), 200);
    let read = app.get(&path_of(&failed["response"])).await;
    assert_eq!(read.status(), 404);
}

#[tokio::test]
async fn a_folder_serves_one_at_a_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = open(folder.path()).expect("a log");
    let refused = open(folder.path()).err().expect("a refusal");
    assert!(matches!(refused, LogError::Refused(_)), "{refused}");
    log.close().await.expect("closed in order");
    drop(log);
    open(folder.path()).expect("a log");
}
