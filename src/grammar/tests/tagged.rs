//! Calls whose arguments stand between tags.

use serde_json::json;

use super::{
    Verdict,
    calls::{is_stopped, items, wrapper},
    grammars, refusal, verdict,
};
use crate::grammar::{GrammarSpec, Shape, StartAt, TextGrammar, ToolCallGrammar, ValueGrammar};

/// Template source; a call of `f` with the texts before its keys, before its values, after them,
/// and at its end.
type Tagged = (&'static str, [&'static str; 5]);

/// All wrappers of tags.
const TAGGED: [Tagged; 7] = [
    (
        "<tool_call><parameter=",
        [
            "<tool_call>\n<function=f>\n",
            "<parameter=",
            ">\n",
            "\n</parameter>\n",
            "</function>\n</tool_call>",
        ],
    ),
    (
        "<seed:tool_call>",
        [
            "<seed:tool_call>\n<function=f>\n",
            "<parameter=",
            ">",
            "</parameter>\n",
            "</function>\n</seed:tool_call>",
        ],
    ),
    (
        "<arg_key></arg_key>\n<arg_value>",
        [
            "<tool_call>f\n",
            "<arg_key>",
            "</arg_key>\n<arg_value>",
            "</arg_value>\n",
            "</tool_call>",
        ],
    ),
    (
        "<arg_key></arg_key><arg_value>",
        [
            "<tool_call>f",
            "<arg_key>",
            "</arg_key><arg_value>",
            "</arg_value>",
            "</tool_call>",
        ],
    ),
    (
        "tool_calls:opensource",
        [
            "<tool_calls:opensource>\n<tool_call:opensource>f<tool_sep:opensource>\n",
            "<arg_key:opensource>",
            "</arg_key:opensource>\n<arg_value:opensource>",
            "</arg_value:opensource>\n",
            "</tool_call:opensource>\n</tool_calls:opensource>",
        ],
    ),
    (
        "<minimax:tool_call>",
        [
            "<minimax:tool_call>\n<invoke name=\"f\">\n",
            "<parameter name=\"",
            "\">",
            "</parameter>\n",
            "</invoke>\n</minimax:tool_call>",
        ],
    ),
    (
        "<function name= <param name=",
        [
            "<function name=\"f\">",
            "<param name=\"",
            "\">",
            "</param>",
            "</function>",
        ],
    ),
];

/// A call of `f` with arguments of this form, as a model writes it whose template has this in its source.
fn one_call(source: &str, form: ValueGrammar) -> GrammarSpec {
    let functions = [("f".to_owned(), form)];
    GrammarSpec {
        shape: Shape::ToolCalls(ToolCallGrammar::of(&wrapper(source), &functions, Some(1))),
        start: StartAt::Immediately,
    }
}

/// A text as such a model writes it.
fn marked(source: &str, text: &str) -> String {
    match source.contains("<param name=") && text.contains(['<', '&', '\n']) {
        true => format!("<![CDATA[{text}]]>"),
        false => text.to_owned(),
    }
}

