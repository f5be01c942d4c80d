//! Texts of a client's grammar, and those of a client's expression within JSON.

use super::{Verdict, grammars, refusal, spec, verdict};
use crate::grammar::{Form, Grammars, Spec, TextForm};

fn lark(definition: &str) -> Spec {
    spec(Form::Lark(definition.to_owned()))
}

fn regex(definition: &str) -> Spec {
    keyed(TextForm::Regex(definition.to_owned()))
}

fn keyed(text: TextForm) -> Spec {
    spec(Form::Keyed("input".to_owned(), text))
}

fn quoted_lark(definition: &str) -> Spec {
    keyed(TextForm::Lark(definition.to_owned()))
}

fn input(text: &str) -> String {
    format!("{{\"input\": {}}}", serde_json::Value::from(text))
}

#[track_caller]
fn check(grammars: &Grammars, spec: &Spec, good: &[&str], bad: &[&str]) {
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
const PATCH: &str = r#"start: begin_patch hunk+ end_patch
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
fn a_patch_within_json_is_one() {
    let grammars = grammars();
    let add = "*** Begin Patch\n*** Add File: a/b.txt\n+say(\"hi\\n\")\n+\n*** End Patch\n";
    let update =
        "*** Begin Patch\n*** Update File: é.rs\n@@ fn f()\n-\told\n+new\n \n*** End Patch";
    check(
        &grammars,
        &quoted_lark(PATCH),
        &[add, update],
        &[
            "rm -rf",
            &add.replace("Add", "Put"),
            &add.replace('+', "\\"),
        ],
    );
}

#[test]
fn grammars_within_json_match_what_the_text_says() {
    let grammars = grammars();
    check(
        &grammars,
        &quoted_lark(
            r#"// A list of texts.
start: "[" (item ("," item)*)? "]" // its end
item: ESCAPED_STRING | WORD | CHAR~2..3 | "NULL"i
CHAR: "\x5b".."]" | "\t" | "/" # some of those that are escaped
%import common.ESCAPED_STRING
%import common (WORD, LF)
%import common.WS_INLINE -> BLANK
%ignore BLANK
%ignore LF
"#,
        ),
        &[
            "[]",
            r#"["a\"b", abc ,"é"]"#,
            "[\\\\,\t/]",
            "[ null,\n\tNuLL ]",
        ],
        &["[", "[\"a]", "[\\]", "[\r]", "[\u{1}]", "[1]"],
    );
    check(
        &grammars,
        &quoted_lark(
            "?start: sum\nsum: product (SP \"+\" SP product)* -> add\n  | product\n\
             product.2: INT [\"*\" INT]\n\nSP: \" \"\n%import common.INT",
        ),
        &["1", "12 + 3*4 + 5"],
        &["1+2", "1 +", "1*2*3"],
    );
    check(
        &grammars,
        &quoted_lark("start: /select .+ # all\n/xi NEWLINE\n%import common.NEWLINE"),
        &["SELECT*\n", "selectÄ\r\n\n"],
        &["drop\n", "select"],
    );
}

#[test]
fn what_no_expression_can_say_is_refused_within_json() {
    let grammars = grammars();
    for (wrong, why) in [
        ("start: ~\"a\"", "~"),
        ("start: A & B\nA: \"a\"\nB: \"b\"", "&"),
        ("start: \"(\" start \")\" | \"a\"", "needs itself"),
        ("start: /a/l", "locale"),
        ("start: /\\ba/", "look around"),
        ("start: \"ab\"..\"c\"", "one character"),
        ("start: \"a", "not closed"),
        ("start: <|im_end|>", "`<`"),
        ("start: %json {}", "%json"),
        ("start[lazy]: /a/", "`:` is missing"),
        ("start: missing", "no `missing`"),
        ("start: \"a\"\nstart: \"b\"", "twice"),
        ("begin: \"a\"", "no `start`"),
        ("%import other.X\nstart: X", "other.X"),
        ("start: \"a\"~3..2", "no range"),
        ("start: \"a\")", "not expected"),
    ] {
        let (_, reason) = refusal(&grammars, &quoted_lark(wrong));
        assert!(reason.contains(why), "{wrong}: {reason}");
    }
    let doubled = (0..40).map(|n| format!("r{n}: r{} r{}\n", n + 1, n + 1));
    let doubled: String = doubled.collect();
    let large = format!("start: r0\n{doubled}r40: \"a\"\n");
    refusal(&grammars, &quoted_lark(&large));
    let deep = format!("start: {}\"a\"{}", "(".repeat(5_000), ")".repeat(5_000));
    refusal(&grammars, &quoted_lark(&deep));
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
