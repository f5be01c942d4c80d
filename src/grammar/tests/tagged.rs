//! Calls whose arguments stand between tags.

use serde_json::json;

use super::{
    Verdict,
    calls::{is_stopped, items, wrapper},
    grammars, verdict,
};
use crate::grammar::{Calls, Form, Shape, Spec, Start};

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

#[test]
fn what_is_forced_is_read_as_a_call() {
    for (source, [begin, key, value, end, close]) in TAGGED {
        let answer = [
            begin, key, "s", value, "a\nb", end, key, "n", value, "3", end, close,
        ];
        let answer = answer.concat();
        let expected = ["f {\"s\": \"a\\nb\", \"n\": 3}"];
        assert_eq!(items(source, &answer), expected, "{source}: {answer}");
    }
}