#[test]
fn arguments_between_tags_are_what_the_schema_says() {
    let grammars = grammars();
    let schema = json!({
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "unit": {"enum": ["celsius", "\"k\""]},
            "count": {"type": "integer"},
            "points": {"type": "array", "items": {"$ref": "#/$defs/point"}},
        },
        "required": ["text", "count"],
        "$defs": {"point": {
            "type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"],
            "additionalProperties": false,
        }},
    });
    for (source, [begin, key, value, end, close]) in TAGGED {
        let call = |arguments: &[(&str, &str)]| {
            let arguments = arguments.iter().map(|(name, said)| {
                let said = marked(source, said);
                [key, name, value, &said, end].concat()
            });
            [begin, &arguments.collect::<String>(), close].concat()
        };
        let spec = |form: ValueGrammar| one_call(source, form);
        let said = spec(ValueGrammar::Schema(schema.clone()));
        let multi = "a\n\"b\" </para <é>";
        for good in [
            call(&[("text", multi), ("count", "-3")]),
            call(&[("text", ""), ("unit", "\"k\""), ("count", "0")]),
            call(&[
                ("text", "x"),
                ("unit", "celsius"),
                ("count", "7"),
                ("points", "[{\"x\": 1.5}]"),
            ]),
        ] {
            let found = verdict(&grammars, &said, &good);
            assert_eq!(found, Verdict::Whole, "{source}: {good}");
        }
        for wrong in [
            call(&[("text", "x")]),
            call(&[("count", "1")]),
            call(&[("text", "x"), ("count", "1.5")]),
            call(&[("text", "x"), ("count", "one")]),
            call(&[("text", "x"), ("unit", "kelvin"), ("count", "1")]),
            call(&[("text", "x"), ("count", "1"), ("other", "1")]),
            call(&[("text", "x"), ("count", "1"), ("points", "[{\"y\": 1}]")]),
        ] {
            is_stopped(&grammars, &said, &wrong);
        }
        let any = spec(ValueGrammar::object());
        for good in [call(&[]), call(&[("a", "1"), ("b_2", "x\ny")])] {
            let found = verdict(&grammars, &any, &good);
            assert_eq!(found, Verdict::Whole, "{source}: {good}");
        }
        let none = spec(ValueGrammar::Schema(
            json!({"type": "object", "additionalProperties": false}),
        ));
        assert_eq!(verdict(&grammars, &none, &call(&[])), Verdict::Whole);
        is_stopped(&grammars, &none, &call(&[("a", "1")]));
    }
}

#[test]
fn what_is_forced_is_read_as_a_call() {
    for (source, [begin, key, value, end, close]) in TAGGED {
        let text = marked(source, "a\nb");
        let answer = [
            begin, key, "s", value, &text, end, key, "n", value, "3", end, close,
        ];
        let answer = answer.concat();
        let expected = ["f {\"s\": \"a\\nb\", \"n\": 3}"];
        assert_eq!(items(source, &answer), expected, "{source}: {answer}");
    }
}

#[test]
fn texts_between_tags_are_what_the_schema_says() {
    let grammars = grammars();
    let schema = json!({
        "type": "object",
        "properties": {
            "day": {"type": "string", "pattern": "^\\d{4}-[0-9]{2}$"},
            "word": {"type": "string", "pattern": "x|^y"},
            "note": {"type": "string", "minLength": 2, "maxLength": 4},
        },
    });
    for (source, [begin, key, value, end, close]) in TAGGED {
        let call = |name: &str, said: &str| {
            let said = marked(source, said);
            [begin, key, name, value, &said, end, close].concat()
        };
        let spec = one_call(source, ValueGrammar::Schema(schema.clone()));
        for (name, good, bad) in [
            (
                "day",
                &["2026-11"][..],
                &["2026-1", "x2026-11", "", "٢٠٢٦-11"][..],
            ),
            ("word", &["x", "a\nx<b", "yes"], &["", "ay", "say\nthat"]),
            ("note", &["é<\n", "ab"], &["a", "abcde"]),
        ] {
            for text in good {
                let found = verdict(&grammars, &spec, &call(name, text));
                assert_eq!(found, Verdict::Whole, "{source}: {name} {text:?}");
            }
            for text in bad {
                is_stopped(&grammars, &spec, &call(name, text));
            }
        }
    }
}

