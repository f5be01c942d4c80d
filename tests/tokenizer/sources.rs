//! Tokenizer files: roles and tokens from `tokenizer_config.json`, models that would produce
//! control tokens by themselves, and rejected files.

use serde_json::{Map, Value, json};
use stemma::tokenizer::{GgufVocabulary, Tokenizer, TokenizerSource};

use super::data;

fn sentencepiece() -> Value {
    let text = std::fs::read(data("sentencepiece.json")).expect("a file of tests/data");
    serde_json::from_slice(&text).expect("JSON")
}

fn open(tokenizer: &Value, config: Value) -> Result<Tokenizer, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokenizer.json");
    std::fs::write(&path, tokenizer.to_string()).expect("a file");
    let Value::Object(config) = config else {
        panic!("an object")
    };
    let source = TokenizerSource::Json {
        tokenizer: path,
        config,
    };
    Tokenizer::open(&source).map_err(|error| error.to_string())
}

fn refusal<T>(result: Result<T, String>) -> String {
    result.err().expect("a refusal")
}

#[test]
fn config_gives_roles_and_further_tokens() {
    let config = json!({
        "bos_token": "<s>",
        "eos_token": {"content": "</s>", "special": true},
        "added_tokens_decoder": {
            "1": {"content": "<s>", "special": true},
            "459": {"content": "<|im_end|>", "special": true},
            "460": {"content": "<tool_call>", "special": false},
        },
    });
    let tokenizer = open(&sentencepiece(), config).expect("a tokenizer");
    assert_eq!(tokenizer.special_tokens().bos.as_deref(), Some("<s>"));
    assert_eq!(tokenizer.eos_tokens(), [2, 459]);
    assert_eq!(tokenizer.token_id("<tool_call>"), Some(460));
    assert_eq!(tokenizer.vocab_size(), 461);
    assert_eq!(tokenizer.decode(&[459, 460]), "<tool_call>");
}

#[test]
fn a_role_makes_a_token_special() {
    let mut tokenizer = sentencepiece();
    tokenizer["added_tokens"] = json!([]);
    let tokenizer = open(&tokenizer, json!({"eos_token": "</s>"})).expect("a tokenizer");
    assert_eq!(tokenizer.eos_tokens(), [2]);
    assert_eq!(tokenizer.decode(&[2]), "");
}

/// True if plain text can become a token.
fn reaches(tokenizer: &Tokenizer, token_text: &str) -> bool {
    let id = tokenizer.token_id(token_text).expect("in the vocabulary");
    let texts = [
        token_text.to_owned(),
        format!("a{token_text}b"),
        token_text.repeat(3),
    ];
    texts
        .iter()
        .any(|text| tokenizer.encode_text(text, false).contains(&id))
}

#[test]
fn merges_into_a_control_token_are_undone() {
    let mut tokenizer = sentencepiece();
    let model = tokenizer["model"].as_object_mut().expect("a model");
    model["vocab"] =
        json!({"<unk>": 0, "<s>": 1, "</s>": 2, "<": 3, "s": 4, ">": 5, "<s": 6, "a": 7});
    model["merges"] = json!([["<", "s"], ["<s", ">"]]);
    model["byte_fallback"] = json!(false);
    tokenizer["normalizer"] = Value::Null;
    let tokenizer = open(&tokenizer, json!({"unk_token": "<unk>"})).expect("a tokenizer");
    assert!(!reaches(&tokenizer, "<s>"));
    assert_eq!(tokenizer.encode_text("<s>a<s", false), [3, 4, 5, 7, 6]);
    assert_eq!(
        tokenizer.encode_text("é", false),
        [0],
        "the unknown token is no control token"
    );
}

#[test]
fn unigram_pieces_that_are_control_tokens_stay_out_of_reach() {
    let mut tokenizer = sentencepiece();
    tokenizer["model"] = json!({"type": "Unigram", "unk_id": 0, "byte_fallback": false, "vocab": [
        ["<unk>", 0.0], ["<s>", 0.0], ["</s>", 0.0], ["<", -2.0], ["s", -2.0], [">", -2.0],
        ["/", -2.0], ["a", -2.0], ["b", -2.0], ["▁", -3.0],
    ]});
    let tokenizer = open(&tokenizer, json!({"unk_token": "<unk>"})).expect("a tokenizer");
    assert!(!reaches(&tokenizer, "<s>"));
    assert!(!reaches(&tokenizer, "</s>"));
    assert_eq!(
        tokenizer.decode(&tokenizer.encode_text("a<s>b", false)),
        "a<s>b"
    );
}

