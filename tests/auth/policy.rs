//! A policy that changes while the server runs, and crowds with wrong secrets.

use std::sync::Arc;

use futures::future::join_all;
use reqwest::Method;
use serde_json::json;

use super::{Entry, created, gate, hash, path_of, policy, send};
use crate::support::{Setup, TestApp};

async fn status(app: &TestApp, secret: &str) -> u16 {
    let answer = send(app, &Method::GET, "/v1/models", Some(secret), None).await;
    answer.status().as_u16()
}

#[tokio::test]
async fn a_policy_is_in_force_from_the_next_request_on() {
    let (ann, bob) = (Entry::new("ann", ""), Entry::new("bob", ""));
    let gate = gate(policy("", [&ann]));
    let setup = Setup {
        authenticator: Arc::clone(&gate),
        ..Setup::default()
    };
    let app = setup.start().await;
    assert_eq!(
        (
            status(&app, ann.secret()).await,
            status(&app, bob.secret()).await
        ),
        (200, 401)
    );
    let response = created(&app, ann.secret(), json!({"input": "Hi."})).await;
    // A key that was wrong comes in, one that was right does not.
    gate.replace(policy("", [&bob]));
    assert_eq!(
        (
            status(&app, ann.secret()).await,
            status(&app, bob.secret()).await
        ),
        (401, 200)
    );
    // With another secret, the key still owns what it created.
    let new = Entry::new(
        "ann",
        &format!(
            "previous_hash = \"{}\"\nprevious_until = 2020-01-01T00:00:00Z",
            hash(&ann.secret)
        ),
    );
    gate.replace(policy("", [&new, &bob]));
    assert_eq!(
        (
            status(&app, ann.secret()).await,
            status(&app, new.secret()).await
        ),
        (401, 200)
    );
    let read = send(
        &app,
        &Method::GET,
        &path_of(&response),
        Some(new.secret()),
        None,
    )
    .await;
    assert_eq!(read.status(), 200);
}

#[tokio::test]
async fn a_flood_of_wrong_secrets_locks_out_no_other_key() {
    let (ann, bob) = (Entry::new("ann", ""), Entry::new("bob", ""));
    let setup = Setup {
        authenticator: gate(policy("", [&ann, &bob])),
        ..Setup::default()
    };
    let app = setup.start().await;
    let wrong: Vec<Entry> = (0..100).map(|_| Entry::new("ann", "")).collect();
    let crowd = join_all(wrong.iter().map(|entry| status(&app, entry.secret())));
    // Neither the key that the crowd names, if its secret was seen before, nor another.
    assert_eq!(status(&app, ann.secret()).await, 200);
    let others = async {
        (
            status(&app, bob.secret()).await,
            status(&app, ann.secret()).await,
        )
    };
    let (crowd, others) = futures::future::join(crowd, others).await;
    assert_eq!(others, (200, 200));
    assert!(
        crowd.iter().all(|status| matches!(status, 401 | 429)),
        "{crowd:?}"
    );
    assert!(crowd.contains(&401) && crowd.contains(&429), "{crowd:?}");
}

#[tokio::test]
async fn many_at_once_with_the_right_secret_all_come_in() {
    let ann = Entry::new("ann", "");
    let setup = Setup {
        authenticator: gate(policy("", [&ann])),
        ..Setup::default()
    };
    let app = setup.start().await;
    let all = join_all((0..100).map(|_| status(&app, ann.secret()))).await;
    assert_eq!(all, [200; 100]);
}
