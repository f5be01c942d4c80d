//! Small templates against what the environment of `transformers` printed for them.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};
use stemma::{
    conversation::{ContentPart, Item, Message, Preamble, Role},
    template::{ChatTemplate, Rendering, TemplateError},
    tokenizer::SpecialTokens,
};

use super::conversations::{Conversations, text_of};

const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/data/templates/expressions.json"
);

#[derive(Deserialize)]
struct Expressions {
    variables: Map<String, Value>,
    outcomes: Vec<Outcome>,
}

#[derive(Deserialize)]
struct Outcome {
    template: String,
    text: Option<String>,
    error: Option<String>,
}

fn said(role: Role, text: &str) -> Item {
    Item::Message(Message {
        role,
        content: vec![ContentPart::Text(text.to_owned())],
    })
}

fn render(
    source: &str,
    head: &Preamble,
    conversations: &Conversations,
) -> Result<String, TemplateError> {
    let special = SpecialTokens {
        bos: Some("<s>".to_owned()),
        ..SpecialTokens::default()
    };
    let template = ChatTemplate::compile(source, &special, Arc::new([]))?;
    let items = [said(Role::User, "Hi"), said(Role::Assistant, "Hello")];
    let rendering = Rendering {
        head,
        items: &items,
        add_generation_prompt: false,
    };
    let pieces = template.render(&rendering, &conversations.now())?;
    Ok(text_of(&pieces))
}

#[test]
fn expressions_print_as_jinja2_prints_them() {
    let text = std::fs::read_to_string(FILE).expect(FILE);
    let expressions: Expressions = serde_json::from_str(&text).expect(FILE);
    let conversations = Conversations::read();
    let head = Preamble {
        template_args: expressions.variables,
        ..Preamble::default()
    };
    let mut wrong = Vec::new();
    for outcome in &expressions.outcomes {
        let rendered = render(&outcome.template, &head, &conversations);
        let expected = outcome.text.as_ref().or(outcome.error.as_ref());
        if rendered.as_ref().ok() != outcome.text.as_ref() {
            let source = &outcome.template;
            wrong.push(format!(
                "{source}\n  expected {expected:?}\n  got {rendered:?}"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
