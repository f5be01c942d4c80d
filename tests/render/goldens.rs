//! Rendered prompts against the committed lengths and hashes of what `transformers` rendered.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use sha2::{Digest, Sha256};
use stemma::template::{ChatTemplate, TemplateError};

use super::conversations::Conversations;

const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/data/templates/goldens.json"
);

/// Names the folder that tests/goldens/fetch_templates.py filled.
const FOLDER: &str = "STEMMA_TEST_TEMPLATES";

/// Templates that cannot be equal, and why.
const KNOWN: [(&str, &str); 1] = [(
    "llama.cpp/meetkai-functionary-medium-v3.1.jinja",
    "adds texts to a `safe` one, which MarkupSafe then escapes for HTML: the JSON of each tool \
     becomes unreadable, which none wants equal",
)];

/// By template, then by conversation: without and with a generation prompt. Each is `BYTES HASH`,
/// the kind of error, or nothing where the text is not repeatable.
type Goldens = BTreeMap<String, BTreeMap<String, [Option<String>; 2]>>;

#[test]
fn real_templates_render_as_transformers_renders_them() {
    let Some(folder) = folder() else {
        println!("skipped: {FOLDER} does not name a folder of templates");
        return;
    };
    let goldens: Goldens = serde_json::from_str(&read(Path::new(FILE))).expect(FILE);
    let conversations = Conversations::read();
    let mut wrong = Vec::new();
    for (name, cases) in &goldens {
        if !KNOWN.iter().any(|(known, _)| known == name) {
            wrong.extend(differences(&folder, name, cases, &conversations));
        }
    }
    println!(
        "{} templates, {} conversations each",
        goldens.len(),
        conversations.cases.len()
    );
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The folder of templates, if the tests were given one.
fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// The goldens of one template that its renderings do not equal.
fn differences(
    folder: &Path,
    name: &str,
    cases: &BTreeMap<String, [Option<String>; 2]>,
    conversations: &Conversations,
) -> Vec<String> {
    let source = read(&folder.join(name));
    let special = conversations.special_tokens();
    let template = ChatTemplate::compile(&source, &special, Arc::new([])).expect(name);
    let mut wrong = Vec::new();
    for (case, pair) in cases {
        for (golden, prompted) in pair.iter().zip([false, true]) {
            let rendered =
                conversations.cases[case].render(&template, prompted, &conversations.now());
            let Some(golden) = golden else { continue };
            if !agrees(golden, &rendered) {
                let got = rendered.map_or_else(|error| error.to_string(), |text| outcome(&text));
                wrong.push(format!(
                    "{name} {case} {prompted}: expected {golden}, got {got}"
                ));
            }
        }
    }
    wrong
}

fn agrees(golden: &str, rendered: &Result<String, TemplateError>) -> bool {
    match rendered {
        Ok(text) => outcome(text) == golden,
        // Jinja2's own name for what `raise_exception` raises; all else is a fault of the template.
        Err(TemplateError::Refused(_)) => golden == "TemplateError",
        Err(TemplateError::Broken(_)) => golden != "TemplateError" && golden.ends_with("Error"),
    }
}

fn outcome(text: &str) -> String {
    let mut outcome = format!("{} ", text.len());
    for byte in &Sha256::digest(text)[..8] {
        write!(outcome, "{byte:02x}").expect("a string takes everything");
    }
    outcome
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Control tokens of many families: to hide them in values.
const TOKEN_TEXTS: [&str; 20] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[TOOL_CALLS]",
    "<start_of_turn>",
    "<end_of_turn>",
    "<|end|>",
    "<|user|>",
    "<|channel|>",
    "<|message|>",
    "<|bos|>",
    "<|eos|>",
    "<think>",
    "</think>",
];

/// Templates that look for control tokens in what users say, so that hiding them shows.
const CURIOUS: [(&str, &str); 2] = [
    ("llama.cpp/NVIDIA-Nemotron-Nano-v2.jinja", "think_in_user"),
    ("llama.cpp/openbmb-MiniCPM5-1B.jinja", "control_tokens"),
];

#[test]
fn hiding_control_tokens_leaves_the_text_as_it_is() {
    let Some(folder) = folder() else {
        println!("skipped: {FOLDER} does not name a folder of templates");
        return;
    };
    let goldens: Goldens = serde_json::from_str(&read(Path::new(FILE))).expect(FILE);
    let conversations = Conversations::read();
    let special = conversations.special_tokens();
    let hidden: Arc<[String]> = TOKEN_TEXTS.iter().map(|text| (*text).to_owned()).collect();
    for name in goldens.keys() {
        let source = read(&folder.join(name));
        let plain = ChatTemplate::compile(&source, &special, Arc::new([])).expect(name);
        let hiding = ChatTemplate::compile(&source, &special, Arc::clone(&hidden)).expect(name);
        for (case, conversation) in &conversations.cases {
            let expected = conversation.render(&plain, true, &conversations.now());
            let rendered = conversation.render(&hiding, true, &conversations.now());
            let curious = CURIOUS.contains(&(name, case));
            assert_eq!(rendered == expected, !curious, "{name} {case}");
        }
    }
}
