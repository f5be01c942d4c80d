//! Folds a session's events into their sum. Pure functions.

use super::super::{
    SessionId,
    format::event::{Event, ForkPoint, InputAppended, Opened, TurnClosed},
};
use crate::id::TokenId;

/// The sum of a session's own events.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replayed {
    /// The Opened event, once it was seen.
    pub opened: Option<Opened>,
    /// The input items of the session's turn, as JSON texts.
    pub input_items: Vec<String>,
    /// The preamble (instructions, tools, template arguments), as JSON text.
    pub preamble: String,
    /// The session's own tokens in order: prompt, then generated.
    pub tokens: Vec<TokenId>,
    /// The events that appended tokens, in order.
    pub appends: Vec<TokenAppend>,
    /// The TurnClosed event, once it was seen.
    pub closed: Option<TurnClosed>,
}

/// The tokens of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenAppend {
    /// The event's number.
    pub event: u64,
    /// The number of the session's own tokens up to and including this event.
    pub end: usize,
    /// True if the model generated the tokens.
    pub generated: bool,
}

/// Folds events, from the first one.
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
        Event::InputAppended(InputAppended {
            items,
            head: preamble,
        }) => {
            replayed.input_items.extend_from_slice(items);
            replayed.preamble.clone_from(preamble);
        }
        Event::PromptAppended(tokens) | Event::Generated(tokens) => {
            replayed.tokens.extend_from_slice(&tokens.tokens);
            let generated = matches!(event, Event::Generated(_));
            replayed.appends.push(TokenAppend {
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
    /// Returns the last event whose tokens all lie within the session's first `tokens` own tokens.
    /// The result is a fork point and the number of own tokens before it. `None` if no event
    /// qualifies.
    pub fn fork_point_at(&self, session: SessionId, tokens: usize) -> Option<(ForkPoint, usize)> {
        let whole = self
            .appends
            .iter()
            .take_while(|append| append.end <= tokens);
        whole.last().map(|append| {
            (
                ForkPoint {
                    parent: session,
                    events: append.event + 1,
                },
                append.end,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{SessionId, format::event::Tokens};

    #[test]
    fn tokens_are_in_order_with_their_events() {
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
        let append = |event, end, generated| TokenAppend {
            event,
            end,
            generated,
        };
        assert_eq!(replayed.appends, [append(1, 2, false), append(2, 3, true)]);
        let id = SessionId([1; 16]);
        let point = |events| ForkPoint { parent: id, events };
        assert_eq!(replayed.fork_point_at(id, 1), None);
        assert_eq!(replayed.fork_point_at(id, 2), Some((point(2), 2)));
        assert_eq!(replayed.fork_point_at(id, 9), Some((point(3), 3)));
    }
}