#[test]
fn inputs_between_tags_are_texts_of_their_grammars() {
    let grammars = grammars();
    let lark = "start: \"(\" start \")\" | /[^()]+/";
    for (source, [begin, key, value, end, close]) in TAGGED {
        let call = |said: &str| {
            let said = marked(source, said);
            [begin, key, "input", value, &said, end, close].concat()
        };
        for (form, good, bad) in [
            (
                TextGrammar::Lark(lark.to_owned()),
                ["((a\n\"b\"))", "</a"],
                ["(a", "", "a)"],
            ),
            (
                TextGrammar::Regex("(?s)<.*>".to_owned()),
                ["<a>\n</a>", "<\\>"],
                ["<a", "a>", ""],
            ),
        ] {
            let spec = one_call(source, ValueGrammar::Keyed("input".to_owned(), form));
            for text in good {
                let found = verdict(&grammars, &spec, &call(text));
                assert_eq!(found, Verdict::Whole, "{source}: {text:?}");
            }
            for text in bad {
                is_stopped(&grammars, &spec, &call(text));
            }
        }
    }
}

#[test]
fn each_argument_of_dsml_says_whether_it_is_text() {
    let grammars = grammars();
    let schema = json!({
        "type": "object",
        "properties": {"s": {"type": "string"}, "n": {"type": "integer"}},
        "required": ["s"],
    });
    for (source, calls) in [
        ("｜DSML｜ <function_calls>", "function_calls"),
        ("｜DSML｜ <tool_calls>", "tool_calls"),
    ] {
        let spec = one_call(source, ValueGrammar::Schema(schema.clone()));
        let call = |arguments: &[(&str, &str, &str)]| {
            let arguments = arguments.iter().map(|(key, is_text, value)| {
                format!(
                    "<｜DSML｜parameter name=\"{key}\" string=\"{is_text}\">{value}</｜DSML｜parameter>\n"
                )
            });
            let arguments: String = arguments.collect();
            format!(
                "<｜DSML｜{calls}>\n<｜DSML｜invoke name=\"f\">\n{arguments}</｜DSML｜invoke>\n</｜DSML｜{calls}>"
            )
        };
        let good = call(&[("s", "true", "5 <é>"), ("n", "false", "3")]);
        assert_eq!(verdict(&grammars, &spec, &good), Verdict::Whole, "{good}");
        assert_eq!(items(source, &good), ["f {\"s\": \"5 <é>\", \"n\": 3}"]);
        for wrong in [
            call(&[("s", "false", "5")]),
            call(&[("s", "true", "5"), ("n", "true", "3")]),
            call(&[("n", "false", "3")]),
        ] {
            is_stopped(&grammars, &spec, &wrong);
        }
    }
}

#[test]
fn arguments_of_python_are_named_and_listed() {
    let grammars = grammars();
    let schema = json!({
        "type": "object",
        "properties": {
            "a": {"type": "string", "maxLength": 3},
            "b": {"type": "boolean"},
            "c": {"type": "array", "items": {"type": "integer"}},
        },
        "required": ["b"],
    });
    let source = "<|tool_call_start|>";
    let spec = one_call(source, ValueGrammar::Schema(schema));
    let call = |arguments: &str| format!("<|tool_call_start|>[f({arguments})]<|tool_call_end|>");
    for good in [
        "b=true",
        "a=\"x\\\"\", b=false",
        "b=true, c=[1, -2]",
        "a=\"\\n\", b=true, c=[]",
    ] {
        let found = verdict(&grammars, &spec, &call(good));
        assert_eq!(found, Verdict::Whole, "{good}");
    }
    for wrong in [
        "",
        "a=\"x\"",
        "b=true,",
        "b=true, a=\"x\"",
        "b=1",
        "a=\"long\", b=true",
        ", b=true",
    ] {
        is_stopped(&grammars, &spec, &call(wrong));
    }
    let said = call("a=\"\\n\\\"\", b=true, c=[]");
    assert_eq!(
        items(source, &said),
        ["f {\"a\": \"\\n\\\"\", \"b\": true, \"c\": []}"]
    );
    let any = one_call(source, ValueGrammar::object());
    for good in ["", "a=1", "a=1, b_2={\"x\": null}"] {
        assert_eq!(
            verdict(&grammars, &any, &call(good)),
            Verdict::Whole,
            "{good}"
        );
    }
    is_stopped(&grammars, &any, &call("a=1 b=2"));
    let input = ValueGrammar::Keyed("input".to_owned(), TextGrammar::Regex("a\"+".to_owned()));
    let keyed = one_call(source, input);
    assert_eq!(
        verdict(&grammars, &keyed, &call("input=\"a\\\"\\\"\"")),
        Verdict::Whole
    );
    is_stopped(&grammars, &keyed, &call("input=\"a\""));
}

