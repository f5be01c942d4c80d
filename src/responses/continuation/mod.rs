//! Decides if a continuation forks its parent's tokens or is rebuilt from items; pure.

pub(super) mod resend;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::tokenizer::PromptSegment;

/// The continuation state, as in the header `x-stemma-continuation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContinuationState {
    /// Forked, and some of it was in the prefix cache.
    Warm,
    /// Forked, and some of it was read from snapshots.
    Thawed,
    /// Forked, and all of it is read again.
    Cold,
    /// Rendered afresh from the items.
    Rebuilt,
}

impl ContinuationState {
    /// As it stands in the header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Thawed => "thawed",
            Self::Cold => "cold",
            Self::Rebuilt => "rebuilt",
        }
    }
}

/// The reason why a parent's tokens cannot be continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RebuildReason {
    /// Tokens mean something to one model only.
    #[error("the model is another one")]
    Model,
    /// The preamble differs, and it stands before the parent's tokens.
    #[error("the instructions, tools or template arguments are others")]
    Head,
    /// The parent's answer was cut, or its items do not hold all of its tokens.
    #[error("the answer did not end by its end token")]
    NotEnded,
    /// The template renders what was said before in another way now.
    #[error("the template renders the earlier turns differently")]
    Rendering,
    /// The template does not close the answer with one of the model's end tokens.
    #[error("the template does not go on with an end token")]
    EndToken,
}

impl RebuildReason {
    /// Every reason there is.
    pub const ALL: [Self; 5] = [
        Self::Model,
        Self::Head,
        Self::NotEnded,
        Self::Rendering,
        Self::EndToken,
    ];
}

/// The part of a prompt that needs no prefill.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Warmth {
    /// Tokens of the prompt in the prefix cache.
    pub(super) cached_tokens: u64,
    /// Those of the cached tokens that were restored from snapshots for this prompt.
    pub(super) restored_tokens: u64,
}

impl Warmth {
    fn state(self) -> ContinuationState {
        match self {
            Self {
                cached_tokens: 0, ..
            } => ContinuationState::Cold,
            Self {
                restored_tokens: 0, ..
            } => ContinuationState::Warm,
            Self { .. } => ContinuationState::Thawed,
        }
    }
}

/// The continuation of a turn: forked, or rebuilt for a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Continuation {
    /// Forked.
    Forked(Warmth),
    /// Rebuilt.
    Rebuilt(RebuildReason),
}

impl Continuation {
    /// Returns the state that the client sees.
    pub(super) fn state(self) -> ContinuationState {
        match self {
            Self::Forked(warmth) => warmth.state(),
            Self::Rebuilt(_) => ContinuationState::Rebuilt,
        }
    }

    /// Returns the reason for a rebuild; `None` if the turn forks.
    pub(super) fn rebuild_reason(self) -> Option<RebuildReason> {
        match self {
            Self::Forked(_) => None,
            Self::Rebuilt(reason) => Some(reason),
        }
    }
}

/// Counts of continuations by state since the start.
#[derive(Debug, Default)]
pub struct ContinuationCounts {
    warm: AtomicU64,
    thawed: AtomicU64,
    cold: AtomicU64,
    rebuilt: [AtomicU64; RebuildReason::ALL.len()],
}

impl ContinuationCounts {
    pub(super) fn count(&self, decision: Continuation) {
        let counter = match decision {
            Continuation::Forked(warmth) => match warmth.state() {
                ContinuationState::Warm => &self.warm,
                ContinuationState::Thawed => &self.thawed,
                ContinuationState::Cold | ContinuationState::Rebuilt => &self.cold,
            },
            Continuation::Rebuilt(reason) => &self.rebuilt[reason as usize],
        };
        counter.fetch_add(1, Relaxed);
    }

    /// The count of each kind, with the reason of those that were rebuilt.
    pub fn counts(&self) -> impl Iterator<Item = (ContinuationState, Option<RebuildReason>, u64)> {
        let forked = [
            (ContinuationState::Warm, None, self.warm.load(Relaxed)),
            (ContinuationState::Thawed, None, self.thawed.load(Relaxed)),
            (ContinuationState::Cold, None, self.cold.load(Relaxed)),
        ];
        let rebuilt = RebuildReason::ALL.into_iter().map(|reason| {
            let count = self.rebuilt[reason as usize].load(Relaxed);
            (ContinuationState::Rebuilt, Some(reason), count)
        });
        forked.into_iter().chain(rebuilt)
    }
}

/// The key of a fork, which parent and continuation must share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ForkKey<'a> {
    pub(super) model: &'a str,
    pub(super) preamble_digest: [u8; 32],
}

