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
    pub preamble: String,
    /// Its own tokens in order, prompt and generated.
    pub tokens: Vec<TokenId>,
    /// Where stretches of one origin end.
    pub appends: Vec<TokenAppend>,
    /// How its turn ended.
    pub closed: Option<TurnClosed>,
}

/// A stretch of a session's own tokens that one event appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenAppend {
    /// The event's number.
    pub event: u64,
    /// How many tokens the session has with it.
    pub end: usize,
    /// Whether the model generated them.
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
    /// The last event up to which all tokens lie within the first `tokens` of the session's own,
    /// as a fork point with the number of tokens before it. `None` if not even its first does.
    pub fn fork_point_at(
        &self,
        session: super::super::SessionId,
        tokens: usize,
    ) -> Option<(ForkPoint, usize)> {
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
