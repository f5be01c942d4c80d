//! Texts of a client's grammar within JSON.

use super::{
    grammars,
    inputs::{PATCH, check, keyed},
    refusal,
};
use crate::grammar::{Spec, TextForm};

fn quoted_lark(definition: &str) -> Spec {
    keyed(TextForm::Lark(definition.to_owned()))
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
