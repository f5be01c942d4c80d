//! Starts and ends of grammars, and grammars that are not JSON.

use serde_json::json;

use super::{HERMES, ROOM, Verdict, allowed, grammars, run, schema, tokenizer, verdict};
use crate::grammar::{GrammarSpec, Shape, StartAt, ToolCallGrammar, ValueGrammar};

fn integers(start: StartAt) -> GrammarSpec {
    GrammarSpec {
        start,
        ..schema(
            &json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}),
        )
    }
}

#[test]
fn an_end_token_is_all_that_follows_the_whole() {
    let grammars = grammars();
    let mut constraint = grammars
        .constraint(&integers(StartAt::Immediately))
        .expect("a grammar");
    assert_eq!(run(&mut *constraint, "{\"a\": 1}"), Verdict::Whole);
    let mut ends = tokenizer().eos_tokens();
    ends.sort_unstable();
    let set = allowed(&mut *constraint, ROOM).expect("not all");
    let mut closed: Vec<_> = set.iter().collect();
    closed.retain(|id| !tokenizer().token_text(*id).trim().is_empty());
    assert_eq!(closed, ends);
}

#[test]
fn control_tokens_are_no_text() {
    let grammars = grammars();
    let spec = schema(&json!({"type": "string"}));
    assert!(matches!(
        verdict(&grammars, &spec, "\"<|im_start|>"),
        Verdict::Stopped(_)
    ));
    assert!(matches!(
        verdict(&grammars, &spec, "\"<think>"),
        Verdict::Stopped(_)
    ));
    assert_eq!(verdict(&grammars, &spec, "\"<thank>\""), Verdict::Whole);
}

#[test]
fn reasoning_is_free_and_the_answer_is_not() {
    let grammars = grammars();
    let after = |open: Option<&str>| {
        integers(StartAt::AfterReasoning {
            open: open.map(str::to_owned),
            close: "</think>".to_owned(),
        })
    };
    let opened = after(None);
    assert_eq!(
        verdict(&grammars, &opened, "Hm {\"b\" </think>\n\n{\"a\": 1}"),
        Verdict::Whole
    );
    assert_eq!(
        verdict(&grammars, &opened, "Hm</think>{\"a\": 1}"),
        Verdict::Whole
    );
    assert!(matches!(
        verdict(&grammars, &opened, "Hm</think>\n\nSure"),
        Verdict::Stopped(_)
    ));
    let may = after(Some("<think>"));
    assert_eq!(
        verdict(&grammars, &may, "<think>Hm.</think>\n{\"a\": 1}"),
        Verdict::Whole
    );
    assert_eq!(verdict(&grammars, &may, "{\"a\": 1}"), Verdict::Whole);
    assert_eq!(verdict(&grammars, &may, "Sure"), Verdict::Stopped(0));
}

#[test]
fn reasoning_does_not_end_the_answer() {
    let grammars = grammars();
    let spec = integers(StartAt::AfterReasoning {
        open: None,
        close: "</think>".to_owned(),
    });
    assert_eq!(verdict(&grammars, &spec, "Hm."), Verdict::Open);
}

fn calls(most: Option<u64>) -> ToolCallGrammar {
    let only_a = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false});
    let functions = [
        ("f".to_owned(), ValueGrammar::Schema(only_a)),
        ("g".to_owned(), ValueGrammar::object()),
    ];
    ToolCallGrammar::of(&HERMES, &functions, most)
}

const F: &str = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";
const G: &str = "<tool_call>\n{\"name\": \"g\", \"arguments\": {\"x\": []}}\n</tool_call>";

#[test]
fn calls_are_forced() {
    let grammars = grammars();
    let one = GrammarSpec {
        shape: Shape::ToolCalls(calls(Some(1))),
        start: StartAt::Immediately,
    };
    assert_eq!(verdict(&grammars, &one, F), Verdict::Whole);
    assert_eq!(verdict(&grammars, &one, G), Verdict::Whole);
    assert_eq!(verdict(&grammars, &one, "Sure"), Verdict::Stopped(0));
    assert!(matches!(
        verdict(&grammars, &one, &format!("{F}\n{G}")),
        Verdict::Stopped(_)
    ));
    let several = GrammarSpec {
        shape: Shape::ToolCalls(calls(None)),
        start: StartAt::Immediately,
    };
    assert_eq!(
        verdict(&grammars, &several, &format!("{F}\n{G}")),
        Verdict::Whole
    );
    let wrong = F.replace("\"a\"", "\"b\"");
    assert!(matches!(
        verdict(&grammars, &one, &wrong),
        Verdict::Stopped(_)
    ));
}
