//! Ids to text one at a time: every text comes back, no character is cut.

use proptest::prelude::*;
use stemma::tokenizer::{Detokenizer, Tokenizer};

use super::{fixture, random_cases};

/// Returns the results of each push and of the finish.
fn pushes(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<String> {
    let mut detokenizer: Detokenizer = tokenizer.detokenizer();
    let mut parts: Vec<String> = ids.iter().map(|&id| detokenizer.push(id)).collect();
    parts.push(detokenizer.finish());
    parts
}

#[test]
fn a_character_appears_with_its_last_byte() {
    let tokenizer = fixture("chatml.json");
    let ids = tokenizer.encode_text("a👍🏽", false);
    assert_eq!(ids.len(), 9, "one token for each byte");
    let parts = pushes(&tokenizer, &ids);
    assert_eq!(parts, ["a", "", "", "", "👍", "", "", "", "🏽", ""]);
}

#[test]
fn control_tokens_are_written_only_where_they_are_shown() {
    let tokenizer = fixture("chatml.json");
    let id = |token_text: &str| tokenizer.token_id(token_text).expect(token_text);
    let (start, end) = (id("<|im_start|>"), id("<|im_end|>"));
    let mut shown = tokenizer.detokenizer().showing([start].into());
    assert_eq!(shown.bytes_of(start), b"<|im_start|>");
    let parts = [start, id("<think>"), end].map(|id| shown.push(id));
    assert_eq!(parts, ["<|im_start|>", "<think>", ""]);
    assert_eq!(pushes(&tokenizer, &[start, end]), ["", "", ""]);
}

#[test]
fn a_cut_character_is_replaced_at_the_end_only() {
    let tokenizer = fixture("chatml.json");
    let ids = tokenizer.encode_text("é€", false);
    assert_eq!(pushes(&tokenizer, &ids[..4]), ["", "é", "", "", "\u{FFFD}"]);
}

#[test]
fn bytes_that_cannot_become_a_character_are_replaced_at_once() {
    let tokenizer = fixture("chatml.json");
    let euro = tokenizer.encode_text("€", false);
    let a = tokenizer.encode_text("a", false)[0];
    assert_eq!(
        pushes(&tokenizer, &[euro[0], a, euro[1], euro[2]]),
        ["", "\u{FFFD}a", "\u{FFFD}", "\u{FFFD}", ""]
    );
}

#[test]
fn control_tokens_write_nothing_even_within_a_character() {
    let tokenizer = fixture("chatml.json");
    let euro = tokenizer.encode_text("€", false);
    let ids = [1, euro[0], 2, euro[1], 99_999, euro[2], 0];
    assert_eq!(pushes(&tokenizer, &ids).concat(), "€");
}

#[test]
fn sentencepiece_takes_its_own_space_away_and_no_other() {
    let tokenizer = fixture("sentencepiece.json");
    for text in ["Paris", " Paris", "  two", "a b", "", " ", "x\n y", "▁"] {
        let ids = tokenizer.encode_text(text, true);
        let expected = text.replace('▁', " ");
        assert_eq!(tokenizer.decode(&ids), expected, "{ids:?}");
    }
}

#[test]
fn byte_fallback_spells_what_the_vocabulary_lacks() {
    let tokenizer = fixture("sentencepiece.json");
    let ids = tokenizer.encode_text("€", false);
    let texts: Vec<Vec<u8>> = ids.iter().map(|&id| tokenizer.token_bytes(id)).collect();
    assert_eq!(texts, [vec![b' '], vec![0xE2], vec![0x82], vec![0xAC]]);
    assert_eq!(pushes(&tokenizer, &ids), ["", "", "", "€", ""]);
}

#[test]
fn byte_level_texts_come_back() {
    let tokenizer = fixture("chatml.json");
    proptest!(random_cases(), |(text in any::<String>())| {
        prop_assert_eq!(tokenizer.decode(&tokenizer.encode_text(&text, true)), text);
    });
}

#[test]
fn sentencepiece_texts_come_back() {
    let tokenizer = fixture("sentencepiece.json");
    proptest!(random_cases(), |(text in any::<String>())| {
        // U+2581 is how SentencePiece writes a space.
        let expected = text.replace('\u{2581}', " ");
        prop_assert_eq!(tokenizer.decode(&tokenizer.encode_text(&text, false)), expected);
    });
}

#[test]
fn any_ids_decode_to_their_bytes() {
    let tokenizer = fixture("chatml.json");
    proptest!(random_cases(), |(ids in prop::collection::vec(0u32..400, 0..64))| {
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| tokenizer.token_bytes(id)).collect();
        let parts = pushes(&tokenizer, &ids);
        prop_assert_eq!(parts.concat(), String::from_utf8_lossy(&bytes));
    });
}

#[test]
fn any_ids_of_sentencepiece_decode_to_their_bytes() {
    let tokenizer = fixture("sentencepiece.json");
    proptest!(random_cases(), |(ids in prop::collection::vec(0u32..470, 0..64))| {
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| tokenizer.token_bytes(id)).collect();
        let text = String::from_utf8_lossy(&bytes);
        let expected = text.strip_prefix(' ').unwrap_or(&text);
        prop_assert_eq!(pushes(&tokenizer, &ids).concat(), expected);
    });
}
