//! Calls as each family writes them: what its own template would show is let through, and nothing else.

use serde_json::json;

use super::{Verdict, grammars, run, verdict};
use crate::{
    dialect::{
        Description, Reading, Wrapper,
        tests::{read, tools},
    },
    grammar::{Calls, Form, Grammars, Shape, Spec, Start},
};

/// What a template's source has, the text before the calls, the calls of `f` and `g`, what stands
/// between them, and the text after them.
type Written = (
    &'static str,
    &'static str,
    [&'static str; 2],
    &'static str,
    &'static str,
);

const F_LISTED: &str = "{\"name\": \"f\", \"arguments\": {\"a\": 1}}";
const G_LISTED: &str = "{\"name\": \"g\", \"arguments\": {\"x\": []}}";
const LISTED: [&str; 2] = [F_LISTED, G_LISTED];

/// All wrappers of JSON.
const FAMILIES: [Written; 16] = [
    (
        "<tool_call>",
        "",
        [
            "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
            "<tool_call>\n{\"name\": \"g\", \"arguments\": {\"x\": []}}\n</tool_call>",
        ],
        "\n",
        "",
    ),
    ("[TOOL_CALLS]", "[TOOL_CALLS][", LISTED, ", ", "]"),
    (
        "[TOOL_CALLS][ARGS]",
        "",
        [
            "[TOOL_CALLS]f[ARGS]{\"a\": 1}",
            "[TOOL_CALLS]g[ARGS]{\"x\": []}",
        ],
        "",
        "",
    ),
    (
        "<｜tool▁call▁begin｜>```json",
        "<｜tool▁calls▁begin｜>",
        [
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": 1}\n```<｜tool▁call▁end｜>",
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{\"x\": []}\n```<｜tool▁call▁end｜>",
        ],
        "\n",
        "<｜tool▁calls▁end｜>",
    ),
    (
        "<｜tool▁call▁begin｜>",
        "<｜tool▁calls▁begin｜>",
        [
            "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>",
            "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{\"x\": []}<｜tool▁call▁end｜>",
        ],
        "",
        "<｜tool▁calls▁end｜>",
    ),
    (
        "[TOOL_CALLS][CALL_ID][ARGS]",
        "",
        [
            "[TOOL_CALLS]f[CALL_ID]aB3456789[ARGS]{\"a\": 1}",
            "[TOOL_CALLS]g[CALL_ID]000000000[ARGS]{\"x\": []}",
        ],
        "",
        "",
    ),
    (
        "<|tool_call_begin|><|tool_call_argument_begin|>",
        "<|tool_calls_section_begin|>",
        [
            "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": 1}<|tool_call_end|>",
            "<|tool_call_begin|>functions.g:12<|tool_call_argument_begin|>{\"x\": []}<|tool_call_end|>",
        ],
        "",
        "<|tool_calls_section_end|>",
    ),
    (
        "<|START_ACTION|>",
        "<|START_ACTION|>[\n    ",
        [
            "{\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"a\": 1}}",
            "{\"tool_call_id\": \"1\", \"tool_name\": \"g\", \"parameters\": {\"x\": []}}",
        ],
        ",\n    ",
        "\n]<|END_ACTION|>",
    ),
    (
        "<|channel|><|message|>",
        "",
        [
            "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}",
            "<|channel|>commentary to=functions.g <|constrain|>json<|message|>{\"x\": []}",
        ],
        "",
        "",
    ),
    ("<TOOLCALL>", "<TOOLCALL>[", LISTED, ", ", "]</TOOLCALL>"),
    (
        "<tool_calls>[</tool_calls>",
        "<tool_calls>[",
        LISTED,
        ", ",
        "]</tool_calls>",
    ),
    (
        "</tool_calls>",
        "<tool_calls>\n",
        LISTED,
        "\n",
        "\n</tool_calls>",
    ),
    ("<|tool_call|>", "<|tool_call|>[", LISTED, ", ", "]"),
    (
        "<|function_call|>",
        "",
        [
            "<|function_call|>{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
            "<|function_call|>{\"name\": \"g\", \"arguments\": {\"x\": []}}",
        ],
        "",
        "",
    ),
    (
        "<|python_tag|>",
        "",
        [
            "{\"name\": \"f\", \"parameters\": {\"a\": 1}}",
            "{\"name\": \"g\", \"parameters\": {\"x\": []}}",
        ],
        "; ",
        "",
    ),
    (
        "<|python_tag|><function=",
        "",
        [
            "<function=f>{\"a\": 1}</function>",
            "<function=g>{\"x\": []}</function>",
        ],
        "",
        "",
    ),
];

fn wrapper(source: &str) -> Wrapper {
    let description = Description::recognise(source, |_| false);
    description.wrapper.unwrap_or_else(|| panic!("{source}"))
}

/// `f` takes an integer `a`, `g` any object.
fn spec(wrapper: &Wrapper, most: Option<u64>) -> Spec {
    let only_a = json!({
        "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
        "additionalProperties": false,
    });
    let functions = [
        ("f".to_owned(), Form::Schema(only_a)),
        ("g".to_owned(), Form::object()),
    ];
    Spec {
        shape: Shape::Calls(Calls::of(wrapper, &functions, most)),
        start: Start::Now,
    }
}

fn is_stopped(grammars: &Grammars, spec: &Spec, text: &str) {
    let found = verdict(grammars, spec, text);
    assert!(
        matches!(found, Verdict::Stopped(_)),
        "{text:?} is {found:?}"
    );
}

#[test]
fn calls_are_written_as_the_family_writes_them() {
    let grammars = grammars();
    for (source, before, [f, g], between, after) in FAMILIES {
        let spec = spec(&wrapper(source), None);
        let all = |calls: &str| format!("{before}{calls}{after}");
        for calls in [
            all(f),
            all(g),
            all(&[f, g].join(between)),
            all(&[g, f, f].join(between)),
        ] {
            assert_eq!(
                verdict(&grammars, &spec, &calls),
                Verdict::Whole,
                "{source}: {calls}"
            );
        }
        assert_eq!(verdict(&grammars, &spec, before), Verdict::Open, "{source}");
        for wrong in [
            "Sure",
            &all(&f.replace("\"a\"", "\"b\"")),
            &all(&f.replace("1}", "1.5}")),
            &all(&f.replace("{\"a\": 1}", "{}")),
            &all(&g.replace("{\"x\": []}", "[]")),
            &all(&f.replacen('f', "h", 2).replacen('f', "h", 3)),
        ] {
            is_stopped(&grammars, &spec, wrong);
        }
    }
}

/// What a template's source has, and a call of `f` with the texts before its keys, before its values and
/// after them, and what ends it.
type Tagged = (&'static str, [&'static str; 5]);

