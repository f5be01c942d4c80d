//! GLM 4.5 to 4.7, Ling 3 and Laguna: a name, and `<arg_key>` and `<arg_value>` for each argument. Hunyuan writes the same
//! with longer tags.

use super::{ArgumentTags, CallFormat, CallTemplate};
use crate::output_parser::syntax::{
    name_then_json::{Head, name_before},
    xml_arguments::{XmlCalls, XmlFormat},
};

const OPEN: &str = "<tool_call>";
const HUNYUAN_OPEN: &str = "<tool_call:opensource>";
const HUNYUAN_CALLS: &str = "<tool_calls:opensource>";

pub(super) const GLM: CallFormat = CallFormat {
    is_of: |source| source.contains("<arg_key>"),
    markers: &[OPEN],
    behind: |_| Box::new(XmlCalls::new(TAGS, true)),
    at_start: &[],
    tokens: &[
        OPEN,
        "</tool_call>",
        "<arg_key>",
        "</arg_key>",
        "<arg_value>",
        "</arg_value>",
    ],
    wrapper: |source| {
        Some(match source.contains("</arg_key><arg_value>") {
            true => ON_ONE_LINE,
            false => ON_LINES,
        })
    },
};

pub(super) const HUNYUAN: CallFormat = CallFormat {
    is_of: |source| source.contains("tool_calls:opensource") || source.contains("<tool_sep"),
    markers: &[HUNYUAN_CALLS, HUNYUAN_OPEN],
    behind: |marker| Box::new(XmlCalls::new(HUNYUAN_TAGS, marker == HUNYUAN_OPEN)),
    tokens: &[
        HUNYUAN_CALLS,
        "</tool_calls:opensource>",
        HUNYUAN_OPEN,
        "</tool_call:opensource>",
        "<tool_sep:opensource>",
        "<arg_key:opensource>",
        "</arg_key:opensource>",
        "<arg_value:opensource>",
        "</arg_value:opensource>",
    ],
    wrapper: |_| Some(HUNYUAN_WRAPPER),
    ..GLM
};

/// Up to GLM 4.6.
const ON_LINES: CallTemplate = CallTemplate {
    before_name: OPEN,
    before_arguments: "\n",
    after_arguments: "</tool_call>",
    between: "\n",
    tags: Some(ArgumentTags {
        before_key: "<arg_key>",
        before_value: "</arg_key>\n<arg_value>",
        after_value: "</arg_value>\n",
        ..ArgumentTags::PLAIN
    }),
    ..CallTemplate::PLAIN
};

const ON_ONE_LINE: CallTemplate = CallTemplate {
    before_arguments: "",
    between: "",
    tags: Some(ArgumentTags {
        before_key: "<arg_key>",
        before_value: "</arg_key><arg_value>",
        after_value: "</arg_value>",
        ..ArgumentTags::PLAIN
    }),
    ..ON_LINES
};

const HUNYUAN_WRAPPER: CallTemplate = CallTemplate {
    opening: "<tool_calls:opensource>\n",
    before_name: HUNYUAN_OPEN,
    before_arguments: "<tool_sep:opensource>\n",
    after_arguments: "</tool_call:opensource>",
    between: "\n",
    closing: "\n</tool_calls:opensource>",
    tags: Some(ArgumentTags {
        before_key: "<arg_key:opensource>",
        before_value: "</arg_key:opensource>\n<arg_value:opensource>",
        after_value: "</arg_value:opensource>\n",
        ..ArgumentTags::PLAIN
    }),
    ..CallTemplate::PLAIN
};

const TAGS: XmlFormat = XmlFormat {
    call: "",
    name,
    key: "<arg_key>",
    key_name: |text| name_before(text, "</arg_key>"),
    is_text: |_| None,
    value: "<arg_value>",
    value_end: "</arg_value>",
    lines: false,
    cdata: false,
    call_end: "</tool_call>",
    end: "",
};

const HUNYUAN_TAGS: XmlFormat = XmlFormat {
    call: HUNYUAN_OPEN,
    name: |text| name_before(text, "<tool_sep:opensource>"),
    key: "<arg_key:opensource>",
    key_name: |text| name_before(text, "</arg_key:opensource>"),
    value: "<arg_value:opensource>",
    value_end: "</arg_value:opensource>",
    call_end: "</tool_call:opensource>",
    end: "</tool_calls:opensource>",
    ..TAGS
};

/// The name up to the end of its line or the next tag.
fn name(text: &str) -> Head<'_> {
    let name = text.trim_start();
    let before = text.len() - name.len();
    match name.find(['\n', '<']) {
        Some(end) => Head::Is(name[..end].trim_end(), before + end),
        None => Head::Maybe,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Family;
    use crate::output_parser::tests::check;

    const GLM: &[(&str, &[&str])] = &[
        (
            "<think>Hm.</think>\n<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>multi\nline</arg_value>\n\
             <arg_key>n</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n<tool_call>g\n</tool_call>",
            &[
                "thought Hm.",
                "f {\"s\": \"multi\\nline\", \"n\": 3}",
                "g {}",
            ],
        ),
        (
            "Look.<tool_call>f<arg_key>s</arg_key><arg_value>a</arg_value></tool_call>So.",
            &["text Look.", "f {\"s\": \"a\"}", "text So."],
        ),
        (
            "<tool_call>f<arg_key>s</arg_key><arg_value>a</arg_value>b</arg_value></tool_call>",
            &["f {\"s\": \"a</arg_value>b\"}"],
        ),
        (
            "<tool_call>h</tool_call>",
            &["text <tool_call>h</tool_call>"],
        ),
    ];

    const HUNYUAN: &[(&str, &[&str])] = &[(
        "<tool_calls:opensource>\n<tool_call:opensource>f<tool_sep:opensource>\n<arg_key:opensource>n\
         </arg_key:opensource>\n<arg_value:opensource>3</arg_value:opensource>\n</tool_call:opensource>\n\
         <tool_call:opensource>g<tool_sep:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>",
        &["f {\"n\": 3}", "g {}"],
    )];

    #[test]
    fn answers() {
        check(Family::Glm, GLM);
        check(Family::Hunyuan, HUNYUAN);
    }
}
