//! Decodes the input of a custom tool from the arguments of a call, incrementally.

use super::tool::CUSTOM_INPUT;

/// Length of a `\u` escape.
const UNIT_LEN: usize = "\\u0000".len();

/// Decodes arguments of the form `{"input": "…"}` to the text in them. Other arguments are the
/// input themselves, because models often leave the wrapper out.
#[derive(Debug, Clone, Default)]
pub struct CustomInput {
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    /// The text so far may be the start of the wrapper.
    Opening(String),
    /// Inside the text; the pending characters start an escape.
    Text(String),
    /// After the text.
    Closed,
    /// There is no wrapper.
    Bare,
}

impl Default for State {
    fn default() -> Self {
        Self::Opening(String::new())
    }
}

impl CustomInput {
    /// Adds arguments; returns what they add to the input.
    pub fn push(&mut self, arguments: &str) -> String {
        let mut input = String::new();
        for c in arguments.chars() {
            self.take(c, &mut input);
        }
        input
    }

    fn take(&mut self, c: char, input: &mut String) {
        match &mut self.state {
            State::Opening(held) => {
                held.push(c);
                match match_wrapper(held) {
                    WrapperMatch::Maybe => {}
                    WrapperMatch::Whole => self.state = State::Text(String::new()),
                    WrapperMatch::Bare => {
                        input.push_str(held);
                        self.state = State::Bare;
                    }
                }
            }
            State::Text(held) if held.is_empty() && c == '"' => self.state = State::Closed,
            State::Text(held) if held.is_empty() && c != '\\' => input.push(c),
            // Half a surrogate pair without its other half.
            State::Text(held) if held.len() == UNIT_LEN && c != '\\' => {
                input.push(char::REPLACEMENT_CHARACTER);
                held.clear();
                self.take(c, input);
            }
            State::Text(held) if held.len() == UNIT_LEN + 1 && c != 'u' => {
                input.push(char::REPLACEMENT_CHARACTER);
                held.replace_range(..UNIT_LEN, "");
                self.take(c, input);
            }
            State::Text(held) => {
                held.push(c);
                if let Some(decoded) = escape(held) {
                    input.push(decoded);
                    held.clear();
                }
            }
            State::Closed => {}
            State::Bare => input.push(c),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum WrapperMatch {
    /// The text may still become `{"input": "`.
    Maybe,
    /// The text is the wrapper.
    Whole,
    /// The text cannot become the wrapper.
    Bare,
}

fn match_wrapper(text: &str) -> WrapperMatch {
    let name = format!("\"{CUSTOM_INPUT}\"");
    let mut rest = text;
    for expected in ["{", &name, ":", "\""] {
        rest = rest.trim_start();
        match rest.strip_prefix(expected) {
            Some(after) => rest = after,
            None if expected.starts_with(rest) => return WrapperMatch::Maybe,
            None => return WrapperMatch::Bare,
        }
    }
    WrapperMatch::Whole
}

/// Returns the character of a complete escape; U+FFFD if JSON does not define it.
fn escape(held: &str) -> Option<char> {
    match held.as_bytes() {
        [] | [_] => return None,
        [_, b'u', ..] if held.len() < UNIT_LEN => return None,
        [_, b'u', ..] => {}
        _ => return Some(decoded(held)),
    }
    let unit = held.get(2..UNIT_LEN);
    let unit = unit.and_then(|digits| u16::from_str_radix(digits, 16).ok());
    let is_high = unit.is_some_and(|unit| (0xd800..0xdc00).contains(&unit));
    (!is_high || held.len() >= 2 * UNIT_LEN).then(|| decoded(held))
}

fn decoded(escape: &str) -> char {
    let text: Option<String> = serde_json::from_str(&format!("\"{escape}\"")).ok();
    let mut chars = text.iter().flat_map(|text| text.chars());
    match (chars.next(), chars.next()) {
        (Some(c), None) => c,
        _ => char::REPLACEMENT_CHARACTER,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the input of arguments in these fragments.
    fn input(pieces: &[&str]) -> String {
        let mut reader = CustomInput::default();
        pieces.iter().map(|piece| reader.push(piece)).collect()
    }

    #[test]
    fn bare_arguments_are_the_input() {
        for bare in [
            "ls -l",
            "\"a\"",
            "{\"command\": \"ls\"}",
            "{\"input\": 7}",
            "[1]",
        ] {
            assert_eq!(input(&[bare]), bare);
        }
    }

    #[test]
    fn what_is_cut_gives_what_there_is() {
        assert_eq!(input(&["{\"input\": \"ab"]), "ab");
        assert_eq!(input(&["{\"input\": \"ab\\u12"]), "ab");
        for nothing in ["", " {", "{\"inp"] {
            assert_eq!(input(&[nothing]), "");
        }
    }

    #[test]
    fn halves_of_pairs_are_replaced() {
        for (text, expected) in [
            ("\\ud83d\\ude00\\ud83d", "\u{1f600}\u{fffd}"),
            ("\\ud83dab", "\u{fffd}ab"),
            ("\\ud83d\\n", "\u{fffd}\n"),
            ("\\ude00a", "\u{fffd}a"),
            ("\\u000\u{20ac}a", "\u{fffd}a"),
        ] {
            let arguments = format!("{{\"input\":\"{text}\"}}");
            assert_eq!(input(&[&arguments]), expected, "{text}");
        }
    }

    proptest! {
        /// The input does not depend on how the arguments are cut.
        #[test]
        fn the_text_of_the_wrapper_comes_out(
            text in any::<String>(), cut in any::<prop::sample::Index>(), ascii in any::<bool>(),
        ) {
            let mut arguments = serde_json::json!({"input": text}).to_string();
            if ascii {
                let escaped = |c: char| {
                    let units = c.encode_utf16(&mut [0; 2]).to_vec();
                    units.iter().map(|unit| format!("\\u{unit:04X}")).collect::<String>()
                };
                arguments = arguments
                    .chars()
                    .map(|c| if c.is_ascii() { c.to_string() } else { escaped(c) })
                    .collect();
            }
            let ends = arguments.char_indices().map(|(at, _)| at).collect::<Vec<_>>();
            let (first, second) = arguments.split_at(ends[cut.index(ends.len())]);
            prop_assert_eq!(input(&[first, second]), text);
        }
    }
}