/// Markers of calls in Gemma's notation, and delimiters of its strings.
const GEMMA: [[&str; 3]; 2] = [
    ["<|tool_call>", "<tool_call|>", "<|\"|>"],
    ["<start_function_call>", "<end_function_call>", "<escape>"],
];

/// A call of `f` in Gemma's notation, with `'` for what stands around texts.
fn gemma_call([open, close, quote]: [&str; 3], arguments: &str) -> String {
    let arguments = arguments.replace('\'', quote);
    format!("{open}call:f{{{arguments}}}{close}")
}

#[test]
fn gemmas_notation_is_what_the_schema_says() {
    let grammars = grammars();
    let schema = json!({
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 2},
            "unit": {"enum": ["celsius", "kelvin"]},
            "days": {"type": ["integer", "null"]},
            "way": {"$ref": "#/$defs/way"},
            "more": {},
        },
        "required": ["city"],
        "$defs": {"way": {
            "type": "array", "minItems": 1, "maxItems": 2,
            "items": {
                "type": "object",
                "properties": {"by": {"type": "string"}, "then": {"$ref": "#/$defs/way"}},
                "required": ["by"],
            },
        }},
    });
    for texts in GEMMA {
        let spec = one_call(texts[0], ValueGrammar::Schema(schema.clone()));
        for good in [
            "city:'Paris'",
            "city:'a\n\"b',unit:'kelvin',days:3",
            "city:'ab',days:null,way:[{by:'train',then:[{by:'foot'},{by:''}]}]",
            "city:'ab',more:{a_1:['x',{},-1.5,true],b:[]}",
        ] {
            let good = gemma_call(texts, good);
            let found = verdict(&grammars, &spec, &good);
            assert_eq!(found, Verdict::Whole, "{good}");
        }
        for wrong in [
            "",
            "city:'a'",
            "city:Paris",
            "city:'Paris',unit:'f'",
            "city:'Paris',days:1.5",
            "city:'Paris',way:[]",
            "city:'Paris',way:[{then:[]}]",
            "city:'Paris',way:[{by:'a'},{by:'b'},{by:'c'}]",
            "days:3,city:'Paris'",
            "city:'Paris',other:1",
        ] {
            is_stopped(&grammars, &spec, &gemma_call(texts, wrong));
        }
    }
}

#[test]
fn what_gemmas_notation_cannot_be_kept_to_is_refused() {
    let grammars = grammars();
    let unique = json!({"type": "object", "properties": {
        "a": {"type": "array", "uniqueItems": true},
    }});
    let lark = TextGrammar::Lark("start: \"(\" start \")\" | \"x\"".to_owned());
    for texts in GEMMA {
        let said = gemma_call(texts, "s:'a\n\"b',n:3,o:{by:['train']}");
        assert_eq!(
            items(texts[0], &said),
            ["f {\"s\": \"a\\n\\\"b\", \"n\": 3, \"o\": {\"by\": [\"train\"]}}"]
        );
        let keyed = one_call(
            texts[0],
            ValueGrammar::Keyed("input".to_owned(), lark.clone()),
        );
        let good = gemma_call(texts, "input:'((x))'");
        assert_eq!(verdict(&grammars, &keyed, &good), Verdict::Whole, "{good}");
        is_stopped(&grammars, &keyed, &gemma_call(texts, "input:'((x)'"));
        let unique = one_call(texts[0], ValueGrammar::Schema(unique.clone()));
        let (_, reason) = refusal(&grammars, &unique);
        assert!(reason.contains("uniqueItems"), "{reason}");
    }
}
