//! Shared tests of all families: each answer is parsed at every split of its text, and cut
//! everywhere.

use proptest::prelude::*;
use serde_json::json;

use super::{Family, OutputParser, ParserOptions, ParserSpec, ReasoningMarkers};
use crate::conversation::{FunctionTool, OutputDelta};

/// Functions `f` and `g`, which the tests declare, with properties of several types.
pub(crate) fn tools() -> Vec<FunctionTool> {
    let properties = json!({
        "s": {"type": "string"}, "n": {"type": "integer"}, "o": {"type": "object"},
        "m": {"type": ["string", "null"]},
        "either": {"anyOf": [{"type": "string"}, {"type": "number"}]},
    });
    let schema = json!({"type": "object", "properties": properties});
    let tool = |name: &str| FunctionTool {
        name: name.to_owned(),
        description: None,
        parameters: schema.as_object().cloned(),
        strict: None,
        path: String::new(),
    };
    vec![tool("f"), tool("g")]
}

/// The items of an answer whose text comes in these parts, each as one line. A call that was not ended
/// has `…` behind it.
pub(crate) fn read(parser: &mut dyn OutputParser, parts: &[&str]) -> Vec<String> {
    let mut pieces = Vec::new();
    for part in parts {
        parser.push(part, &mut pieces);
    }
    parser.finish(&mut pieces);
    lines(&pieces)
}

fn lines(pieces: &[OutputDelta]) -> Vec<String> {
    let (mut lines, mut open) = (Vec::<String>::new(), "");
    for piece in pieces {
        let (kind, begins, text) = match piece {
            OutputDelta::Text(text) => ("text", "text ", text.as_str()),
            OutputDelta::Reasoning(text) => ("thought", "thought ", text.as_str()),
            OutputDelta::Call { name } => ("call", "", name.as_str()),
            OutputDelta::Arguments(text) => ("call", "", text.as_str()),
            OutputDelta::End => ("", "", ""),
        };
        assert!(
            kind.is_empty() || !text.is_empty(),
            "an empty piece in {pieces:?}"
        );
        let begins_call = matches!(piece, OutputDelta::Call { .. });
        if open == "call" && (begins_call || !matches!(kind, "call" | "")) {
            lines.last_mut().expect("a call").push('…');
        }
        if matches!(piece, OutputDelta::Arguments(_)) {
            assert_eq!(open, "call", "arguments without a call in {pieces:?}");
        }
        if begins_call {
            lines.push(format!("{text} "));
        } else if kind == open && !kind.is_empty() {
            lines.last_mut().expect("an item").push_str(text);
        } else if !kind.is_empty() {
            lines.push(format!("{begins}{text}"));
        }
        open = kind;
    }
    if open == "call" {
        lines.last_mut().expect("a call").push('…');
    }
    lines
}

/// All that a parser of this family shows, without the markup between.
pub(super) fn parser_for(
    family: Option<Family>,
    thinks: bool,
    lenient: bool,
) -> Box<dyn OutputParser> {
    let description = ParserSpec {
        family,
        thinking: ReasoningMarkers::recognise("</think>", &|_| false),
        ..ParserSpec::default()
    };
    let tools = tools();
    description.parser(ParserOptions {
        tools: &tools,
        thinks,
        lenient,
    })
}

/// Checks what answers are read as: whole, in characters, and at every split.
pub(super) fn check(family: Family, answers: &[(&str, &[&str])]) {
    check_with(answers, || parser_for(Some(family), false, false));
}

/// The same with other readers.
pub(super) fn check_with(answers: &[(&str, &[&str])], parser: impl Fn() -> Box<dyn OutputParser>) {
    for (answer, expected) in answers {
        assert_eq!(read(&mut *parser(), &[answer]), *expected, "{answer:?}");
        let characters: Vec<String> = answer.chars().map(String::from).collect();
        let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
        assert_eq!(
            read(&mut *parser(), &characters),
            *expected,
            "characters of {answer:?}"
        );
        for (at, _) in answer.char_indices() {
            let (first, second) = answer.split_at(at);
            let items = read(&mut *parser(), &[first, second]);
            assert_eq!(items, *expected, "{first:?} {second:?}");
            check_cut(first, &parser);
        }
    }
}

/// Checks that an answer that ends anywhere is read the same whole and in characters.
fn check_cut(answer: &str, parser: &impl Fn() -> Box<dyn OutputParser>) {
    let whole = read(&mut *parser(), &[answer]);
    let characters: Vec<String> = answer.chars().map(String::from).collect();
    let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
    assert_eq!(read(&mut *parser(), &characters), whole, "{answer:?}");
    if !answer.trim().is_empty() && whole.is_empty() {
        let markup = answer.trim_start_matches(['<', '|']);
        assert!(markup.len() < answer.len(), "{answer:?} is lost");
    }
}

#[test]
fn a_prompt_that_ends_inside_reasoning_starts_with_it() {
    check_with(
        &[
            ("Hm.\n</think>\n\nYes.", &["thought Hm.", "text Yes."]),
            ("</think>Yes.", &["text Yes."]),
            ("Hm", &["thought Hm"]),
            (
                "\nHm</think>\n<tool_call>{\"name\": \"f\"}</tool_call>",
                &["thought Hm", "f "],
            ),
        ],
        || parser_for(Some(Family::Hermes), true, false),
    );
}

