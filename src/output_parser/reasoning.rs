//! Reasoning markers of models.

/// The two markers around reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReasoningMarkers {
    /// Opens reasoning.
    pub open: &'static str,
    /// Closes it.
    pub close: &'static str,
    /// Control tokens in the two.
    pub(super) tokens: &'static [&'static str],
}

/// Known markers. If a template has several, the first one counts.
const KNOWN: [ReasoningMarkers; 9] = [
    ReasoningMarkers {
        open: "<think>",
        close: "</think>",
        tokens: &["<think>", "</think>"],
    },
    // Mistral.
    ReasoningMarkers {
        open: "[THINK]",
        close: "[/THINK]",
        tokens: &["[THINK]", "[/THINK]"],
    },
    // Seed-OSS.
    ReasoningMarkers {
        open: "<seed:think>",
        close: "</seed:think>",
        tokens: &["<seed:think>", "</seed:think>"],
    },
    // Command A and R7B.
    ReasoningMarkers {
        open: "<|START_THINKING|>",
        close: "<|END_THINKING|>",
        tokens: &["<|START_THINKING|>", "<|END_THINKING|>"],
    },
    // Gemma 4.
    ReasoningMarkers {
        open: "<|channel>thought",
        close: "<channel|>",
        tokens: &["<|channel>", "<channel|>"],
    },
    // Apertus.
    ReasoningMarkers {
        open: "<|inner_prefix|>",
        close: "<|inner_suffix|>",
        tokens: &["<|inner_prefix|>", "<|inner_suffix|>"],
    },
    // MiniMax M3.
    ReasoningMarkers {
        open: "<mm:think>",
        close: "</mm:think>",
        tokens: &["<mm:think>", "</mm:think>"],
    },
    // Apriel, which has no opening token.
    ReasoningMarkers {
        open: "Here are my reasoning steps:",
        close: "[BEGIN FINAL RESPONSE]",
        tokens: &["[BEGIN FINAL RESPONSE]"],
    },
    // Hunyuan.
    ReasoningMarkers {
        open: "<think:opensource>",
        close: "</think:opensource>",
        tokens: &["<think:opensource>", "</think:opensource>"],
    },
];

impl ReasoningMarkers {
    /// Returns the markers that a template or a vocabulary has.
    pub(super) fn recognise(source: &str, has_token: &dyn Fn(&str) -> bool) -> Option<Self> {
        let written = KNOWN.iter().find(|known| source.contains(known.close));
        let known = || {
            let written = |known: &&Self| known.tokens.iter().all(|token| has_token(token));
            KNOWN.iter().find(written)
        };
        written.or_else(known).copied()
    }

    /// True if a prompt ends inside reasoning: some templates open it for the model.
    pub(super) fn is_open_after(&self, prompt: &str) -> bool {
        prompt.trim_end().ends_with(self.open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_come_from_the_template_or_the_vocabulary() {
        let none = |_: &str| false;
        let found = ReasoningMarkers::recognise("{{ c.split('</think>')[0] }}", &none);
        assert_eq!(found.map(|found| found.open), Some("<think>"));
        assert_eq!(ReasoningMarkers::recognise("{{ c }}", &none), None);
        let has = |token: &str| token.contains("THINK]");
        let found = ReasoningMarkers::recognise("{{ c }}", &has);
        assert_eq!(found.map(|found| found.open), Some("[THINK]"));
    }

    #[test]
    fn a_prompt_may_end_inside_reasoning() {
        let thinking = KNOWN[0];
        for (prompt, open) in [
            ("…assistant\n<think>\n", true),
            ("…<think>", true),
            ("…<think>\n\n</think>\n\n", false),
            ("…assistant\n", false),
        ] {
            assert_eq!(thinking.is_open_after(prompt), open, "{prompt}");
        }
    }
}