/// Checks if the parent's tokens can be continued, before rendering.
pub(super) fn may_fork(
    parent: ForkKey<'_>,
    ended: bool,
    next: ForkKey<'_>,
) -> Result<(), RebuildReason> {
    match () {
        () if parent.model != next.model => Err(RebuildReason::Model),
        () if parent.preamble_digest != next.preamble_digest => Err(RebuildReason::Head),
        () if !ended => Err(RebuildReason::NotEnded),
        () => Ok(()),
    }
}

/// Returns the suffix that a rendering adds to the parent's text, which is its prompt and answer. A
/// fork encodes only this suffix. It must begin with one of the EOS token texts, so that the tokens
/// before it are complete.
pub(super) fn suffix(
    parent: &str,
    rendering: &[PromptSegment],
    end_texts: &[String],
) -> Result<Vec<PromptSegment>, RebuildReason> {
    let mut said = parent;
    let mut rest = Vec::new();
    for piece in rendering {
        let (text, of): (_, fn(String) -> PromptSegment) = match piece {
            PromptSegment::Template(text) => (text, PromptSegment::Template),
            PromptSegment::UserText(text) => (text, PromptSegment::UserText),
        };
        if let Some(left) = said.strip_prefix(text.as_str()) {
            said = left;
            continue;
        }
        let added = text.strip_prefix(said).ok_or(RebuildReason::Rendering)?;
        said = "";
        rest.push(of(added.to_owned()));
    }
    let ends = |text: &String| end_texts.iter().any(|end| text.starts_with(end.as_str()));
    match rest.first() {
        _ if !said.is_empty() => Err(RebuildReason::Rendering),
        Some(PromptSegment::Template(text)) if ends(text) => Ok(rest),
        _ => Err(RebuildReason::EndToken),
    }
}

/// Returns what a rendering adds to a parent's tokens. That is the text behind the parent's own
/// text, if the rendering repeats it. If the template writes the answer in another way than the
/// model, it is the text from the closing EOS token on. In both cases the fork continues the
/// parent's exact tokens.
pub(super) fn added(
    parent: Parent<'_>,
    rendering: &[PromptSegment],
    end_texts: &[String],
) -> Result<Vec<PromptSegment>, RebuildReason> {
    if let Some(answer) = parent.answer {
        let generated = [parent.prompt, answer].concat();
        match suffix(&generated, rendering, end_texts) {
            Err(RebuildReason::Rendering) => {}
            exact => return exact,
        }
    }
    let said = up_to_end(rendering, parent.prompt.len(), end_texts);
    let said = said.ok_or(RebuildReason::Rendering)?;
    let answer = said.strip_prefix(parent.prompt);
    let answer = answer.ok_or(RebuildReason::Rendering)?;
    // A template that drops some of it means the model not to see that again.
    if !parent.shown.iter().all(|text| answer.contains(text.trim())) {
        return Err(RebuildReason::Rendering);
    }
    suffix(&said, rendering, end_texts).map_err(|_| RebuildReason::Rendering)
}

/// The prompt of a parent and what the model answered, as text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parent<'a> {
    pub(super) prompt: &'a str,
    /// As the model wrote it, if that is known.
    pub(super) answer: Option<&'a str>,
    /// Texts that a rendering must contain in some way.
    pub(super) shown: &'a [&'a str],
}

