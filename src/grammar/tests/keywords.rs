//! Every keyword of JSON Schema is honoured or refused, as docs/api.md says.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Verdict, grammars, refusal, schema, verdict};
use crate::grammar::FORMATS;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/api.md");

/// A keyword, a schema that has it, JSON that it admits and JSON that it does not.
#[derive(Deserialize)]
struct Honoured {
    keyword: String,
    schema: Value,
    valid: Value,
    invalid: Value,
}

fn honoured() -> Vec<Honoured> {
    let file = include_str!("../../../tests/data/grammar/keywords.json");
    serde_json::from_str(file).expect("cases")
}

/// A text of each format that is enforced, and one that is not of it.
const TEXTS: [(&str, &str, &str); 10] = [
    ("date", "2024-02-28", "2024-13-01"),
    ("date-time", "2024-02-28T10:00:00Z", "2024-02-28"),
    ("duration", "P3DT4H", "3 days"),
    ("email", "a@example.org", "a.example.org"),
    ("hostname", "example.org", "-example"),
    ("ipv4", "127.0.0.1", "256.0.0.1"),
    ("ipv6", "::1", "1:2"),
    ("time", "10:00:00Z", "25:00:00Z"),
    ("uri", "https://example.org/a?b#c", "example"),
    ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567"),
];

/// A keyword that is refused, and a schema that has it.
fn refused() -> Vec<(&'static str, Value)> {
    let number = || json!({"type": "integer"});
    vec![
        ("not", json!({"not": number()})),
        ("if", json!({"if": number()})),
        ("then", json!({"then": number()})),
        ("else", json!({"else": number()})),
        (
            "dependentRequired",
            json!({"dependentRequired": {"a": ["b"]}}),
        ),
        ("dependentSchemas", json!({"dependentSchemas": {"a": {}}})),
        ("dependencies", json!({"dependencies": {"a": ["b"]}})),
        ("propertyNames", json!({"propertyNames": {"maxLength": 3}})),
        ("contains", json!({"contains": number()})),
        ("minContains", json!({"minContains": 1})),
        ("maxContains", json!({"maxContains": 1})),
        ("uniqueItems", json!({"uniqueItems": true})),
        ("unevaluatedItems", json!({"unevaluatedItems": false})),
        (
            "unevaluatedProperties",
            json!({"unevaluatedProperties": false}),
        ),
        ("$dynamicRef", json!({"$dynamicRef": "#a"})),
        ("$dynamicAnchor", json!({"$dynamicAnchor": "a"})),
        ("$recursiveRef", json!({"$recursiveRef": "#"})),
        ("$recursiveAnchor", json!({"$recursiveAnchor": true})),
        ("$anchor", json!({"$anchor": "a"})),
        ("$vocabulary", json!({"$vocabulary": {}})),
        ("contentSchema", json!({"contentSchema": {}})),
        ("x-guidance", json!({"x-guidance": {"lenient": true}})),
    ]
}

/// True if the table of the documents has a row for a keyword that says this.
fn is_documented(keyword: &str, says: &str) -> bool {
    let docs = std::fs::read_to_string(DOCS).expect(DOCS);
    let (_, section) = docs.split_once("### JSON Schema").expect("a section");
    let rows = section.lines().take_while(|line| !line.starts_with("## "));
    let mut rows = rows.filter(|line| line.starts_with('|'));
    rows.any(|row| row.contains(&format!("`{keyword}`")) && row.contains(says))
}

#[test]
fn honoured_keywords_admit_what_is_valid_and_nothing_else() {
    let grammars = grammars();
    for case in honoured() {
        let spec = schema(&case.schema);
        let of = |value: &Value| verdict(&grammars, &spec, &value.to_string());
        assert_eq!(
            of(&case.valid),
            Verdict::Whole,
            "{} {}",
            case.schema,
            case.valid
        );
        assert_ne!(
            of(&case.invalid),
            Verdict::Whole,
            "{} {}",
            case.schema,
            case.invalid
        );
        assert!(is_documented(&case.keyword, "enforced"), "{}", case.keyword);
    }
}

#[test]
fn formats_admit_what_is_of_them_and_nothing_else() {
    let grammars = grammars();
    assert_eq!(TEXTS.map(|(format, ..)| format), FORMATS);
    for (format, valid, invalid) in TEXTS {
        let spec = schema(&json!({"type": "string", "format": format}));
        let of = |text: &str| verdict(&grammars, &spec, &format!("\"{text}\""));
        assert_eq!(of(valid), Verdict::Whole, "{format} {valid}");
        assert_ne!(of(invalid), Verdict::Whole, "{format} {invalid}");
        assert!(is_documented("format", &format!("`{format}`")), "{format}");
    }
}

