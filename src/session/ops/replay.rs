//! Events folded into what they add up to; pure.

use super::super::format::event::{Event, ForkPoint, InputAppended, Opened, TurnClosed};
use crate::id::TokenId;

/// What a session's own events say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replayed {
    /// How it began, once the opening was seen.
    pub opened: Option<Opened>,
    /// The input items of its turn, as JSON texts.
    pub input_items: Vec<String>,
    /// What led the prompt, as JSON text.
    pub head: String,
    /// Its own tokens in order, prompt and generated.
    pub tokens: Vec<TokenId>,
    /// Where stretches of one origin end.
    pub spans: Vec<Span>,
    /// How its turn ended.
    pub closed: Option<TurnClosed>,
}

/// A stretch of a session's own tokens that one event appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The event's number.
    pub event: u64,
    /// How many tokens the session has with it.
    pub end: usize,
    /// True if the model generated them.
    pub generated: bool,
}

/// Folds events, from the first on.
pub fn replay(events: &[Event]) -> Replayed {
    let mut replayed = Replayed::default();
    for (seq, event) in events.iter().enumerate() {
        apply(&mut replayed, seq as u64, event);
    }
    replayed
}

fn apply(replayed: &mut Replayed, seq: u64, event: &Event) {
    match event {
        Event::Opened(opened) => replayed.opened = Some(opened.clone()),
        Event::InputAppended(InputAppended { items, head }) => {
            replayed.input_items.extend_from_slice(items);
            replayed.head.clone_from(head);
        }
        Event::PromptAppended(tokens) | Event::Generated(tokens) => {
            replayed.tokens.extend_from_slice(&tokens.tokens);
            let generated = matches!(event, Event::Generated(_));
            replayed.spans.push(Span {
                event: seq,
                end: replayed.tokens.len(),
                generated,
            });
        }
        Event::TurnClosed(closed) => replayed.closed = Some(closed.clone()),
        Event::Rerooted(_) | Event::Purged(_) => {}
    }
}

impl Replayed {
    /// The last event up to which all tokens lie within the first `tokens` of the session's own,
    /// as a fork point with the number of tokens before it. `None` if not even its first does.
    pub fn fork_point_at(
        &self,
        session: super::super::SessionId,
        tokens: usize,
    ) -> Option<(ForkPoint, usize)> {
        let whole = self.spans.iter().take_while(|span| span.end <= tokens);
        whole.last().map(|span| {
            (
                ForkPoint {
                    parent: session,
                    events: span.event + 1,
                },
                span.end,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{SessionId, format::event::Tokens};

    #[test]
    fn tokens_come_in_order_with_their_spans() {
        let input = InputAppended {
            items: vec!["{}".into()],
            head: "null".into(),
        };
        let replayed = replay(&[
            Event::InputAppended(input),
            Event::PromptAppended(Tokens { tokens: vec![1, 2] }),
            Event::Generated(Tokens { tokens: vec![3] }),
        ]);
        assert_eq!(replayed.tokens, [1, 2, 3]);
        assert_eq!(replayed.input_items, ["{}"]);
        let span = |event, end, generated| Span {
            event,
            end,
            generated,
        };
        assert_eq!(replayed.spans, [span(1, 2, false), span(2, 3, true)]);
        let id = SessionId([1; 16]);
        let point = |events| ForkPoint { parent: id, events };
        assert_eq!(replayed.fork_point_at(id, 1), None);
        assert_eq!(replayed.fork_point_at(id, 2), Some((point(2), 2)));
        assert_eq!(replayed.fork_point_at(id, 9), Some((point(3), 3)));
    }
}