/// The text of a rendering up to the first end token that is not in its first `prompt` bytes.
fn up_to_end(rendering: &[PromptSegment], prompt: usize, end_texts: &[String]) -> Option<String> {
    let mut text = String::new();
    for piece in rendering {
        if let PromptSegment::Template(markup) = piece {
            let mut from = prompt.saturating_sub(text.len()).min(markup.len());
            while !markup.is_char_boundary(from) {
                from += 1;
            }
            let found = end_texts
                .iter()
                .filter_map(|end| markup[from..].find(end.as_str()));
            if let Some(at) = found.min() {
                text.push_str(&markup[..from + at]);
                return Some(text);
            }
        }
        text.push_str(piece.text());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn markup(text: &str) -> PromptSegment {
        PromptSegment::Template(text.to_owned())
    }

    fn literal(text: &str) -> PromptSegment {
        PromptSegment::UserText(text.to_owned())
    }

    #[test]
    fn tokens_belong_to_a_model_and_a_head_and_a_whole_answer() {
        let of = |model, head| ForkKey {
            model,
            preamble_digest: [head; 32],
        };
        let parent = of("m", 1);
        assert_eq!(may_fork(parent, true, of("m", 1)), Ok(()));
        assert_eq!(
            may_fork(parent, true, of("n", 1)),
            Err(RebuildReason::Model)
        );
        assert_eq!(may_fork(parent, true, of("m", 2)), Err(RebuildReason::Head));
        assert_eq!(
            may_fork(parent, false, of("m", 1)),
            Err(RebuildReason::NotEnded)
        );
    }

    #[test]
    fn every_decision_is_counted_in_its_own_place() {
        let decisions = ContinuationCounts::default();
        let rebuilt = RebuildReason::ALL.map(Continuation::Rebuilt);
        let forked = [(0, 0), (7, 0), (7, 3)].map(|(cached_tokens, restored_tokens)| {
            Continuation::Forked(Warmth {
                cached_tokens,
                restored_tokens,
            })
        });
        for decision in forked.into_iter().chain(rebuilt) {
            let before: Vec<_> = decisions.counts().collect();
            decisions.count(decision);
            let changed = decisions
                .counts()
                .zip(before)
                .filter(|(now, then)| now != then);
            let changed: Vec<_> = changed.map(|(now, _)| now).collect();
            let reason = match decision {
                Continuation::Rebuilt(reason) => Some(reason),
                Continuation::Forked(_) => None,
            };
            assert_eq!(changed, [(decision.state(), reason, 1)]);
        }
    }

    /// Returns what a rendering adds for a model with two EOS tokens.
    fn added(
        parent: &str,
        rendering: &[PromptSegment],
    ) -> Result<Vec<PromptSegment>, RebuildReason> {
        suffix(parent, rendering, &["<x>", "<e>"].map(str::to_owned))
    }

    #[test]
    fn only_what_is_new_is_left_over_however_pieces_are_cut() {
        let expected = Ok(vec![markup("<e>"), literal("<e>"), markup("<a>")]);
        for before in [
            vec![markup("<u>hi<a>yes<e>")],
            vec![markup("<u>"), literal("hi"), markup("<a>yes<e>")],
            vec![markup("<u>hi"), literal("<a>yes"), markup("<e>")],
        ] {
            let rendering = [before, vec![literal("<e>"), markup("<a>")]].concat();
            assert_eq!(added("<u>hi<a>yes", &rendering), expected);
        }
    }

    #[test]
    fn a_template_that_changes_the_past_cannot_be_forked() {
        let parent = "<u>hi<a> yes";
        for rendering in ["<u>hi<a>yes<e>", "<u>hi", "<u>hi<a> ye<e>", ""] {
            let rendering = [markup(rendering)];
            assert_eq!(added(parent, &rendering), Err(RebuildReason::Rendering));
        }
    }

    /// Returns what is added to `<u>hi<a>` and the answer `said`.
    fn added_to_call(
        said: Option<&str>,
        rendering: &[PromptSegment],
    ) -> Result<Vec<PromptSegment>, RebuildReason> {
        let parent = Parent {
            prompt: "<u>hi<a>",
            answer: said,
            shown: &["f "],
        };
        let ends = ["<x>", "<e>"].map(str::to_owned);
        super::added(parent, rendering, &ends)
    }

    #[test]
    fn an_answer_that_the_template_writes_otherwise_is_continued_from_its_end() {
        let rest = Ok(vec![markup("<e>\n<t>3<e>\n<a>")]);
        for rendering in [
            vec![markup("<u>hi<a><call>f<e>\n<t>3<e>\n<a>")],
            vec![
                markup("<u>"),
                literal("hi"),
                markup("<a>"),
                literal("<e>f"),
                markup("<e>\n<t>3<e>\n<a>"),
            ],
        ] {
            for said in [None, Some("{f}"), Some("<call>f")] {
                assert_eq!(added_to_call(said, &rendering), rest);
            }
        }
    }

    #[test]
    fn an_answer_that_the_template_drops_or_moves_is_not_continued() {
        for rendering in [
            "<u>hi<a><call>g<e><t>f",
            "<s>f<a><call>f<e><t>",
            "<u>hi<e>",
            "<u>hi<a>f",
        ] {
            let refused = Err(RebuildReason::Rendering);
            assert_eq!(added_to_call(Some("{f}"), &[markup(rendering)]), refused);
        }
    }

    #[test]
    fn an_answer_must_be_closed_by_an_end_token() {
        for rest in [markup("\n<u>"), literal("<e>"), markup("")] {
            let rendering = [markup("<a>yes"), rest];
            let refused = Err(RebuildReason::EndToken);
            assert_eq!(added("<a>yes", &rendering), refused);
        }
        assert_eq!(added("<a>", &[markup("<a>")]), Err(RebuildReason::EndToken));
    }
}
