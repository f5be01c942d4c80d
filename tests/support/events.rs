//! A reader of server-sent events.

use std::collections::VecDeque;

use reqwest::Response;
use serde_json::Value;

use super::TIMEOUT;

/// A frame of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Frame {
    Event { name: String, data: Value },
    Comment,
}

/// A stream of server-sent events.
pub(crate) struct Events {
    answer: Response,
    text: String,
    frames: VecDeque<Frame>,
}

impl Events {
    pub(crate) fn new(answer: Response) -> Self {
        Self {
            answer,
            text: String::new(),
            frames: VecDeque::new(),
        }
    }

    /// Returns the next frame; `None` at the end of the stream. Panics if the stream ends within a
    /// frame.
    pub(crate) async fn next_frame(&mut self) -> Option<Frame> {
        while self.frames.is_empty() {
            let chunk = tokio::time::timeout(TIMEOUT, self.answer.chunk());
            let chunk = chunk
                .await
                .expect("a frame in time")
                .expect("no broken stream");
            let Some(chunk) = chunk else {
                assert_eq!(self.text, "", "the stream ends within a frame");
                return None;
            };
            self.text
                .push_str(std::str::from_utf8(&chunk).expect("whole characters"));
            while let Some((frame, rest)) = self.text.split_once("\n\n") {
                self.frames.push_back(parse(frame));
                self.text = rest.to_owned();
            }
        }
        self.frames.pop_front()
    }

    /// Returns the next event; skips comments.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            match self.next_frame().await? {
                Frame::Event { data, .. } => return Some(data),
                Frame::Comment => {}
            }
        }
    }

    /// Reads up to the first event of type `name`, and returns that event.
    pub(crate) async fn until(&mut self, name: &str) -> Value {
        while let Some(event) = self.next().await {
            if event["type"] == name {
                return event;
            }
        }
        panic!("the stream ends without {name}");
    }

    /// Returns all events to the end of the stream. Checks invariants of every stream.
    pub(crate) async fn all(mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            assert_eq!(event["sequence_number"], events.len(), "{event}");
            events.push(event);
        }
        let terminal = [
            "response.completed",
            "response.incomplete",
            "response.failed",
        ];
        let is_terminal = |event: &&Value| terminal.iter().any(|name| event["type"] == *name);
        assert_eq!(events.iter().filter(is_terminal).count(), 1);
        assert!(events.last().is_some_and(|last| is_terminal(&last)));
        events
    }
}

/// Returns the chunks of a stream without event names. Checks that `[DONE]` ends the stream.
pub(crate) async fn chunks(answer: Response) -> Vec<Value> {
    let text = answer.text().await.expect("text");
    let chunks = text.strip_suffix("data: [DONE]\n\n");
    let frames = chunks.expect("an end").split_terminator("\n\n");
    frames
        .map(|frame| serde_json::from_str(frame.strip_prefix("data: ").expect("data")))
        .collect::<Result<_, _>>()
        .expect("JSON")
}

fn parse(frame: &str) -> Frame {
    if frame.starts_with(':') {
        return Frame::Comment;
    }
    let (name, data) = frame.split_once('\n').expect("two lines");
    let name = name.strip_prefix("event: ").expect("an event's name");
    let data = data.strip_prefix("data: ").expect("an event's data");
    let data: Value = serde_json::from_str(data).expect("JSON");
    assert_eq!(data["type"], name);
    Frame::Event {
        name: name.to_owned(),
        data,
    }
}
