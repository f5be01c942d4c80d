//! Texts that end an answer: found across token boundaries, never shown.

use super::syntax::marker::doubtful;

/// Searches a growing text for the first of several stop strings.
///
/// Text that may be the start of a stop string is held back.
#[derive(Debug)]
pub struct StopStrings {
    stops: Vec<String>,
    held: String,
}

/// The result of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// Text that cannot be part of a stop string.
    pub text: String,
    /// True if a stop text was found; nothing after it is shown.
    pub stopped: bool,
}

impl StopStrings {
    /// Watches for these texts, none of which is empty.
    pub fn new(stops: Vec<String>) -> Self {
        Self {
            stops,
            held: String::new(),
        }
    }

    /// Takes more text.
    pub fn push(&mut self, text: &str) -> Watched {
        self.held.push_str(text);
        if let Some((_, start)) = first_completed(&self.stops, &self.held) {
            self.held.truncate(start);
            return Watched {
                text: std::mem::take(&mut self.held),
                stopped: true,
            };
        }
        let kept = self
            .held
            .split_off(self.held.len() - doubtful(&self.held, &self.stops));
        Watched {
            text: std::mem::replace(&mut self.held, kept),
            stopped: false,
        }
    }

    /// Returns the pending text at the end.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Returns end and start of the stop string that is complete first; among several with the same
/// end, the longest.
fn first_completed(stops: &[String], text: &str) -> Option<(usize, usize)> {
    let found = |stop: &String| text.find(stop).map(|start| (start + stop.len(), start));
    stops.iter().filter_map(found).min()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the text that is shown for these chunks, and whether a stop string ended it.
    fn shown(stops: &[&str], chunks: &[&str]) -> (String, bool) {
        let mut watch = StopStrings::new(stops.iter().map(|s| (*s).to_owned()).collect());
        let mut all = String::new();
        for chunk in chunks {
            let Watched { text, stopped } = watch.push(chunk);
            all.push_str(&text);
            if stopped {
                return (all, true);
            }
        }
        (all + &watch.finish(), false)
    }

    #[test]
    fn a_stop_text_over_three_chunks_is_found() {
        assert_eq!(shown(&["###"], &["a#", "#", "#b"]), ("a".into(), true));
    }

    #[test]
    fn what_only_looked_like_one_is_not_lost() {
        assert_eq!(shown(&["###"], &["a##", "b#"]), ("a##b#".into(), false));
    }

    #[test]
    fn of_several_the_first_to_be_complete_counts() {
        assert_eq!(shown(&["cd", "bc"], &["abcd"]), ("a".into(), true));
        assert_eq!(shown(&["abcd", "c"], &["abcd"]), ("ab".into(), true));
        assert_eq!(shown(&["c", "abc"], &["abcd"]), (String::new(), true));
    }

    #[test]
    fn text_without_doubt_is_shown_at_once() {
        let mut watch = StopStrings::new(vec!["END".into()]);
        assert_eq!(watch.push("what E").text, "what ");
        assert_eq!(watch.push("lse").text, "Else");
    }

    proptest! {
        /// The result does not depend on how the text is cut.
        #[test]
        fn chunks_do_not_matter(
            text in "[ab\u{e9}]{0,20}",
            stops in prop::collection::vec("[ab\u{e9}]{1,4}", 1..4),
            cuts in prop::collection::vec(0usize..21, 0..6),
        ) {
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            let chars: Vec<char> = text.chars().collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(chars.len())).collect();
            cuts.extend([0, chars.len()]);
            cuts.sort_unstable();
            let chunk = |w: &[usize]| chars[w[0]..w[1]].iter().collect::<String>();
            let chunks: Vec<String> = cuts.windows(2).map(chunk).collect();
            let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
            prop_assert_eq!(shown(&stops, &chunks), shown(&stops, &[&text]));
        }
    }
}