#[test]
fn refused_keywords_are_named_with_their_path() {
    let grammars = grammars();
    for (keyword, inner) in refused() {
        let outer = json!({"type": "object", "properties": {"a": {"items": inner}}});
        let (path, reason) = refusal(&grammars, &schema(&outer));
        assert_eq!(path, format!("properties.a.items.{keyword}"));
        assert!(reason.contains(keyword), "{reason}");
        assert!(is_documented(keyword, "refused"), "{keyword}");
    }
    for (at, schema_of) in [
        ("format", json!({"type": "string", "format": "regex"})),
        ("$ref", json!({"$ref": "https://example.org/schema"})),
        ("$ref", json!({"$ref": "#/$defs/none"})),
        (
            "properties.a.$ref",
            json!({"properties": {"a": {"$ref": "#/examples/0"}}, "examples": [{}]}),
        ),
        (
            "minProperties",
            json!({"type": "object", "minProperties": 1}),
        ),
        (
            "properties.a.$id",
            json!({"properties": {"a": {"$id": "b"}}}),
        ),
        ("items", json!({"items": [{}], "prefixItems": [{}]})),
        ("enum", json!({"enum": []})),
        ("properties.a", json!({"properties": {"a": 1}})),
        ("anyOf", json!({"anyOf": {}})),
        ("minLength", json!({"minLength": -1})),
    ] {
        let (path, _) = refusal(&grammars, &schema(&schema_of));
        assert_eq!(path, at, "{schema_of}");
    }
}

#[test]
fn what_nothing_satisfies_is_refused() {
    let grammars = grammars();
    for schema_of in [
        json!({"type": "integer", "minimum": 3, "maximum": 2}),
        json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}),
        json!({"type": "object", "properties": {"a": false}, "required": ["a"]}),
        json!({"type": "string", "pattern": "(?=a)b"}),
        json!({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
        json!({"type": "string", "pattern": "^a$", "minLength": 2}),
    ] {
        let (_, reason) = refusal(&grammars, &schema(&schema_of));
        assert!(reason.contains("enforced"), "{schema_of}: {reason}");
    }
}

#[test]
fn annotations_and_unknown_words_say_nothing() {
    let grammars = grammars();
    let described = schema(&json!({
        "$schema": "http://json-schema.org/draft-07/schema#", "$id": "a", "title": "t",
        "description": "d", "default": 1, "examples": [1], "readOnly": true, "writeOnly": false,
        "deprecated": true, "$comment": "c", "contentEncoding": "base64", "x-mine": {"not": {}},
        "uniqueItems": false, "type": "integer",
    }));
    assert_eq!(verdict(&grammars, &described, "12"), Verdict::Whole);
    assert_ne!(verdict(&grammars, &described, "\"a\""), Verdict::Whole);
    // What a draft did not have yet is not passed over because the schema names that draft.
    let older = schema(&json!({
        "$schema": "http://json-schema.org/draft-04/schema#", "type": "array",
        "prefixItems": [{"type": "string"}],
    }));
    assert_ne!(verdict(&grammars, &older, "[1]"), Verdict::Whole);
    // Names of properties are not keywords.
    let named = schema(
        &json!({"type": "object", "properties": {"not": {"type": "integer"}, "$schema": {}}}),
    );
    assert_eq!(verdict(&grammars, &named, "{\"not\": 1}"), Verdict::Whole);
}

#[test]
fn white_space_comes_to_an_end() {
    let grammars = grammars();
    let spec = schema(&json!({"type": "object", "properties": {"a": {"type": "integer"}}}));
    for text in ["{\"a\": 1}", "{\n    \"a\": 1\n}", "{\"a\":1}"] {
        assert_eq!(verdict(&grammars, &spec, text), Verdict::Whole, "{text:?}");
    }
    for text in ["{  ", "{\n\n", " {", "{\"a\":1 \n"] {
        let stopped = matches!(verdict(&grammars, &spec, text), Verdict::Stopped(_));
        assert!(stopped, "{text:?}");
    }
    let indented = format!("{{\n{}", " ".repeat(33));
    assert!(matches!(
        verdict(&grammars, &spec, &indented),
        Verdict::Stopped(_)
    ));
}