#[test]
fn a_whole_answer_of_json_is_a_call_if_that_is_asked_for() {
    let call = "{\"name\": \"f\", \"arguments\": {\"a\": 1}}";
    let fenced = format!("```json\n{call}\n```");
    let spaced = format!("\n ```\n{call}\n```\n\n");
    let reasoning = format!("<think>x</think>\n{call}\n");
    let followed = format!("{call} so");
    let unclosed = format!("```json\n{call}");
    let text = |text: &str| format!("text {text}");
    let (followed_text, unclosed_text) = (text(&followed), text(&unclosed));
    let is_call = ["f {\"a\": 1}"];
    let mut answers: Vec<(&str, Vec<&str>)> = vec![
        (call, is_call.into()),
        (&fenced, is_call.into()),
        (&spaced, is_call.into()),
        (&reasoning, vec!["thought x", is_call[0]]),
        (&followed, vec![&followed_text]),
        (&unclosed, vec![&unclosed_text]),
    ];
    let others = [
        "{\"name\": \"h\", \"arguments\": {}}",
        "{\"name\": \"f\", \"arguments\": {}, \"id\": 1}",
        "{\"name\": \"f\", \"arguments\": []}",
        "{\"name\": \"f\"}",
        "{\"city\": \"Paris\"}",
        "{\"name\": \"f\", \"arguments\": {}",
        "```\ncode\n```",
        "`{`",
        "so {\"name\": \"f\", \"arguments\": {}}",
    ];
    let texts = others.map(text);
    for (other, text) in others.iter().zip(&texts) {
        answers.push((other, vec![text]));
    }
    for (answer, expected) in &answers {
        check_with(&[(answer, expected)], || {
            parser_for(Some(Family::Hermes), false, true)
        });
    }
}

#[test]
fn other_json_is_shown_as_it_comes() {
    let mut parser = parser_for(None, false, true);
    let mut pieces = Vec::new();
    parser.push("{\"c", &mut pieces);
    assert_eq!(pieces, [OutputDelta::Text("{\"c".to_owned())]);
    let mut parser = parser_for(Some(Family::Llama), false, false);
    for (part, shown) in [("{\"city\"", "{\"city\""), (": \"P", ": \"P")] {
        pieces.clear();
        parser.push(part, &mut pieces);
        assert_eq!(pieces, [OutputDelta::Text(shown.to_owned())]);
    }
}

#[test]
fn arguments_are_passed_on_as_they_come() {
    let mut parser = parser_for(Some(Family::Hermes), false, false);
    let mut pieces = Vec::new();
    parser.push(
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"b",
        &mut pieces,
    );
    let call = OutputDelta::Call { name: "f".into() };
    assert_eq!(pieces, [call, OutputDelta::Arguments("{\"a\": \"b".into())]);
    parser.push("c", &mut pieces);
    assert_eq!(pieces[2], OutputDelta::Arguments("c".into()));
}

#[test]
fn without_tools_a_call_is_text() {
    let description = ParserSpec {
        family: Some(Family::Hermes),
        ..ParserSpec::default()
    };
    let reading = ParserOptions {
        lenient: true,
        ..ParserOptions::default()
    };
    let answer = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
    let items = read(&mut *description.parser(reading), &[answer]);
    assert_eq!(items, [format!("text {answer}")]);
}

/// Parts of the calls of all families, for answers that are almost calls.
const FRAGMENTS: [&str; 44] = [
    "f",
    "g",
    "h",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "\"",
    "'",
    "`",
    ":",
    ",",
    ";",
    "=",
    "\\",
    "<",
    ">",
    "\n",
    " ",
    "é",
    "{\"name\": \"f\", ",
    "\"arguments\": {\"a\": 1}}",
    "{\"arguments\": {}, ",
    "\"name\": \"g\"}",
    "{\"a\": \"b\"}",
    "functions.f:0",
    "call:f{s:",
    "f(n=1",
    " to=functions.f",
    "```json\n",
    "</function>",
    "<parameter=s>",
    "</parameter>",
    "<invoke name=\"f\">",
    "<parameter name=\"n\">",
    "</invoke>",
    "<param name=\"o\">",
    "</param>",
    "<arg_key>s</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "<think>",
];

proptest! {
    /// However an answer is cut into parts, the same is read of it.
    #[test]
    fn parts_do_not_matter(
        family in prop::sample::select(super::family::ALL.to_vec()),
        chosen in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..14),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        thinks: bool,
        lenient: bool,
    ) {
        let own: Vec<&str> = family.tokens().iter().copied().chain(["</think>"]).collect();
        let fragment = |(index, is_own): &(prop::sample::Index, bool)| match is_own {
            true => own[index.index(own.len())],
            false => FRAGMENTS[index.index(FRAGMENTS.len())],
        };
        let answer: String = chosen.iter().map(fragment).collect();
        let ends: Vec<usize> = answer.char_indices().map(|(at, _)| at).chain([answer.len()]).collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| ends[cut.index(ends.len())]).collect();
        cuts.extend([0, answer.len()]);
        cuts.sort_unstable();
        let parts: Vec<&str> = cuts.windows(2).map(|cut| &answer[cut[0]..cut[1]]).collect();
        let whole = read(&mut *parser_for(Some(family), thinks, lenient), &[&answer]);
        let in_parts = read(&mut *parser_for(Some(family), thinks, lenient), &parts);
        prop_assert_eq!(whole, in_parts, "{:?} {:?}", family, parts);
    }
}