/// All wrappers of tags.
const TAGGED: [Tagged; 6] = [
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
];

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
            let arguments = arguments
                .iter()
                .map(|(name, said)| [key, name, value, said, end].concat());
            [begin, &arguments.collect::<String>(), close].concat()
        };
        let spec = |form: Form| Spec {
            shape: Shape::Calls(Calls::of(
                &wrapper(source),
                &[("f".to_owned(), form)],
                Some(1),
            )),
            start: Start::Now,
        };
        let said = spec(Form::Schema(schema.clone()));
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
        let any = spec(Form::object());
        for good in [call(&[]), call(&[("a", "1"), ("b_2", "x\ny")])] {
            let found = verdict(&grammars, &any, &good);
            assert_eq!(found, Verdict::Whole, "{source}: {good}");
        }
        let none = spec(Form::Schema(
            json!({"type": "object", "additionalProperties": false}),
        ));
        assert_eq!(verdict(&grammars, &none, &call(&[])), Verdict::Whole);
        is_stopped(&grammars, &none, &call(&[("a", "1")]));
    }
}

/// What a model with this template is read to say.
fn items(source: &str, answer: &str) -> Vec<String> {
    let tools = tools();
    let description = Description::recognise(source, |_| false);
    let mut reader = description.reader(Reading {
        tools: &tools,
        ..Reading::default()
    });
    read(&mut *reader, &[answer])
}

#[test]
fn what_is_forced_is_read_as_calls() {
    for (source, before, [f, g], between, after) in FAMILIES {
        let answer = format!("{before}{f}{between}{g}{after}");
        let expected = ["f {\"a\": 1}", "g {\"x\": []}"];
        assert_eq!(items(source, &answer), expected, "{source}: {answer}");
    }
    for (source, [begin, key, value, end, close]) in TAGGED {
        let answer = [
            begin, key, "s", value, "a\nb", end, key, "n", value, "3", end, close,
        ];
        let answer = answer.concat();
        let expected = ["f {\"s\": \"a\\nb\", \"n\": 3}"];
        assert_eq!(items(source, &answer), expected, "{source}: {answer}");
    }
}

#[test]
fn calls_come_behind_a_message_of_thoughts() {
    let grammars = grammars();
    let (source, _, [f, _], ..) = FAMILIES[0];
    let spec = Spec {
        // Control tokens of the tokenizer here.
        start: Start::AfterMessage {
            open: "<|im_start|>analysis".to_owned(),
            close: "<|im_end|>assistant".to_owned(),
        },
        ..spec(&wrapper(source), Some(1))
    };
    for thoughts in ["", "f?", "Call\n\nf or g: {\"a\": 2}."] {
        let answer = format!("<|im_start|>analysis{thoughts}<|im_end|>assistant{f}");
        assert_eq!(
            verdict(&grammars, &spec, &answer),
            Verdict::Whole,
            "{answer}"
        );
    }
    assert_eq!(verdict(&grammars, &spec, f), Verdict::Whole);
    is_stopped(&grammars, &spec, "<|im_start|>analysis f?<|im_end|>Sure.");
}

#[test]
fn there_are_as_many_calls_as_may_be() {
    let grammars = grammars();
    for (source, before, [f, g], between, after) in FAMILIES {
        let wrapper = wrapper(source);
        let calls = |count: usize| {
            let calls: Vec<&str> = [f, g].into_iter().cycle().take(count).collect();
            format!("{before}{}{after}", calls.join(between))
        };
        for most in 1..=3 {
            let spec = spec(&wrapper, Some(most));
            let most = most as usize;
            assert_eq!(
                verdict(&grammars, &spec, &calls(most)),
                Verdict::Whole,
                "{source}"
            );
            is_stopped(&grammars, &spec, &calls(most + 1));
        }
    }
}

#[test]
fn calls_come_behind_thoughts() {
    let grammars = grammars();
    for (source, before, [f, _], _, after) in FAMILIES {
        let spec = Spec {
            start: Start::AfterThoughts {
                open: Some("<think>".to_owned()),
                close: "</think>".to_owned(),
            },
            ..spec(&wrapper(source), None)
        };
        let calls = format!("{before}{f}{after}");
        for answer in [
            calls.clone(),
            format!("<think>\nf? {calls} No.\n</think>\n\n{calls}"),
        ] {
            let mut constraint = grammars.constraint(&spec).expect("a grammar");
            assert_eq!(
                run(&mut *constraint, &answer),
                Verdict::Whole,
                "{source}: {answer}"
            );
        }
        is_stopped(&grammars, &spec, "<think>\nHm.\n</think>\n\nSure.");
    }
}
