//! The same ids and texts as the `tokenizers` library on its own.

use proptest::prelude::*;
use stemma::tokenizer::PromptSegment::Template;

use super::{data, fixture, random_cases};

const FIXTURES: [&str; 2] = ["chatml.json", "sentencepiece.json"];

fn library(name: &str) -> tokenizers::Tokenizer {
    tokenizers::Tokenizer::from_file(data(name)).expect("a tokenizer")
}

/// Texts with control tokens, white space, other scripts and whatever else.
fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("<|im_start|>".to_owned()),
        Just("<|im_end|>".to_owned()),
        Just("<s>".to_owned()),
        Just("</s>".to_owned()),
        Just("<think>".to_owned()),
        "[ \t\r\n]{0,4}",
        "[a-z ]{0,12}",
        "[A-Z]?[a-z]{0,6}[0-9]{0,4}[.,;!?'’-]{0,3}",
        "\\PC{0,6}",
        any::<String>(),
    ];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

#[test]
fn markup_becomes_the_ids_that_the_library_gives() {
    let pairs = FIXTURES.map(|name| (fixture(name), library(name)));
    proptest!(random_cases(), |(text in text())| {
        for (ours, library) in &pairs {
            let expected = library.encode(text.as_str(), false).expect("ids");
            let ids = ours.encode_prompt(&[Template(text.clone())]);
            prop_assert_eq!(ids, expected.get_ids());
        }
    });
}

#[test]
fn framed_text_becomes_the_ids_that_the_library_gives() {
    let pairs = FIXTURES.map(|name| (fixture(name), library(name)));
    proptest!(random_cases(), |(text in "[a-z é]{0,20}")| {
        for (ours, library) in &pairs {
            let expected = library.encode(text.as_str(), true).expect("ids");
            prop_assert_eq!(ours.encode_text(&text, true), expected.get_ids());
        }
    });
}

#[test]
fn ids_become_the_text_that_the_library_gives() {
    let pairs = FIXTURES.map(|name| (fixture(name), library(name)));
    proptest!(random_cases(), |(text in text())| {
        for (ours, library) in &pairs {
            let ids = ours.encode_prompt(&[Template(text.clone())]);
            let expected = library.decode(&ids, true).expect("a text");
            prop_assert_eq!(ours.decode(&ids), expected);
        }
    });
}
