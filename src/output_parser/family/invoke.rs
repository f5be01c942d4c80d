//! MiniMax M2, DeepSeek V3.2 and V4, MiniCPM 5: tags with a `name` attribute for the call and for each argument.

use super::{ArgumentTags, CallFormat, CallTemplate, Texts};
use crate::output_parser::syntax::{
    name_then_json::{Head, name_before},
    xml_arguments::{XmlCalls, XmlFormat},
};

const MINIMAX_OPEN: &str = "<minimax:tool_call>";
const DSML_CALLS: &str = "<｜DSML｜function_calls>";
const DSML_TOOLS: &str = "<｜DSML｜tool_calls>";
const MINICPM_FUNCTION: &str = "<function name=\"";

pub(super) const MINIMAX: CallFormat = CallFormat {
    is_of: |source| source.contains(MINIMAX_OPEN),
    markers: &[MINIMAX_OPEN],
    behind: |_| Box::new(XmlCalls::new(TAGS, false)),
    at_start: &[],
    tokens: &[MINIMAX_OPEN, "</minimax:tool_call>"],
    wrapper: |_| Some(MINIMAX_WRAPPER),
};

pub(super) const DSML: CallFormat = CallFormat {
    is_of: |source| source.contains("｜DSML｜"),
    markers: &[DSML_CALLS, DSML_TOOLS],
    behind: |marker| {
        let tags = match marker {
            DSML_TOOLS => DSML_TOOL_TAGS,
            _ => DSML_TAGS,
        };
        Box::new(XmlCalls::new(tags, false))
    },
    tokens: &["｜DSML｜"],
    wrapper: |source| {
        Some(match source.contains("function_calls>") {
            true => DSML_WRAPPER,
            false => DSML_TOOLS_WRAPPER,
        })
    },
    ..MINIMAX
};

pub(super) const MINICPM: CallFormat = CallFormat {
    is_of: |source| source.contains("<param name=") && source.contains("<function name="),
    markers: &[MINICPM_FUNCTION],
    behind: |_| Box::new(XmlCalls::new(MINICPM_TAGS, true)),
    tokens: &["<function", "</function>", "<param", "</param>"],
    wrapper: |_| Some(MINICPM_WRAPPER),
    ..MINIMAX
};

const MINIMAX_WRAPPER: CallTemplate = CallTemplate {
    opening: "<minimax:tool_call>\n",
    before_name: "<invoke name=\"",
    before_arguments: "\">\n",
    after_arguments: "</invoke>\n",
    closing: "</minimax:tool_call>",
    tags: Some(ArgumentTags {
        before_key: "<parameter name=\"",
        before_value: "\">",
        after_value: "</parameter>\n",
        ..ArgumentTags::PLAIN
    }),
    ..CallTemplate::PLAIN
};

const DSML_WRAPPER: CallTemplate = CallTemplate {
    opening: "<｜DSML｜function_calls>\n",
    before_name: "<｜DSML｜invoke name=\"",
    before_arguments: "\">\n",
    after_arguments: "</｜DSML｜invoke>\n",
    closing: "</｜DSML｜function_calls>",
    tags: Some(ArgumentTags {
        before_key: "<｜DSML｜parameter name=\"",
        before_text: Some("\" string=\"true\">"),
        before_value: "\" string=\"false\">",
        after_value: "</｜DSML｜parameter>\n",
        ..ArgumentTags::PLAIN
    }),
    ..CallTemplate::PLAIN
};

const DSML_TOOLS_WRAPPER: CallTemplate = CallTemplate {
    opening: "<｜DSML｜tool_calls>\n",
    closing: "</｜DSML｜tool_calls>",
    ..DSML_WRAPPER
};

const MINICPM_WRAPPER: CallTemplate = CallTemplate {
    before_name: "<function name=\"",
    before_arguments: "\">",
    after_arguments: "</function>",
    between: "\n",
    tags: Some(ArgumentTags {
        before_key: "<param name=\"",
        before_value: "\">",
        after_value: "</param>",
        texts: Texts::Cdata,
        ..ArgumentTags::PLAIN
    }),
    ..CallTemplate::PLAIN
};

const TAGS: XmlFormat = XmlFormat {
    call: "<invoke name=\"",
    name: |text| name_before(text, "\">"),
    key: "<parameter name=\"",
    key_name: |text| name_before(text, "\">"),
    is_text: |_| None,
    value: "",
    value_end: "</parameter>",
    lines: false,
    cdata: false,
    call_end: "</invoke>",
    end: "</minimax:tool_call>",
};

const DSML_TAGS: XmlFormat = XmlFormat {
    call: "<｜DSML｜invoke name=\"",
    name: |text| name_before(text, "\">"),
    key: "<｜DSML｜parameter name=\"",
    key_name: dsml_key,
    is_text: |head| {
        let attribute = head.split_once("string=\"");
        attribute.map(|(_, value)| value.starts_with("true"))
    },
    value: "",
    value_end: "</｜DSML｜parameter>",
    lines: false,
    cdata: false,
    call_end: "</｜DSML｜invoke>",
    end: "</｜DSML｜function_calls>",
};

const DSML_TOOL_TAGS: XmlFormat = XmlFormat {
    end: "</｜DSML｜tool_calls>",
    ..DSML_TAGS
};

const MINICPM_TAGS: XmlFormat = XmlFormat {
    call: MINICPM_FUNCTION,
    key: "<param name=\"",
    value_end: "</param>",
    cdata: true,
    call_end: "</function>",
    end: "",
    ..TAGS
};

/// Parses a key and the attribute behind it that says if the value is text.
fn dsml_key(text: &str) -> Head<'_> {
    let Some(end) = text.find('>') else {
        return Head::Maybe;
    };
    match text[..end].split_once('"') {
        Some((key, _)) => Head::Is(key, end + 1),
        None => Head::No,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Family;
    use crate::output_parser::tests::check;

    const MINIMAX: &[(&str, &[&str])] = &[(
        "Look.\n<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">a\n\"b\"</parameter>\n<parameter \
         name=\"n\">3</parameter>\n</invoke>\n<invoke name=\"g\">\n</invoke>\n</minimax:tool_call>",
        &[
            "text Look.",
            "f {\"s\": \"a\\n\\\"b\\\"\", \"n\": 3}",
            "g {}",
        ],
    )];

    const DSML: &[(&str, &[&str])] = &[
        (
            "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"x\" string=\"true\">5\
             </｜DSML｜parameter>\n<｜DSML｜parameter name=\"n\" string=\"false\">3</｜DSML｜parameter>\n\
             </｜DSML｜invoke>\n</｜DSML｜function_calls>",
            &["f {\"x\": \"5\", \"n\": 3}"],
        ),
        (
            "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"g\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>So.",
            &["g {}", "text So."],
        ),
    ];

    const MINICPM: &[(&str, &[&str])] = &[(
        "<function name=\"f\"><param name=\"s\">a</param><param name=\"n\">3</param></function>\n\
         <function name=\"g\"><param name=\"s\"><![CDATA[a\n<b>]]></param></function>",
        &["f {\"s\": \"a\", \"n\": 3}", "g {\"s\": \"a\\n<b>\"}"],
    )];

    #[test]
    fn answers() {
        check(Family::MiniMax, MINIMAX);
        check(Family::Dsml, DSML);
        check(Family::MiniCpm, MINICPM);
    }
}
