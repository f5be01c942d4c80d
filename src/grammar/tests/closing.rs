//! Answers that come to their end where there is room for no more.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::{ROOM, allowed, grammars, schema, spec, take, tokenizer};
use crate::{
    grammar::{GrammarCompiler, GrammarSpec, ValueGrammar},
    sampling::{Constraint, TokenBitmask},
};

/// Draws random allowed tokens with room for `room` tokens. Returns the text and whether it ended.
/// A text that did not end may end inside a character.
fn drawn(constraint: &mut dyn Constraint, room: usize, random: &mut ChaCha8Rng) -> (Vec<u8>, bool) {
    let tokenizer = tokenizer();
    let ends = tokenizer.eos_tokens();
    let mut tokens = Vec::new();
    while tokens.len() < room {
        let left = room - tokens.len();
        let Some(set) = allowed(constraint, left) else {
            panic!("all is allowed");
        };
        let all: Vec<_> = set.iter().collect();
        let token = all[random.random_range(0..all.len())];
        if ends.contains(&token) {
            return (bytes(&tokens), true);
        }
        if take(constraint, token, left) {
            tokens.push(token);
        }
    }
    let ended = |set: TokenBitmask| ends.iter().any(|&end| set.contains(end));
    (bytes(&tokens), allowed(constraint, ROOM).is_none_or(ended))
}

fn bytes(tokens: &[u32]) -> Vec<u8> {
    let tokenizer = tokenizer();
    let bytes = tokens.iter().map(|&token| tokenizer.token_bytes(token));
    bytes.flatten().collect()
}

/// Draws with every room from too few tokens for the shortest answer on. Answers with enough room
/// must end.
fn check(grammars: &GrammarCompiler, form: &GrammarSpec, shortest: usize) {
    for room in (1..shortest + 12).chain([shortest + 60, shortest + 300]) {
        for seed in 0..4 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut constraint = grammars.constraint(form).expect("a grammar");
            let (said, whole) = drawn(&mut *constraint, room, &mut random);
            let expected = room >= shortest;
            assert!(
                whole || !expected,
                "{form:?} in {room} tokens with seed {seed}: {}",
                String::from_utf8_lossy(&said)
            );
            if whole {
                let said = String::from_utf8(said).expect("whole characters");
                let json: Result<Value, _> = serde_json::from_str(&said);
                // JSON has numbers beyond what a float holds.
                let beyond = |error: serde_json::Error| error.to_string().contains("out of range");
                assert!(json.map_or_else(beyond, |_| true), "{said}");
            }
        }
    }
}

/// The shortest answer that is found, and how many tokens it has.
fn shortest(grammars: &GrammarCompiler, form: &GrammarSpec) -> (String, usize) {
    let closing = grammars.closing(form).expect("an end");
    let said = String::from_utf8(bytes(&closing)).expect("whole characters");
    (said, closing.len())
}

#[test]
fn answers_end_in_time() {
    let person = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "role": {"enum": ["host", "guest"]},
            "home": {"anyOf": [{"type": "object", "properties": {"city": {"type": "string"}},
                "required": ["city"], "additionalProperties": false}, {"type": "null"}]},
        },
        "required": ["name", "age", "role", "home"],
        "additionalProperties": false,
    });
    let cases = [
        (json!({"type": "object"}), "{}"),
        (json!({"type": "boolean"}), "true"),
        (json!({"type": "number"}), "0"),
        (json!({"type": "string", "minLength": 3}), "\"012\""),
        (
            json!({"type": "string", "format": "date"}),
            "\"0123-04-15\"",
        ),
        (
            json!({"type": "array", "items": person, "minItems": 1}),
            r#"[{"name":"","age":0,"role":"host","home":null}]"#,
        ),
        // The way into itself is no way out.
        (
            json!({"$defs": {"node": {"type": "object",
            "properties": {"child": {"$ref": "#/$defs/node"}, "value": {"type": "integer"}},
            "required": ["value"], "additionalProperties": false}}, "$ref": "#/$defs/node"}),
            r#"{"child": {"value":0},"value":1}"#,
        ),
    ];
    let grammars = grammars();
    for (of, expected) in cases {
        let form = schema(&of);
        let (said, tokens) = shortest(&grammars, &form);
        assert_eq!(said, expected, "{of}");
        check(&grammars, &form, tokens);
    }
}

#[test]
fn so_do_other_forms() {
    let grammars = grammars();
    let lark = "start: \"[\" item (\",\" item)* \"]\"\nitem: /[0-9]+x/ | \"[\" item \"]\"\n";
    for form in [
        ValueGrammar::Lark(lark.to_owned()),
        ValueGrammar::Lark("start: /\"[a-c]{2,40}z\"/\n".to_owned()),
    ] {
        let form = spec(form);
        let (said, tokens) = shortest(&grammars, &form);
        for room in tokens..tokens + 40 {
            let mut random = ChaCha8Rng::seed_from_u64(room as u64);
            let mut constraint = grammars.constraint(&form).expect("a grammar");
            let (drawn, whole) = drawn(&mut *constraint, room, &mut random);
            let drawn = String::from_utf8_lossy(&drawn);
            assert!(whole, "{drawn} in {room} tokens, when {said} has {tokens}");
        }
    }
}

#[test]
fn with_room_enough_nothing_is_refused() {
    let grammars = grammars();
    let form = schema(&json!({"type": "array", "items": {"type": "string"}}));
    let mut constraint = grammars.constraint(&form).expect("a grammar");
    let tokens = tokenizer().encode_text("[\"a\", \"the server\", \"\"]", false);
    // An end of other tokens has room as well.
    for (at, &token) in tokens.iter().enumerate() {
        let left = tokens.len() - at + 4;
        let set = allowed(&mut *constraint, left).expect("not all");
        assert!(
            set.contains(token) && take(&mut *constraint, token, left),
            "{at}"
        );
    }
}
