//! Qwen3-Coder, Qwen 3.5, Nemotron 3 and Step 3.5: `<function=NAME>` with a `<parameter=KEY>` for each argument. Seed-OSS
//! writes the same on single lines.

use super::{ArgumentTags, CallFormat, CallTemplate};
use crate::output_parser::syntax::{
    name_then_json::name_before,
    xml_arguments::{XmlCalls, XmlFormat},
};

const OPEN: &str = "<tool_call>";
const FUNCTION: &str = "<function=";
const SEED_OPEN: &str = "<seed:tool_call>";

pub(super) const QWEN: CallFormat = CallFormat {
    is_of: |source| source.contains(OPEN) && source.contains("<parameter="),
    // Qwen3-Coder leaves out the outer marker at times.
    markers: &[OPEN, FUNCTION],
    behind: |marker| Box::new(XmlCalls::new(TAGS, marker == FUNCTION)),
    at_start: &[],
    tokens: &[OPEN, "</tool_call>"],
    wrapper: |_| Some(WRAPPER),
};

pub(super) const SEED: CallFormat = CallFormat {
    is_of: |source| source.contains(SEED_OPEN),
    markers: &[SEED_OPEN],
    behind: |_| Box::new(XmlCalls::new(SEED_TAGS, false)),
    tokens: &[SEED_OPEN, "</seed:tool_call>"],
    wrapper: |_| Some(SEED_WRAPPER),
    ..QWEN
};

const WRAPPER: CallTemplate = CallTemplate {
    before_name: "<tool_call>\n<function=",
    before_arguments: ">\n",
    after_arguments: "</function>\n</tool_call>",
    between: "\n",
    tags: Some(ArgumentTags {
        before_key: "<parameter=",
        before_value: ">\n",
        after_value: "\n</parameter>\n",
        ..ArgumentTags::PLAIN
    }),
    ..CallTemplate::PLAIN
};

const SEED_WRAPPER: CallTemplate = CallTemplate {
    before_name: "<seed:tool_call>\n<function=",
    after_arguments: "</function>\n</seed:tool_call>",
    tags: Some(ArgumentTags {
        before_key: "<parameter=",
        before_value: ">",
        after_value: "</parameter>\n",
        ..ArgumentTags::PLAIN
    }),
    ..WRAPPER
};

const TAGS: XmlFormat = XmlFormat {
    call: FUNCTION,
    name: |text| name_before(text, ">"),
    key: "<parameter=",
    key_name: |text| name_before(text, ">"),
    is_text: |_| None,
    value: "",
    value_end: "</parameter>",
    lines: true,
    cdata: false,
    call_end: "</function>",
    end: "</tool_call>",
};

const SEED_TAGS: XmlFormat = XmlFormat {
    lines: false,
    end: "</seed:tool_call>",
    ..TAGS
};

#[cfg(test)]
mod tests {
    use super::super::Family;
    use crate::output_parser::tests::check;

    const QWEN: &[(&str, &[&str])] = &[
        (
            "Look.\n<tool_call>\n<function=f>\n<parameter=s>\nmulti\nline \"quoted\"\n</parameter>\n<parameter=n>\n-3\n\
             </parameter>\n<parameter=o>\n{\"a\": [1]}\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n\
             <function=g>\n</function>\n</tool_call>",
            &[
                "text Look.",
                "f {\"s\": \"multi\\nline \\\"quoted\\\"\", \"n\": -3, \"o\": {\"a\": [1]}}",
                "g {}",
            ],
        ),
        // Tags inside of texts survive.
        (
            "<tool_call>\n<function=f>\n<parameter=s>\na</parameter> b</function></tool_call>\n\n</parameter>\n\
             </function>\n</tool_call>So.",
            &[
                "f {\"s\": \"a</parameter> b</function></tool_call>\\n\"}",
                "text So.",
            ],
        ),
        // Without the outer marker, and on one line.
        (
            "<function=f><parameter=n>5</parameter><parameter=m>null</parameter></function>",
            &["f {\"n\": 5, \"m\": null}"],
        ),
        (
            "<tool_call><function=f><parameter=either>5</parameter><parameter=x>True</parameter></function></tool_call>",
            &["f {\"either\": 5, \"x\": \"True\"}"],
        ),
        (
            "<tool_call>\n<function=h>\n</function>\n</tool_call>",
            &["text <tool_call>\n<function=h>\n</function>\n</tool_call>"],
        ),
        (
            "<tool_call>\n{\"name\": \"f\"}",
            &["text <tool_call>\n{\"name\": \"f\"}"],
        ),
        (
            "<tool_call>\n<function=f>\n<parameter=s>\nab\n",
            &["f {\"s\": \"ab…"],
        ),
        (
            "<tool_call>\n<function=f>\n<parameter=n>\n12",
            &["f {\"n\": 12…"],
        ),
        (
            "<tool_call>\n<function=f>\n<parameter=n>\n1\n</parameter>\noops</tool_call>",
            &["f {\"n\": 1\n</parameter>\noops</tool_call>…"],
        ),
    ];

    const SEED: &[(&str, &[&str])] = &[(
        "<seed:tool_call>\n<function=f>\n<parameter=s>\na</parameter>\n<parameter=o>{'a': True}</parameter>\n\
         </function>\n</seed:tool_call>",
        &["f {\"s\": \"\\na\", \"o\": {\"a\": true}}"],
    )];

    #[test]
    fn answers() {
        check(Family::QwenCoder, QWEN);
        check(Family::Seed, SEED);
    }
}
