//! Checks which real chat templates allow forks, against the table in docs/engine.md.

use std::{fmt::Write as _, path::PathBuf, sync::Arc};

use jiff::{Timestamp, tz::TimeZone};
use serde_json::json;

use super::continuation::{Parent, RebuildReason, added};
use crate::{
    conversation::{
        CallKind, CallOutput, ContentPart, FunctionCall, FunctionTool, Item, Message, Preamble,
        Role,
    },
    template::{ChatTemplate, Rendering, TemplateError},
    tokenizer::{PromptSegment, SpecialTokens},
};

/// Names the folder of real templates.
const FOLDER: &str = "STEMMA_TEST_TEMPLATES";

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/engine.md");

/// A family, one of its templates, and the tokens that end its models' answers.
const FAMILIES: [(&str, &str, &[&str]); 14] = [
    (
        "ChatML (Bielik 3.0)",
        "llama.cpp/Bielik-11B-v3.0-Instruct.jinja",
        &["<|im_end|>"],
    ),
    ("SmolLM2", "gguf/smollm2.jinja", &["<|im_end|>"]),
    (
        "Qwen2.5",
        "llama.cpp/Qwen-Qwen2.5-7B-Instruct.jinja",
        &["<|im_end|>"],
    ),
    ("Qwen3", "llama.cpp/Qwen-Qwen3-0.6B.jinja", &["<|im_end|>"]),
    (
        "Llama 3.1",
        "llama.cpp/meta-llama-Llama-3.1-8B-Instruct.jinja",
        &["<|eot_id|>"],
    ),
    (
        "Mistral Nemo",
        "llama.cpp/mistralai-Mistral-Nemo-Instruct-2407.jinja",
        &["</s>"],
    ),
    ("Gemma 3", "trl/gemma3.jinja", &["<end_of_turn>"]),
    (
        "Gemma 2 (strict alternation)",
        "llama.cpp/google-gemma-2-2b-it.jinja",
        &["<end_of_turn>"],
    ),
    (
        "Phi 3.5",
        "llama.cpp/microsoft-Phi-3.5-mini-instruct.jinja",
        &["<|end|>"],
    ),
    (
        "DeepSeek V3.1",
        "llama.cpp/deepseek-ai-DeepSeek-V3.1.jinja",
        &["<｜end▁of▁sentence｜>"],
    ),
    (
        "DeepSeek R1 Distill",
        "llama.cpp/deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja",
        &["<｜end▁of▁sentence｜>"],
    ),
    (
        "GLM 4.6",
        "llama.cpp/GLM-4.6.jinja",
        &["<|endoftext|>", "<|user|>", "<|observation|>"],
    ),
    (
        "gpt-oss",
        "llama.cpp/openai-gpt-oss-120b.jinja",
        &["<|return|>", "<|call|>"],
    ),
    (
        "Kimi K2",
        "llama.cpp/Kimi-K2-Instruct.jinja",
        &["<|im_end|>"],
    ),
];

/// Answers as models give them: plain, with white space around it, after some thinking.
const ANSWERS: [&str; 3] = ["Yes.", " Yes.\n", "<think>\nHm.\n</think>\n\nYes."];

#[test]
fn the_documents_say_which_templates_allow_forks() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        println!("skipped: {FOLDER} does not name a folder of templates");
        return;
    };
    let mut rows = String::new();
    for (family, file, ends) in FAMILIES {
        let source = std::fs::read_to_string(folder.join(file)).expect(file);
        let special = SpecialTokens {
            eos: Some(ends[0].to_owned()),
            ..SpecialTokens::default()
        };
        let template = ChatTemplate::compile(&source, &special, Arc::new([])).expect(file);
        write!(rows, "| {family} |").expect("text");
        for answer in ANSWERS {
            let outcome = outcome(&continued(&template, answer, ends));
            write!(rows, " {outcome} |").expect("text");
        }
        writeln!(rows, " {} |", after_call(&template, ends)).expect("text");
    }
    let docs = std::fs::read_to_string(DOCS).expect(DOCS);
    let missing = rows.lines().filter(|row| !docs.contains(row));
    let missing: Vec<&str> = missing.collect();
    assert!(
        missing.is_empty(),
        "{DOCS} does not have these rows:\n{rows}"
    );
}

/// Returns what is added to the tokens of a first turn with this answer, if they can be continued.
fn continued(
    template: &ChatTemplate,
    answer: &str,
    ends: &[&str],
) -> Result<Vec<PromptSegment>, RebuildReason> {
    let said = |role, text: &str| {
        Item::Message(Message {
            role,
            content: vec![ContentPart::Text(text.to_owned())],
        })
    };
    let first = [said(Role::User, "Is it?")];
    let answered = [said(Role::Assistant, answer), said(Role::User, "Really?")];
    let both = [first.as_slice(), &answered].concat();
    let prompt: String = render(template, &first)
        .iter()
        .map(PromptSegment::text)
        .collect();
    let parent = Parent {
        prompt: &prompt,
        answer: Some(answer),
        shown: &[answer],
    };
    added(parent, &render(template, &both), &texts(ends))
}

/// Returns how the result of a call is continued.
fn after_call(template: &ChatTemplate, ends: &[&str]) -> &'static str {
    if !template.mentions("tools") {
        return "no tools";
    }
    let head = Preamble {
        tools: vec![FunctionTool {
            name: "get_weather".to_owned(),
            description: Some("Tells the weather.".to_owned()),
            parameters: json!({"type": "object", "properties": {}})
                .as_object()
                .cloned(),
            strict: None,
            path: String::new(),
        }],
        ..Preamble::default()
    };
    let items = [
        Item::Message(Message {
            role: Role::User,
            content: vec![ContentPart::Text("Weather?".to_owned())],
        }),
        Item::FunctionCall(FunctionCall {
            call_id: "call_1".to_owned(),
            name: "get_weather".to_owned(),
            namespace: None,
            arguments: "{\"city\": \"Oslo\"}".to_owned(),
        }),
        Item::CallOutput(CallOutput {
            call_id: "call_1".to_owned(),
            of: CallKind::Function,
            output: vec![ContentPart::Text("Sun.".to_owned())],
        }),
    ];
    let render = |count: usize| render_with(&head, template, &items[..count]);
    let (Ok(prompt), Ok(whole)) = (render(1), render(3)) else {
        return "refused";
    };
    let parent = Parent {
        prompt: &prompt.iter().map(PromptSegment::text).collect::<String>(),
        answer: None,
        shown: &["get_weather"],
    };
    outcome(&added(parent, &whole, &texts(ends)))
}

fn outcome(added: &Result<Vec<PromptSegment>, RebuildReason>) -> &'static str {
    match added {
        Ok(_) => "fork",
        Err(RebuildReason::EndToken) => "rebuilt: no end token",
        Err(_) => "rebuilt",
    }
}

fn texts(ends: &[&str]) -> Vec<String> {
    ends.iter().map(|end| (*end).to_owned()).collect()
}

fn render(template: &ChatTemplate, items: &[Item]) -> Vec<PromptSegment> {
    let rendered = render_with(&Preamble::default(), template, items);
    rendered.expect("a template that takes a plain conversation")
}

fn render_with(
    head: &Preamble,
    template: &ChatTemplate,
    items: &[Item],
) -> Result<Vec<PromptSegment>, TemplateError> {
    let rendering = Rendering {
        head,
        items,
        add_generation_prompt: true,
    };
    let now = Timestamp::constant(1_760_000_000, 0).to_zoned_datetime(TimeZone::UTC);
    template.render(&rendering, &now)
}
