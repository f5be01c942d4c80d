//! Descriptions that try to hold a thread, or memory, or to loosen what they ask for.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Verdict, grammars, schema, spec, verdict};
use crate::grammar::{TextGrammar, ValueGrammar};

fn nested(depth: usize) -> Value {
    (0..depth).fold(
        json!({"type": "integer"}),
        |inner, _| json!({"type": "array", "items": inner}),
    )
}

fn doubling() -> Value {
    let mut definitions = serde_json::Map::new();
    definitions.insert("a0".to_owned(), json!({"type": "integer"}));
    for n in 1..60 {
        let half = json!({"$ref": format!("#/$defs/a{}", n - 1)});
        definitions.insert(format!("a{n}"), json!({"allOf": [half.clone(), half]}));
    }
    json!({"$defs": definitions, "$ref": "#/$defs/a59"})
}

fn products() -> Value {
    let choice = |n: usize| {
        let of = |m: usize| json!({"type": "string", "pattern": format!("{n}.*{m}")});
        json!({"anyOf": (0..20).map(of).collect::<Vec<_>>()})
    };
    json!({"allOf": (0..8).map(choice).collect::<Vec<_>>()})
}

fn wide(count: usize) -> Value {
    let names: Vec<String> = (0..count).map(|n| format!("p{n}")).collect();
    let properties: serde_json::Map<String, Value> = names
        .iter()
        .map(|name| (name.clone(), json!({"type": "string"})))
        .collect();
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

/// All of these are taken or refused; that the test ends is what it checks.
#[test]
fn nothing_holds_a_thread() {
    let grammars = grammars();
    let mut alternatives = String::from("(a");
    for n in 0..300 {
        write!(alternatives, "|{n}.*b").expect("text");
    }
    alternatives.push(')');
    let schemas = [
        nested(60),
        nested(2000),
        doubling(),
        products(),
        wide(500),
        json!({"type": "array", "items": {}, "minItems": 100_000}),
        json!({"type": "string", "minLength": 100_000}),
        json!({"type": "string", "pattern": "(a{1,1000}){1,1000}"}),
        json!({"type": "string", "pattern": "(x+x+)+y"}),
        json!({"type": "string", "pattern": "^(.*a.*){40}$"}),
        json!({"type": "string", "pattern": alternatives.chars().take(990).collect::<String>()}),
        json!({"type": "number", "multipleOf": 1e-300}),
        json!({"type": "number", "minimum": -1.797e308, "maximum": 1.797e308}),
        json!({"enum": (0..5000).map(|n| json!(format!("value {n}"))).collect::<Vec<_>>()}),
        json!({"allOf": vec![json!({"$ref": "#"}); 8]}),
        json!({"anyOf": vec![json!({"$ref": "#"}); 8]}),
    ];
    for hostile in schemas {
        let text = hostile.to_string();
        let shown: String = text.chars().take(80).collect();
        let started = std::time::Instant::now();
        let outcome = match grammars.constraint(&schema(&hostile)) {
            Ok(_) => "taken".to_owned(),
            Err(error) => error.to_string(),
        };
        println!(
            "{:>6} ms {shown} → {outcome}",
            started.elapsed().as_millis()
        );
        assert!(!outcome.contains("too long"), "{shown}");
    }
}

#[test]
fn a_schema_cannot_loosen_itself() {
    let grammars = grammars();
    // Options of the compiler's are refused at the root as anywhere.
    let options = schema(&json!({"x-guidance": {"lenient": true}, "type": "integer"}));
    assert!(grammars.constraint(&options).is_err());
    let dual = schema(
        &json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}),
    );
    assert_ne!(
        verdict(&grammars, &dual, "{\"a\": 1, \"a\": \"x\"}"),
        Verdict::Whole
    );
}

#[test]
fn what_is_too_large_is_refused() {
    let grammars = grammars();
    let long = "a".repeat(300 << 10);
    for form in [
        ValueGrammar::Keyed("input".to_owned(), TextGrammar::Regex(long.clone())),
        ValueGrammar::Lark(format!("start: \"{long}\"")),
    ] {
        assert!(grammars.constraint(&spec(form)).is_err());
    }
    assert!(
        grammars
            .constraint(&schema(&json!({"const": long})))
            .is_err()
    );
}
