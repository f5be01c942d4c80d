//! Texts of a client's grammar, and those of a client's expression within JSON.

use super::{Verdict, grammars, refusal, spec, verdict};
use crate::grammar::{GrammarCompiler, GrammarSpec, TextGrammar, ValueGrammar};

fn lark(definition: &str) -> GrammarSpec {
    spec(ValueGrammar::Lark(definition.to_owned()))
}

fn regex(definition: &str) -> GrammarSpec {
    keyed(TextGrammar::Regex(definition.to_owned()))
}

pub(super) fn keyed(text: TextGrammar) -> GrammarSpec {
    spec(ValueGrammar::Keyed("input".to_owned(), text))
}

pub(super) fn input(text: &str) -> String {
    format!("{{\"input\": {}}}", serde_json::Value::from(text))
}

#[track_caller]
pub(super) fn check(grammars: &GrammarCompiler, spec: &GrammarSpec, good: &[&str], bad: &[&str]) {
    for text in good {
        let found = verdict(grammars, spec, &input(text));
        assert_eq!(found, Verdict::Whole, "{text:?}");
    }
    for text in bad {
        let found = verdict(grammars, spec, &input(text));
        assert!(
            matches!(found, Verdict::Stopped(_)),
            "{text:?} is {found:?}"
        );
    }
}

#[test]
fn expressions_match_what_the_text_says() {
    let grammars = grammars();
    check(
        &grammars,
        &regex("[a-c]{2}x?"),
        &["ab", "abx"],
        &["ad", "a", "abxx", ""],
    );
    check(
        &grammars,
        &regex(r#"("[^"\n]*"\n|\\+|/x)+"#),
        &["\"a\"\n", "\"\"\n\"/é\\\"\n", "\\\\", "/x"],
        &["\"a\"", "\"a\n\"\n", "", "/y"],
    );
    check(
        &grammars,
        &regex("(?i)select .+"),
        &["SELECT *", "select \t1"],
        &["drop x", "select \n"],
    );
    check(
        &grammars,
        &regex(r"\d+-\w"),
        &["12-a", "1-ü"],
        &["x-a", "1-"],
    );
}

/// The grammar by which agents write patches.
pub(super) const PATCH: &str = r#"start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
"#;

#[test]
fn a_patch_is_one() {
    let (grammars, spec) = (grammars(), lark(PATCH));
    let add = "*** Begin Patch\n*** Add File: a/b.txt\n+say(\"hi\\n\")\n+\n*** End Patch\n";
    let update =
        "*** Begin Patch\n*** Update File: é.rs\n@@ fn f()\n-\told\n+new\n \n*** End Patch";
    for good in [add, update] {
        assert_eq!(verdict(&grammars, &spec, good), Verdict::Whole, "{good}");
    }
    for bad in ["rm -rf", &add.replace("Add", "Put")] {
        let found = verdict(&grammars, &spec, bad);
        assert!(matches!(found, Verdict::Stopped(_)), "{bad:?} is {found:?}");
    }
}

#[test]
fn what_no_grammar_can_have_is_refused() {
    let grammars = grammars();
    for wrong in [
        "start: missing",
        "start: @form_0",
        "start: <|im_end|>",
        "start: <[2]>",
        "%llguidance {}\nstart: /a/",
        "start: %json {}",
        "%import other.X\nstart: X",
        "%import common.NOTHING\nstart: NOTHING",
        "start: /(/",
        "start: \"a",
        "start: /a",
        "",
    ] {
        let (_, reason) = refusal(&grammars, &lark(wrong));
        assert!(!reason.is_empty(), "{wrong}");
    }
    for wrong in ["(", r"\bword\b", "(?=a)b", r"(a)\1"] {
        let (_, reason) = refusal(&grammars, &regex(wrong));
        assert!(!reason.is_empty(), "{wrong}");
    }
}