#[test]
fn wrong_tokenizer_files_are_refused_by_name() {
    let missing = TokenizerSource::Json {
        tokenizer: data("absent.json"),
        config: Map::new(),
    };
    let error = Tokenizer::open(&missing)
        .expect_err("no such file")
        .to_string();
    assert!(
        error.starts_with("cannot read ") && error.contains("absent.json"),
        "{error}"
    );
    assert!(refusal(open(&json!([]), json!({}))).contains("tokenizer.json is not a tokenizer"));

    let with = |key: &str, value: Value| {
        let mut tokenizer = sentencepiece();
        tokenizer[key] = value;
        refusal(open(&tokenizer, json!({})))
    };
    let words = json!({"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"});
    assert!(with("model", words).contains("`WordLevel`"));
    assert!(with("decoder", Value::Null).contains("no decoder"));
    let bpe = |vocab: Value| json!({"type": "BPE", "vocab": vocab, "merges": []});
    assert!(with("model", bpe(json!({"a": 4_000_000_000_u32}))).contains("lie far apart"));
    let unknown = json!({"type": "BPE", "vocab": {"a": 0}, "merges": [], "unk_token": "?"});
    assert!(with("model", unknown).contains("cannot spell every text"));
    let far = json!([{"id": 4_000_000_000_u32, "content": "<x>", "special": true}]);
    assert!(with("added_tokens", far).contains("`<x>` has id 4000000000"));
}

fn words() -> GgufVocabulary {
    GgufVocabulary {
        model: "gpt2".to_owned(),
        tokens: ["a", "b", "ab"].map(str::to_owned).to_vec(),
        merges: vec!["a b".to_owned()],
        ..GgufVocabulary::default()
    }
}

fn pieces() -> GgufVocabulary {
    GgufVocabulary {
        model: "llama".to_owned(),
        tokens: ["<unk>", "<s>", "a"].map(str::to_owned).to_vec(),
        scores: vec![0.0, 0.0, -1.0],
        token_types: vec![2, 3, 1],
        unknown: Some(0),
        ..GgufVocabulary::default()
    }
}

/// Vocabularies with one thing wrong, and how the refusal names it.
fn wrong_vocabularies() -> Vec<(GgufVocabulary, &'static str)> {
    let merge = |merge: &str| vec![merge.to_owned()];
    vec![
        (
            GgufVocabulary {
                model: "bert".to_owned(),
                ..words()
            },
            "`bert`",
        ),
        (
            GgufVocabulary {
                pre: Some("klingon".to_owned()),
                ..words()
            },
            "`klingon`",
        ),
        (
            GgufVocabulary {
                merges: merge("ab"),
                ..words()
            },
            "`ab` in `tokenizer.ggml.merges`",
        ),
        (
            GgufVocabulary {
                merges: merge("a c"),
                ..words()
            },
            "`c`",
        ),
        (
            GgufVocabulary {
                merges: merge("b a"),
                ..words()
            },
            "`ba`",
        ),
        (
            GgufVocabulary {
                token_types: vec![1],
                ..words()
            },
            "1 `tokenizer.ggml.token_type` for 3",
        ),
        (
            GgufVocabulary {
                eos: Some(3),
                ..words()
            },
            "`tokenizer.ggml.eos_token_id` is 3 of 3",
        ),
        (
            GgufVocabulary {
                scores: Vec::new(),
                ..pieces()
            },
            "no `tokenizer.ggml.scores`",
        ),
        (
            GgufVocabulary {
                unknown: None,
                ..pieces()
            },
            "nor one for each byte",
        ),
    ]
}

#[test]
fn wrong_vocabularies_are_refused_by_name() {
    for (vocabulary, expected) in wrong_vocabularies() {
        let result = Tokenizer::open(&TokenizerSource::Gguf(vocabulary));
        let error = result.expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn small_vocabularies_work() {
    let open = |vocabulary| Tokenizer::open(&TokenizerSource::Gguf(vocabulary)).expect("valid");
    assert_eq!(open(words()).encode_text("abba", false), [2, 1, 0]);
    let vocabulary = GgufVocabulary {
        add_space_prefix: Some(false),
        bos: Some(1),
        ..pieces()
    };
    let tokenizer = open(vocabulary);
    assert_eq!(tokenizer.encode_text("a<s>", true), [1, 2, 0, 0, 0]);
    assert_eq!(tokenizer.special_tokens().bos.as_deref(), Some("<s>"));
}
