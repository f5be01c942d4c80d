//! Streamed responses.

use std::time::Duration;

use serde_json::{Value, json};
use stemma::http::HttpOptions;

use crate::support::{Frame, Script, Setup};

#[tokio::test]
async fn a_short_answer_is_this_stream() {
    let app = Setup::answering("Hi!").start().await;
    let events = app.stream(json!({"input": "x"})).await.all().await;
    insta::assert_json_snapshot!(events, {
        "[0].response" => "…", "[1].response" => "…", "[].response.usage" => "…",
    });
}

#[tokio::test]
async fn text_is_streamed_as_it_is_generated() {
    let model = Script::new("scripted", |_| "one two three four five".to_owned());
    let app = Setup::of(model).start().await;
    let events = app.stream(json!({"input": "x"})).await.all().await;
    let is_delta = |event: &&Value| event["type"] == "response.output_text.delta";
    let deltas: Vec<&str> = events
        .iter()
        .filter(is_delta)
        .filter_map(|event| event["delta"].as_str())
        .collect();
    assert!(deltas.len() > 5, "{deltas:?}");
    assert_eq!(deltas.concat(), "one two three four five");
}

#[tokio::test]
async fn keep_alive_comments_fill_pauses() {
    let model = Script::new("scripted", |_| "x".to_owned())
        .executor(|executor| executor.step_delay(Duration::from_millis(500)));
    let setup = Setup {
        options: HttpOptions {
            keep_alive: Duration::from_millis(40),
            in_progress_repeat: Duration::from_millis(150),
            ..HttpOptions::default()
        },
        ..Setup::of(model)
    };
    let app = setup.start().await;
    let mut stream = app.stream(json!({"input": "x"})).await;
    let (mut comments, mut in_progress, mut numbers) = (0, 0, Vec::new());
    while let Some(frame) = stream.next_frame().await {
        match frame {
            Frame::Comment => comments += 1,
            Frame::Event { name, data } => {
                in_progress += usize::from(name == "response.in_progress");
                numbers.push(data["sequence_number"].as_u64().expect("a number"));
            }
        }
    }
    assert!(comments >= 2, "{comments} comments");
    assert!(in_progress >= 2, "{in_progress} times in progress");
    assert!(
        numbers.iter().copied().eq(0..numbers.len() as u64),
        "{numbers:?}"
    );
}

#[tokio::test]
async fn the_first_events_do_not_wait_for_the_prefill() {
    let model = Script::new("scripted", |_| "x".to_owned())
        .executor(|executor| executor.step_delay(Duration::from_secs(2)));
    let app = Setup::of(model).start().await;
    let begun = std::time::Instant::now();
    let mut stream = app.stream(json!({"input": "x"})).await;
    stream.until("response.in_progress").await;
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn streams_tell_proxies_not_to_buffer() {
    let app = Setup::default().start().await;
    let answer = app.create(json!({"input": "x", "stream": true})).await;
    assert_eq!(answer.headers()["cache-control"], "no-cache");
    assert_eq!(answer.headers()["x-accel-buffering"], "no");
    assert!(answer.headers().contains_key("x-request-id"));
}

#[tokio::test]
async fn concurrent_streams_do_not_mix() {
    let model = Script::new("scripted", |prompt| {
        let word = prompt.split("say ").nth(1).unwrap_or_default();
        word.chars()
            .take_while(|c| *c != '<')
            .collect::<String>()
            .repeat(20)
    });
    let app = Setup::of(model).start().await;
    let words: Vec<String> = (0..16).map(|n| format!("w{n};")).collect();
    let streams = words.iter().map(|word| {
        let request = json!({"input": format!("say {word}")});
        async { app.stream(request).await.all().await }
    });
    let all = futures::future::join_all(streams).await;
    for (word, events) in words.iter().zip(all) {
        let last = events.last().expect("an event");
        assert_eq!(last["response"]["output_text"], word.repeat(20));
    }
}
