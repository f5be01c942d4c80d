//! What jobs answer and how they end.

use super::*;

#[tokio::test]
async fn concurrent_jobs_get_their_own_answers() {
    let engine = start(EngineOptions::default(), || Ok(echo())).expect("a model");
    let submit = |first| engine.submit(job(first..first + 5)).expect("a place");
    let streams: Vec<_> = (0..40).map(|n| (n, submit(n * 7))).collect();
    for (n, stream) in streams {
        let expected = (n * 7..n * 7 + 5).rev().collect();
        assert_eq!(
            read(stream).await,
            (expected, Finish::EndToken(END)),
            "job {n}"
        );
    }
}
