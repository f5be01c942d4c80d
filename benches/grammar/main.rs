//! Costs of grammars at a vocabulary of 150,000 tokens: building the trie, compiling, and one mask.
//!
//! `cargo bench --bench grammar`; takes the tokenizer of the alias `qwen2.5-coder-0.5b`.

use std::{
    env,
    hint::black_box,
    sync::Arc,
    task::{Context, Poll, Waker},
    thread,
};

use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};
use stemma::{
    grammar::{GrammarCompiler, GrammarSpec, Shape, StartAt, TextGrammar, ValueGrammar},
    id::TokenId,
    load::{self, Sources},
    sampling::Constraint,
    tokenizer::Tokenizer,
};

/// Tokens that an answer may have when none of them is near its end.
const ROOM: usize = 1 << 15;

const MODEL: &str = "qwen2.5-coder-0.5b";

/// An instance of the schema below.
const ANSWER: &str = "{\n  \"title\": \"On the descent of texts: a \\\"stemma\\\"\",\n  \"year\": 1850,\n  \"tags\": [\"philology\", \"copies\"],\n  \"author\": {\"name\": \"Karl Lachmann\", \"born\": \"1793-03-04\", \"email\": null},\n  \"score\": 0.975\n}";

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "title": {"type": "string", "maxLength": 200},
            "year": {"type": "integer", "minimum": 1000, "maximum": 2100},
            "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z ]+$"}},
            "author": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "born": {"type": "string", "format": "date"},
                    "email": {"anyOf": [{"type": "string", "format": "email"}, {"type": "null"}]},
                },
                "required": ["name", "born", "email"],
                "additionalProperties": false,
            },
            "score": {"type": "number"},
        },
        "required": ["title", "year", "tags", "author", "score"],
        "additionalProperties": false,
    })
}

/// A grammar that nests.
const NESTS: &str = r#"start: value
value: object | list | ESCAPED_STRING | SIGNED_NUMBER | call
object: "{" [pair ("," pair)*] "}"
pair: CNAME ":" value
list: "[" [values] "]"
values: value | values "," value
call: CNAME "(" [values] ")"
%import common (ESCAPED_STRING, SIGNED_NUMBER, CNAME, WS)
%ignore WS
"#;

/// A tool's input that the grammar above admits, as JSON has it.
const INPUT: &str = r#"{"input": "{title: \"On texts\", tags: [\"copies\", [1, -2.5]],\n by: person(\"Karl\", {born: 1793, at: place(52.3, 10.5)})}"}"#;

fn spec(schema: Value) -> GrammarSpec {
    of(ValueGrammar::Schema(schema))
}

fn of(form: ValueGrammar) -> GrammarSpec {
    GrammarSpec {
        shape: Shape::Value(form),
        start: StartAt::Immediately,
    }
}

fn tokenizer() -> Tokenizer {
    let sources = Sources::from_environment(|name| env::var(name).ok());
    let path = load::resolve(MODEL, &sources).expect("a model");
    let files = load::open(&path).expect("a model's files");
    Tokenizer::open(&files.tokenizer).expect("a tokenizer")
}

/// Waits for the token mask, with room for `left` tokens.
fn wait(constraint: &mut dyn Constraint, left: usize) {
    let mut context = Context::from_waker(Waker::noop());
    while constraint
        .poll_mask(left, &mut context)
        .map(black_box)
        .is_pending()
    {
        thread::yield_now();
    }
}

fn take(constraint: &mut dyn Constraint, token: TokenId, left: usize) {
    let mut context = Context::from_waker(Waker::noop());
    while constraint.poll_accept(token, left, &mut context) != Poll::Ready(true) {
        wait(constraint, left);
    }
}

/// Runs an answer of these tokens, with room for `room` tokens.
fn run(constraint: &mut dyn Constraint, tokens: &[TokenId], room: usize) {
    wait(constraint, room);
    for (taken, &token) in tokens.iter().enumerate() {
        take(constraint, token, room - taken);
        wait(constraint, room - taken - 1);
    }
}

fn grammar(criterion: &mut Criterion) {
    let tokenizer = tokenizer();
    let ends: Arc<[TokenId]> = tokenizer.eos_tokens().into();
    let make = || GrammarCompiler::new(tokenizer.clone(), Arc::clone(&ends));
    let tokens = tokenizer.encode_text(ANSWER, false);
    let spec = spec(schema());
    let mut group = criterion.benchmark_group("grammar");
    group.sample_size(10);
    group.bench_function("trie and first schema", |bencher| {
        bencher.iter(|| make().constraint(&spec).expect("a grammar"));
    });
    let grammars = make();
    let mut nth = 0_usize;
    group.bench_function("another schema", |bencher| {
        bencher.iter(|| {
            nth += 1;
            let mut schema = schema();
            schema["properties"]["year"]["maximum"] = json!(2100 + nth);
            let spec = self::spec(schema);
            grammars.constraint(&spec).expect("a grammar")
        });
    });
    group.bench_function("a kept schema", |bencher| {
        bencher.iter(|| grammars.constraint(&spec).expect("a grammar"));
    });
    let lark = |nth: usize| {
        let definition = format!("{NESTS}// {nth}\n");
        of(ValueGrammar::Keyed(
            "input".to_owned(),
            TextGrammar::Lark(definition),
        ))
    };
    group.bench_function("another grammar that nests", |bencher| {
        bencher.iter(|| {
            nth += 1;
            grammars.constraint(&lark(nth)).expect("a grammar")
        });
    });
    let input = tokenizer.encode_text(INPUT, false);
    group.throughput(criterion::Throughput::Elements(input.len() as u64));
    group.bench_function("masks of an input that nests", |bencher| {
        bencher.iter_batched(
            || grammars.constraint(&lark(0)).expect("a grammar"),
            |mut constraint| run(&mut *constraint, &input, ROOM),
            criterion::BatchSize::SmallInput,
        );
    });
    group.throughput(criterion::Throughput::Elements(tokens.len() as u64));
    for (name, room) in [
        ("masks of an answer", ROOM),
        ("masks of an answer near its end", tokens.len() + 64),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || grammars.constraint(&spec).expect("a grammar"),
                |mut constraint| run(&mut *constraint, &tokens, room),
                criterion::BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, grammar);
criterion_main!(benches);
