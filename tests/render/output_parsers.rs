//! Tool calls and reasoning as real templates write them, parsed back to the same items.

use std::{path::PathBuf, sync::Arc};

use jiff::ZonedDateTime;
use serde_json::{Map, Value};
use stemma::{
    conversation::OutputDelta,
    output_parser::{CallTemplate, Family, ParserOptions, ParserSpec, ReasoningMarkers, Texts},
    template::ChatTemplate,
};

use super::conversations::{Conversations, Turned};

const FOLDER: &str = "STEMMA_TEST_TEMPLATES";

/// The family of each template.
const FAMILIES: &str = include_str!("../data/templates/families.txt");

/// The conversations in which the model calls.
const CASES: [&str; 6] = [
    "tool_call_output",
    "tool_calls_parallel",
    "tool_call_values",
    "tool_call_with_text",
    "tool_call_no_arguments",
    "reasoning_call",
];

/// Templates whose output cannot be parsed back, and why.
const KNOWN: [(&str, &str, &str); 1] = [(
    "llama.cpp/Apriel-1.6-15b-Thinker-fixed.jinja",
    "reasoning_call",
    "shows earlier thoughts without the words that the prompt begins them with",
)];

/// EOS tokens of the templates' families.
const ENDS: [&str; 23] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|eos|>",
    "<|end|>",
    "<|call|>",
    "<|eot|>",
    "<|assistant_end|>",
    "<|END_OF_TURN_TOKEN|>",
    "<｜end▁of▁sentence｜>",
    "<end_of_sentence>",
    "<seed:eos>",
    "<turn|>",
    "<|tool_response>",
    "<|observation|>",
    "<|message_sep|>",
    "[e~[",
    "<SPECIAL_12>",
    "<|role_end|>",
    "</assistant>",
    "<sep>",
    "<｜hy_eos:opensource｜>",
];

#[test]
fn what_templates_write_is_read_back() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        println!("skipped: {FOLDER} does not name a folder of templates");
        return;
    };
    let conversations = Conversations::read();
    let (special, now) = (conversations.special_tokens(), conversations.now());
    let (mut wrong, mut read) = (Vec::new(), 0);
    for line in FAMILIES.lines() {
        let (name, family) = line.split_once(' ').expect("a template and its family");
        let source = std::fs::read_to_string(folder.join(name)).expect(name);
        let template = ChatTemplate::compile(&source, &special, Arc::new([])).expect(name);
        // Hunyuan's reasoning markers are in its vocabulary only.
        let has_token = |token: &str| source.contains("HYTK") && token.contains(":opensource");
        let description = ParserSpec::recognise(&source, has_token);
        let found = description.family.map(|family| format!("{family:?}"));
        if found.as_deref().unwrap_or("none") != family {
            wrong.push(format!("{name}: {found:?}, not {family}"));
        }
        let known = |case: &str| KNOWN.iter().any(|known| known.0 == name && known.1 == case);
        for case in CASES.iter().filter(|case| found.is_some() && !known(case)) {
            let turned = conversations.cases[*case].turned();
            match difference(&template, &description, &turned, &now) {
                Some(Ok(())) => read += 1,
                Some(Err(difference)) => wrong.push(format!("{name} {case}: {difference}")),
                None => {}
            }
        }
    }
    println!("{read} answers were read back");
    let all = wrong.join("\n");
    assert!(wrong.is_empty(), "{} differ:\n{all}", wrong.len());
    assert!(read > 400, "only {read} answers were read back");
}

/// Returns the difference between an answer and its parsed rendering; `None` if a template does not
/// render it.
fn difference(
    template: &ChatTemplate,
    description: &ParserSpec,
    turned: &Turned,
    now: &ZonedDateTime,
) -> Option<Result<(), String>> {
    let prompt = turned.render(template, false, now).ok()?;
    let all = turned.render(template, true, now).ok()?;
    let common = common_len(&prompt, &all);
    let answer = &all[answer_start(&prompt, &all, common)..];
    let name = turned.calls().first()?.0.clone();
    if !answer.contains(&name) {
        return None;
    }
    // Messages of Harmony end within the turn.
    let ends = match description.family {
        Some(Family::Harmony) => &["<|call|>"][..],
        _ => &ENDS,
    };
    let end = ends.iter().filter_map(|end| answer.find(end)).min();
    let answer = answer[..end.unwrap_or(answer.len())].trim_end();
    // Without reasoning, the template may leave out the marker with which the prompt opened it.
    let closes = |thinking: ReasoningMarkers| answer.starts_with(thinking.close);
    let reading = ParserOptions {
        tools: &turned.head.tools,
        thinks: description.opens_reasoning(&all[..common])
            || description.thinking.is_some_and(closes),
        lenient: false,
    };
    let mut reader = description.parser(reading);
    let mut pieces = Vec::new();
    reader.push(answer, &mut pieces);
    reader.finish(&mut pieces);
    // Some templates show the first call only.
    let shown = answer.matches(&name).count().min(turned.calls().len());
    let said: String = pieces.iter().filter_map(text).collect();
    let is_same = calls(&pieces) == turned.calls()[..shown]
        && (said.is_empty() || said.trim() == turned.said());
    Some(
        match is_same && is_wrapped(description, answer, turned, shown) {
            true => Ok(()),
            false => Err(format!("{answer:?} is read as {pieces:?}")),
        },
    )
}

