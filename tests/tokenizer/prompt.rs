//! Encoding of rendered prompts: control tokens come from the template, never from user text.

use proptest::prelude::*;
use stemma::tokenizer::{
    PromptSegment::{Template, UserText},
    Tokenizer,
};

use super::{fixture, random_cases};

fn chatml() -> Tokenizer {
    fixture("chatml.json")
}

fn turn(user: &str) -> [stemma::tokenizer::PromptSegment; 3] {
    [
        Template("<|im_start|>user\n".to_owned()),
        UserText(user.to_owned()),
        Template("<|im_end|>\n<|im_start|>assistant\n".to_owned()),
    ]
}

#[test]
fn markup_spells_control_tokens_and_literals_do_not() {
    let tokenizer = chatml();
    let ids = tokenizer.encode_prompt(&turn("<|im_end|>"));
    assert_eq!(ids.iter().filter(|&&id| id == 2).count(), 1);
    assert_eq!(tokenizer.decode(&ids), "user\n<|im_end|>\nassistant\n");
    let plain = tokenizer.encode_text("<|im_start|><|im_end|><think>", true);
    assert!(plain.iter().all(|id| (3..384).contains(id)), "{plain:?}");
}

#[test]
fn a_token_text_across_segments_is_no_control_token() {
    let tokenizer = chatml();
    let pieces = [Template("<|im_".to_owned()), UserText("end|>".to_owned())];
    assert!(!tokenizer.encode_prompt(&pieces).contains(&2));
    let markup = [Template("<|im_".to_owned()), Template("end|>".to_owned())];
    assert_eq!(tokenizer.encode_prompt(&markup), [2]);
}

#[test]
fn a_word_may_cross_from_markup_into_a_literal() {
    let tokenizer = chatml();
    let pieces = [
        Template("Say".to_owned()),
        UserText(" this".to_owned()),
        Template(" is".to_owned()),
    ];
    assert_eq!(
        tokenizer.encode_prompt(&pieces),
        tokenizer.encode_text("Say this is", false)
    );
    let llama = fixture("sentencepiece.json");
    assert_eq!(
        llama.encode_prompt(&pieces),
        llama.encode_text("Say this is", false)
    );
}

#[test]
fn markup_that_is_not_special_is_a_token_in_markup_only_and_is_shown() {
    let tokenizer = chatml();
    let call = tokenizer
        .token_id("<tool_call>")
        .expect("in the vocabulary");
    let pieces = [
        Template("<tool_call>".to_owned()),
        UserText("<tool_call>".to_owned()),
    ];
    let ids = tokenizer.encode_prompt(&pieces);
    assert_eq!(ids.iter().filter(|&&id| id == call).count(), 1);
    assert_eq!(tokenizer.decode(&ids), "<tool_call><tool_call>");
    assert!(
        tokenizer
            .control_token_texts()
            .contains(&"<tool_call>".to_owned())
    );
}

#[test]
fn the_beginning_of_sequence_comes_on_request() {
    let llama = fixture("sentencepiece.json");
    let bare = llama.encode_text("Paris", false);
    assert_eq!(
        llama.encode_text("Paris", true),
        [&[1], bare.as_slice()].concat()
    );
    assert_eq!(llama.encode_text("", true), [1]);
    assert!(llama.encode_text("", false).is_empty());
    assert!(llama.encode_prompt(&[]).is_empty());
}

#[test]
fn ends_and_roles_are_known() {
    let tokenizer = chatml();
    assert_eq!(tokenizer.eos_tokens(), [0, 2]);
    assert_eq!(tokenizer.token_id("<|im_end|>"), Some(2));
    assert_eq!(tokenizer.token_text(2), "<|im_end|>");
    assert_eq!(tokenizer.token_bytes(2), b"");
    assert_eq!(tokenizer.token_text(1_000_000), "");
    assert_eq!(tokenizer.vocab_size(), 390);
}

/// Texts full of control token texts, whole, cut and nested.
fn hostile() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("<|im_start|>".to_owned()),
        Just("<|im_end|>".to_owned()),
        Just("<|im_".to_owned()),
        Just("<|endoftext|>".to_owned()),
        Just("<tool_call>".to_owned()),
        Just("<think>".to_owned()),
        Just("<".to_owned()),
        Just("|>".to_owned()),
        any::<String>(),
    ];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

#[test]
fn a_literal_never_yields_a_control_token() {
    let tokenizer = chatml();
    proptest!(random_cases(), |(text in hostile())| {
        let ids = tokenizer.encode_prompt(&turn(&text));
        let controls: Vec<u32> =
            ids.iter().copied().filter(|id| !(3..384).contains(id)).collect();
        prop_assert_eq!(controls, [1, 2, 1]);
        prop_assert_eq!(tokenizer.decode(&ids), format!("user\n{text}\nassistant\n"));
    });
}

#[test]
fn segments_without_control_token_texts_equal_their_joined_text() {
    let tokenizer = chatml();
    proptest!(random_cases(), |(parts in prop::collection::vec(("[ a-zA-Z0-9\n.,é]{0,8}", any::<bool>()), 0..8))| {
        let joined: String = parts.iter().map(|(text, _)| text.as_str()).collect();
        let piece = |(text, literal)| if literal { UserText(text) } else { Template(text) };
        let pieces: Vec<_> = parts.into_iter().map(piece).collect();
        prop_assert_eq!(tokenizer.encode_prompt(&pieces), tokenizer.encode_text(&joined, false));
    });
}
