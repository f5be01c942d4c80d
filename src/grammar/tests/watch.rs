//! Answers that are free until a call begins.

use serde_json::{Value, json};

use super::{HERMES, ROOM, Verdict, allowed, grammars, run, take, tokenizer};
use crate::grammar::{GrammarCompiler, StructuralTags, ToolCallGrammar, Trigger, ValueGrammar};

const F: &str = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";
const G: &str = "<tool_call>{\"name\": \"g\", \"arguments\": {\"x\": []}}\n</tool_call>";

fn only_a() -> Value {
    json!({
        "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
        "additionalProperties": false,
    })
}

fn functions() -> [(String, ValueGrammar); 2] {
    [
        ("f".to_owned(), ValueGrammar::Schema(only_a())),
        ("g".to_owned(), ValueGrammar::object()),
    ]
}

fn watch(begins: Vec<Trigger>) -> StructuralTags {
    StructuralTags {
        triggers: begins,
        reasoning_markers: Some(("<think>".to_owned(), "</think>".to_owned())),
        in_reasoning: false,
    }
}

fn hermes() -> StructuralTags {
    watch(vec![Trigger {
        marker: "<tool_call>".to_owned(),
        at_start: false,
        calls: ToolCallGrammar::of(&HERMES, &functions(), Some(1)).behind("<tool_call>"),
    }])
}

fn verdict(grammars: &GrammarCompiler, watch: &StructuralTags, text: &str) -> Verdict {
    run(&mut *grammars.watching(watch).expect("a grammar"), text)
}

#[track_caller]
fn is_stopped(grammars: &GrammarCompiler, watch: &StructuralTags, text: &str) {
    let found = verdict(grammars, watch, text);
    assert!(
        matches!(found, Verdict::Stopped(_)),
        "{text:?} is {found:?}"
    );
}

fn wrong(call: &str) -> String {
    call.replace("\"a\"", "\"b\"")
}

#[test]
fn calls_are_kept_to_their_schemas_wherever_they_begin() {
    let (grammars, watch) = (grammars(), hermes());
    let wrong = wrong(F);
    for whole in [
        "",
        "Nothing to call.",
        F,
        &format!("Well: {F} and {G} then."),
        &format!("{F}\n{F}"),
        "1 < 2 <tool and {\"name\": \"h\"}",
    ] {
        assert_eq!(verdict(&grammars, &watch, whole), Verdict::Whole, "{whole}");
    }
    for stopped in [
        &wrong,
        &format!("Well: {F} and {wrong}"),
        &G.replace("\"g\"", "\"h\""),
        &format!("{F}\n{}", F.replace('1', "\"1\"")),
        "<tool_call>no",
    ] {
        is_stopped(&grammars, &watch, stopped);
    }
    assert_eq!(verdict(&grammars, &watch, "<tool_call>\n"), Verdict::Open);
}

#[test]
fn no_trigger_counts_inside_reasoning() {
    let (grammars, watch) = (grammars(), hermes());
    let wrong = wrong(F);
    for reasoning in [
        format!("<think>\n{wrong} no.</think>\n\n{F}"),
        format!("Hm <think>{wrong}"),
    ] {
        assert_eq!(
            verdict(&grammars, &watch, &reasoning),
            Verdict::Whole,
            "{reasoning}"
        );
    }
    is_stopped(&grammars, &watch, &format!("<think>Hm.</think>\n{wrong}"));
    let inside = StructuralTags {
        in_reasoning: true,
        ..watch
    };
    let reasoning = format!("{wrong} no.</think>\n\n{F}");
    assert_eq!(verdict(&grammars, &inside, &reasoning), Verdict::Whole);
    is_stopped(&grammars, &inside, &format!("Hm.</think>{wrong}"));
}

#[test]
fn calls_without_a_marker_are_told_by_their_place() {
    let grammars = grammars();
    let bare = |opening: &str| Trigger {
        marker: format!("{opening}{{\"name\": \"f\", \"arguments\": "),
        at_start: true,
        calls: ToolCallGrammar::rest(ValueGrammar::Schema(only_a()), "}"),
    };
    let watch = watch(vec![bare(""), bare("```json")]);
    let call = "{\"name\": \"f\", \"arguments\": {\"a\": 1}}";
    let spaced = "{\n  \"name\": \"f\",\n  \"arguments\": {\n    \"a\": 1\n  }}";
    let wrong = wrong(call);
    for whole in [
        call,
        spaced,
        &format!("\n```json\n{call}\n```"),
        &format!("<think>x</think>\n\n{call}"),
        // Not at the start, and other JSON.
        &format!("So: {wrong}"),
        &wrong.replace("\"f\"", "\"fa\""),
        "{\"name\": \"Ann\"}",
        "{\"b\": 1}",
    ] {
        assert_eq!(verdict(&grammars, &watch, whole), Verdict::Whole, "{whole}");
    }
    for stopped in [
        &wrong,
        &spaced_wrong(spaced),
        &format!("```json\n{wrong}"),
        &format!("<think>x</think>\n\n{wrong}"),
    ] {
        is_stopped(&grammars, &watch, stopped);
    }
}

fn spaced_wrong(spaced: &str) -> String {
    spaced.replace("\"a\": 1", "\"a\": 1.5")
}

/// A marker may be plain text, which tokens run across: what follows it belongs to the grammar.
#[test]
fn no_token_runs_over_the_end_of_a_marker() {
    let (grammars, tokenizer) = (grammars(), tokenizer());
    let ids = 0..u32::try_from(tokenizer.vocab_size()).expect("a small vocabulary");
    let long = ids
        .map(|id| (id, tokenizer.token_text(id)))
        .find(|(_, text)| text.len() > 2 && text.bytes().all(|b| b.is_ascii_lowercase()));
    let (long, text) = long.expect("a token of several letters");
    let [first] = tokenizer.encode_text(&text[..1], false)[..] else {
        panic!("{text}")
    };
    let marker = format!("#{}", &text[..1]);
    let watch = watch(vec![Trigger {
        marker,
        at_start: false,
        calls: ToolCallGrammar::rest(ValueGrammar::object(), ""),
    }]);
    let mut constraint = grammars.watching(&watch).expect("a grammar");
    assert!(allowed(&mut *constraint, ROOM).is_none_or(|set| set.contains(long)));
    let [hash] = tokenizer.encode_text("#", false)[..] else {
        panic!("several tokens")
    };
    assert!(take(&mut *constraint, hash, ROOM));
    let set = allowed(&mut *constraint, ROOM).expect("not all");
    assert!(!set.contains(long) && set.contains(first), "{text}");
    assert!(tokenizer.eos_tokens().iter().all(|&end| set.contains(end)));
    assert!(take(&mut *constraint, first, ROOM));
    let set = allowed(&mut *constraint, ROOM).expect("not all");
    let [brace] = tokenizer.encode_text("{", false)[..] else {
        panic!("several tokens")
    };
    assert!(set.contains(brace) && !set.contains(first));
}
