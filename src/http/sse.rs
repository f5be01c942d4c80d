//! Server-sent events: one write per frame, and keep-alive comments.

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use axum::{
    body::{Body, Bytes},
    response::{IntoResponse, Response},
};
use futures::stream;
use serde::Serialize;
use tokio::time::{Instant, timeout};

use super::HttpOptions;
use crate::{
    responses::{RunningTurn, TurnEvent},
    translate::stream::EventEncoder,
    wire::Event,
};

/// A comment line, which clients ignore.
pub(super) const COMMENT: &[u8] = b": still here\n\n";

/// The headers of every stream.
pub(super) const HEADERS: [(&str, &str); 3] = [
    ("content-type", "text/event-stream"),
    ("cache-control", "no-cache"),
    // Turns buffering off in nginx and similar proxies.
    ("x-accel-buffering", "no"),
];

/// Streams a turn. Dropping the body cancels the generation.
pub(super) fn respond(turn: RunningTurn, options: &HttpOptions) -> Response {
    let frames = stream::unfold(Frames::new(turn, options), async |mut frames| {
        let frame = frames.next().await?;
        Some((Ok::<_, Infallible>(frame), frames))
    });
    (HEADERS, Body::from_stream(frames)).into_response()
}

/// The frames of one stream.
struct Frames {
    turn: RunningTurn,
    /// `None` after the terminal event.
    events: Option<EventEncoder>,
    ready: VecDeque<Bytes>,
    last_event: Instant,
    keep_alive: Duration,
    in_progress_repeat: Duration,
}

impl Frames {
    fn new(turn: RunningTurn, options: &HttpOptions) -> Self {
        let (events, first) = EventEncoder::start(turn.record());
        Self {
            turn,
            events: Some(events),
            ready: first.iter().map(event_frame).collect(),
            last_event: Instant::now(),
            keep_alive: options.keep_alive,
            in_progress_repeat: options.in_progress_repeat,
        }
    }

    /// Returns the next frame; `None` after the terminal event.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            self.events.as_ref()?;
            match timeout(self.keep_alive, self.turn.next()).await {
                Ok(Some(event)) => self.take(event),
                Ok(None) => return None,
                Err(_) => self.keep_alive(),
            }
        }
    }

    fn take(&mut self, event: TurnEvent) {
        let events = match event {
            TurnEvent::Answer(event) => self.events.as_mut().map(|events| events.answer(event)),
            TurnEvent::Ended(record) => self.events.take().map(|events| events.end(&record)),
        };
        self.last_event = Instant::now();
        self.ready.extend(events.iter().flatten().map(event_frame));
    }

    fn keep_alive(&mut self) {
        if self.last_event.elapsed() < self.in_progress_repeat {
            self.ready.push_back(Bytes::from_static(COMMENT));
        } else if let Some(events) = &mut self.events {
            let event = events.still_in_progress(self.turn.record());
            self.ready.push_back(event_frame(&event));
            self.last_event = Instant::now();
        }
    }
}

fn event_frame(event: &Event) -> Bytes {
    frame(Some(event.name), event)
}

/// Encodes one frame; `name` becomes its `event:` line.
pub(super) fn frame(name: Option<&str>, data: &impl Serialize) -> Bytes {
    let mut bytes = Vec::new();
    if let Some(name) = name {
        bytes.extend_from_slice(format!("event: {name}\n").as_bytes());
    }
    bytes.extend_from_slice(b"data: ");
    if let Err(error) = serde_json::to_writer(&mut bytes, data) {
        // Events are plain data, which always encodes.
        tracing::error!(%error, name, "event encoding failed");
    }
    bytes.extend_from_slice(b"\n\n");
    bytes.into()
}
