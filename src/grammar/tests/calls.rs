//! Calls as each family writes them: what its own template would show is let through, and nothing else.

use serde_json::json;

use super::{Verdict, grammars, run, verdict};
use crate::{
    grammar::{GrammarCompiler, GrammarSpec, Shape, StartAt, ToolCallGrammar, ValueGrammar},
    output_parser::{
        CallTemplate, ParserOptions, ParserSpec,
        tests::{read, tools},
    },
};

/// Template source; text before the calls; the calls of `f` and `g`; text between them; text after
/// them.
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

pub(super) fn wrapper(source: &str) -> CallTemplate {
    let description = ParserSpec::recognise(source, |_| false);
    description.wrapper.unwrap_or_else(|| panic!("{source}"))
}

/// `f` takes an integer `a`, `g` any object.
fn spec(wrapper: &CallTemplate, most: Option<u64>) -> GrammarSpec {
    let only_a = json!({
        "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
        "additionalProperties": false,
    });
    let functions = [
        ("f".to_owned(), ValueGrammar::Schema(only_a)),
        ("g".to_owned(), ValueGrammar::object()),
    ];
    GrammarSpec {
        shape: Shape::ToolCalls(ToolCallGrammar::of(wrapper, &functions, most)),
        start: StartAt::Immediately,
    }
}

pub(super) fn is_stopped(grammars: &GrammarCompiler, spec: &GrammarSpec, text: &str) {
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

/// Parses an answer with the output parser of this template.
pub(super) fn items(source: &str, answer: &str) -> Vec<String> {
    let tools = tools();
    let description = ParserSpec::recognise(source, |_| false);
    let mut reader = description.parser(ParserOptions {
        tools: &tools,
        ..ParserOptions::default()
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
}

#[test]
fn calls_come_after_a_reasoning_message() {
    let grammars = grammars();
    let (source, _, [f, _], ..) = FAMILIES[0];
    let spec = GrammarSpec {
        // Control tokens of the tokenizer here.
        start: StartAt::AfterMessage {
            open: "<|im_start|>analysis".to_owned(),
            close: "<|im_end|>assistant".to_owned(),
        },
        ..spec(&wrapper(source), Some(1))
    };
    for reasoning in ["", "f?", "Call\n\nf or g: {\"a\": 2}."] {
        let answer = format!("<|im_start|>analysis{reasoning}<|im_end|>assistant{f}");
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
fn calls_come_after_reasoning() {
    let grammars = grammars();
    for (source, before, [f, _], _, after) in FAMILIES {
        let spec = GrammarSpec {
            start: StartAt::AfterReasoning {
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