fn common_len(prompt: &str, all: &str) -> usize {
    let pairs = prompt.char_indices().zip(all.chars());
    let last = pairs.take_while(|((_, a), b)| a == b).last();
    last.map_or(0, |((at, character), _)| at + character.len_utf8())
}

/// Returns the start of the answer: behind the common prefix of its rendering and the prompt's, but
/// before a marker that both only begin alike.
fn answer_start(prompt: &str, all: &str, common: usize) -> usize {
    let open = all[..common].rfind('<');
    let open = open.filter(|at| common < prompt.len() && !all[*at..common].contains('>'));
    open.unwrap_or(common)
}

/// True if the text in which a grammar would force these calls is what the template writes.
fn is_wrapped(description: &ParserSpec, answer: &str, turned: &Turned, shown: usize) -> bool {
    let Some(wrapper) = description.wrapper else {
        return true;
    };
    // Mistral's models make up ids. Reka's template leaves out a line end and writes other escapes; Step's,
    // Ling's and Laguna's leave out line ends as well, DeepSeek's adds one, and LFM 2.5's has texts in single
    // quotes. Harmony's shows calls otherwise than its models write them, and Kimi's shows any id.
    let loose = [
        "\">\n\n</",
        "='",
        "</tool_call><tool_call>",
        "</arg_value><arg_key>",
        "\n\n</tool_call>",
        "ping</tool_call>",
    ];
    let has_own_form = wrapper.opening == "[TOOL_CALLS]["
        || answer.starts_with(' ')
        || wrapper.tags.is_some() && loose.iter().any(|form| answer.contains(form))
        || matches!(description.family, Some(Family::Harmony | Family::Kimi));
    let mut written = Vec::new();
    for (name, arguments) in &turned.written()[..shown] {
        let Some(arguments) = wrapped_arguments(&wrapper, arguments) else {
            return true;
        };
        written.push(format!(
            "{}{name}{}{arguments}{}",
            wrapper.before_name, wrapper.before_arguments, wrapper.after_arguments
        ));
    }
    let written = written.join(wrapper.between);
    let all = format!("{}{written}{}", wrapper.opening, wrapper.closing);
    shown == 0 || has_own_form || contains(answer, &all)
}

/// Arguments as a grammar would force them; `None` where templates write them in ways of their own.
fn wrapped_arguments(wrapper: &CallTemplate, json: &str) -> Option<String> {
    let Some(tags) = wrapper.tags else {
        return Some(json.to_owned());
    };
    let arguments: Map<String, Value> = serde_json::from_str(json).expect(json);
    let argument = |(key, value): (&String, &Value)| {
        let [open, close] = Texts::CDATA;
        let (between, value) = match value {
            Value::String(text) => {
                let between = tags.before_text.unwrap_or(tags.before_value);
                let is_marked = text.contains(['<', '&', '\n']);
                match tags.texts {
                    Texts::Cdata if is_marked => (between, format!("{open}{text}{close}")),
                    Texts::Bare | Texts::Cdata => (between, text.clone()),
                    Texts::Json => (between, value.to_string()),
                    Texts::Marked(marker) => (between, [marker, text, marker].concat()),
                }
            }
            Value::Number(number) if number.is_i64() => (tags.before_value, number.to_string()),
            _ => return None,
        };
        let before = tags.before_key;
        Some(format!("{before}{key}{between}{value}{}", tags.after_value))
    };
    let mut arguments: Vec<String> = arguments.iter().map(argument).collect::<Option<_>>()?;
    if matches!(tags.texts, Texts::Marked(_)) {
        // Gemma's templates sort them.
        arguments.sort();
    }
    Some(arguments.join(tags.between))
}

/// True if a text is there, with some id wherever it may have any.
fn contains(answer: &str, wanted: &str) -> bool {
    let mut parts = wanted.split(CallTemplate::ID);
    let first = parts.next().expect("a first part");
    let parts: Vec<&str> = parts.collect();
    answer.match_indices(first).any(|(at, _)| {
        let mut rest = &answer[at + first.len()..];
        parts.iter().all(|part| {
            let id = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
            let found = id.len() < rest.len() && id.starts_with(part);
            rest = id.get(part.len()..).unwrap_or_default();
            found
        })
    })
}

fn text(piece: &OutputDelta) -> Option<&str> {
    match piece {
        OutputDelta::Text(text) => Some(text),
        _ => None,
    }
}

/// Names and arguments of calls.
fn calls(pieces: &[OutputDelta]) -> Vec<(String, Value)> {
    let mut calls: Vec<(String, String)> = Vec::new();
    for piece in pieces {
        match piece {
            OutputDelta::Call { name } => calls.push((name.clone(), String::new())),
            OutputDelta::Arguments(text) => calls.last_mut().expect("a call").1.push_str(text),
            OutputDelta::Text(_) | OutputDelta::Reasoning(_) | OutputDelta::End => {}
        }
    }
    let parsed = |(name, text): (String, String)| {
        // A call without arguments has an empty object.
        let json = if text.is_empty() { "{}" } else { &text };
        let arguments = serde_json::from_str(json);
        (name, arguments.unwrap_or(Value::String(text)))
    };
    calls.into_iter().map(parsed).collect()
}
