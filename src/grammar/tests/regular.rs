//! Texts of a client's grammar within JSON.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{
    Verdict, grammars,
    inputs::{PATCH, check, input, keyed},
    refusal, verdict,
};
use crate::grammar::{GrammarSpec, TextGrammar};

fn quoted_lark(definition: &str) -> GrammarSpec {
    keyed(TextGrammar::Lark(definition.to_owned()))
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
        ("start: \"(\" start \")\"", "needs itself"),
        ("start: start", "needs itself"),
        ("start: A\nA: \"a\" A | \"b\"", "`A` needs itself"),
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

/// Sums of products, in the order in which calculators take them.
const SUMS: &str = r#"?start: sum
sum: product | sum "+" product | sum "-" product
product: atom | product "*" atom
atom: NUMBER | "-" atom | "(" sum ")"
%import common.NUMBER
%import common.WS_INLINE
%ignore WS_INLINE
"#;

#[test]
fn rules_that_need_themselves_are_lists_or_nest() {
    let grammars = grammars();
    let long = ["1"; 100].join(" + ");
    check(
        &grammars,
        &quoted_lark(SUMS),
        &[
            "1",
            "1 + 2*3-4",
            "--1",
            "((1+2)*-3.5) - 4",
            "((((1))))",
            &long,
        ],
        &["(1", "1+", "1)", "()", "1 2", "", "*1"],
    );
    check(
        &grammars,
        &quoted_lark(
            r#"start: value
value: object | list | ESCAPED_STRING | "null"
object: "{" (pair ("," pair)*)? "}"
pair: ESCAPED_STRING ":" value
list: "[" [values] "]"
values: value | value "," values
%import common.ESCAPED_STRING
"#,
        ),
        &[
            "null",
            r#"{"a":[null,"\"",{"b":[]}],"c":{}}"#,
            "[null,null,null,null,null,null,null,null,null,null,null]",
            "[[[[]]]]",
        ],
        &["{", "[null,]", "{a:null}", "[null null]"],
    );
    check(
        &grammars,
        &quoted_lark("start: start OR start | \"not \" start | /[a-z]/\nOR: \" or \""),
        &["a", "a or not not b or c"],
        &["a or", "not ", "or b"],
    );
}

/// A symbol: a character as it is, or the place of a rule.
#[derive(Debug, Clone)]
enum Symbol {
    Character(char),
    Rule(usize),
}

/// Rules with their choices.
type SmallGrammar = Vec<Vec<Vec<Symbol>>>;

const RULES: usize = 3;

fn small_grammar() -> impl Strategy<Value = SmallGrammar> {
    let symbol = prop_oneof![
        3 => prop::sample::select(&['x', 'y', '(', '"'][..]).prop_map(Symbol::Character),
        2 => (0..RULES).prop_map(Symbol::Rule),
    ];
    let choice = prop::collection::vec(symbol, 0..4);
    let rule = prop::collection::vec(choice, 1..4);
    prop::collection::vec(rule, RULES)
}

/// As a client would write it.
fn lark_of(grammar: &SmallGrammar) -> String {
    let written = |symbol: &Symbol| match symbol {
        Symbol::Character('"') => r#""\"""#.to_owned(),
        Symbol::Character(character) => format!("\"{character}\""),
        Symbol::Rule(place) => format!("r{place}"),
    };
    let rules = grammar.iter().enumerate().map(|(place, choices)| {
        let choices = choices.iter().map(|choice| {
            let symbols: Vec<_> = choice.iter().map(written).collect();
            symbols.join(" ")
        });
        let choices: Vec<_> = choices.collect();
        format!("r{place}: {}\n", choices.join(" | "))
    });
    format!("start: r0\n{}", rules.collect::<String>())
}

/// Returns all texts of a grammar with at most `length_max` characters.
fn texts_of(grammar: &SmallGrammar, length_max: usize) -> BTreeSet<String> {
    let mut texts = vec![BTreeSet::new(); grammar.len()];
    loop {
        let before = texts.clone();
        for (rule, choices) in grammar.iter().enumerate() {
            for choice in choices {
                let mut so_far = BTreeSet::from([String::new()]);
                for symbol in choice {
                    let next = match symbol {
                        Symbol::Character(character) => BTreeSet::from([character.to_string()]),
                        Symbol::Rule(place) => before[*place].clone(),
                    };
                    let joined = so_far
                        .iter()
                        .flat_map(|a| next.iter().map(move |b| format!("{a}{b}")));
                    so_far = joined.filter(|text| text.len() <= length_max).collect();
                }
                texts[rule].extend(so_far);
            }
        }
        if texts == before {
            return texts.swap_remove(0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn short_texts_of_any_grammar_are_those_that_it_admits(
        grammar in small_grammar(),
        tried in prop::collection::vec("[xy(\"]{0,4}", 10),
    ) {
        let admitted = texts_of(&grammar, 4);
        let spec = quoted_lark(&lark_of(&grammar));
        let grammars = grammars();
        let Ok(_) = grammars.constraint(&spec) else {
            prop_assert!(admitted.is_empty(), "{} is refused", lark_of(&grammar));
            return Ok(());
        };
        let few = admitted.iter().take(10).cloned();
        let found: BTreeMap<String, bool> = few
            .chain(tried)
            .map(|text| {
                let found = verdict(&grammars, &spec, &input(&text));
                (text, found == Verdict::Whole)
            })
            .collect();
        for (text, is_whole) in found {
            prop_assert_eq!(
                is_whole, admitted.contains(&text),
                "{:?} by {}", text, lark_of(&grammar)
            );
        }
    }
}
