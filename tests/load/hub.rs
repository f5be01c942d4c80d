//! Models from a hub, and names in general.

use std::{collections::HashMap, path::Path};

use safetensors::tensor::{Dtype, TensorView, serialize};
use serde_json::json;
use stemma::load::{self, Hub, LoadError, Sources};

use super::{
    gguf_writer::GgufFile,
    hub_server::{COMMIT, HubServer, Repositories},
};

fn weights(name: &str) -> Vec<u8> {
    let bytes = vec![0; 1 << 20];
    let view = TensorView::new(Dtype::F32, vec![512, 512], &bytes).expect("a tensor");
    serialize([(name, view)], None).expect("a file")
}

fn folder_model() -> HashMap<&'static str, Vec<u8>> {
    let (first, second) = (
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    );
    let index = json!({ "weight_map": { "a": first, "b": second } }).to_string();
    HashMap::from([
        ("config.json", b"{\"model_type\":\"llama\"}".to_vec()),
        ("tokenizer.json", b"{}".to_vec()),
        ("chat_template.jinja", b"{{ messages }}".to_vec()),
        ("model.safetensors.index.json", index.into_bytes()),
        (first, weights("a")),
        (second, weights("b")),
        ("README.md", b"not needed".to_vec()),
        ("pytorch_model.bin", b"not needed".to_vec()),
        ("onnx/model.safetensors", b"not needed".to_vec()),
    ])
}

fn hub() -> HubServer {
    let gguf = GgufFile::small("llama").to_bytes();
    HubServer::start(Repositories::from([
        ("org/model", folder_model()),
        ("org/private", folder_model()),
        (
            "org/gguf",
            HashMap::from([("a.Q4_0.gguf", gguf.clone()), ("a.Q8_0.gguf", gguf)]),
        ),
        (
            "org/empty",
            HashMap::from([("README.md", b"nothing".to_vec())]),
        ),
    ]))
}

fn sources(endpoint: &str, folder: &Path, token: Option<&str>) -> Sources {
    let hub = Hub {
        endpoint: Some(endpoint.to_owned()),
        cache: folder.join("hub"),
        token: token.map(str::to_owned),
    };
    Sources {
        downloads: folder.join("aliases"),
        hub,
    }
}

fn refused(name: &str, sources: &Sources, words: &[&str]) {
    let LoadError(text) = load::resolve(name, sources).expect_err("a refusal");
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}

#[test]
fn a_repository_is_downloaded_once_and_only_what_is_needed() {
    let (server, folder) = (hub(), tempfile::tempdir().expect("a temporary folder"));
    let sources = sources(&server.endpoint, folder.path(), None);
    let path = load::resolve("org/model", &sources).expect("a download");
    let model = load::open(&path).expect("a readable model");
    assert_eq!(model.config["model_type"], "llama");
    assert_eq!(model.chat_template.as_deref(), Some("{{ messages }}"));
    assert_eq!(model.tensors.names(), ["a", "b"]);
    let downloads = server.downloads();
    assert!(
        downloads.iter().any(|path| path.ends_with("config.json")),
        "{downloads:?}"
    );
    for unwanted in ["README.md", "pytorch_model.bin", "onnx"] {
        assert!(
            !downloads.iter().any(|path| path.contains(unwanted)),
            "{downloads:?}"
        );
    }

    assert_eq!(
        load::resolve("org/model", &sources).expect("the same"),
        path
    );
    assert_eq!(server.downloads(), ["/api/models/org/model/revision/main"]);
}

#[test]
fn what_was_downloaded_serves_when_the_hub_is_away() {
    let (server, folder) = (hub(), tempfile::tempdir().expect("a temporary folder"));
    let online = sources(&server.endpoint, folder.path(), None);
    let path = load::resolve("org/model", &online).expect("a download");
    // Nothing listens on port 1 of loopback.
    let offline = sources("http://127.0.0.1:1", folder.path(), None);
    assert_eq!(
        load::resolve("org/model", &offline).expect("the download"),
        path
    );
    refused("org/gguf", &offline, &["`org/gguf`", "http://127.0.0.1:1"]);
}

#[test]
fn one_gguf_file_of_a_repository_is_named() {
    let (server, folder) = (hub(), tempfile::tempdir().expect("a temporary folder"));
    let sources = sources(&server.endpoint, folder.path(), None);
    refused(
        "org/gguf",
        &sources,
        &["name one", "a.Q4_0.gguf", "a.Q8_0.gguf"],
    );
    refused("org/gguf/b.gguf", &sources, &["no b.gguf", "a.Q4_0.gguf"]);
    let path = load::resolve("org/gguf/a.Q8_0.gguf", &sources).expect("a download");
    assert_eq!(
        load::open(&path).expect("a readable model").config["model_type"],
        "llama"
    );
}

#[test]
fn a_token_opens_what_is_not_public() {
    let (server, folder) = (hub(), tempfile::tempdir().expect("a temporary folder"));
    let without = sources(&server.endpoint, folder.path(), None);
    refused(
        "org/private",
        &without,
        &["`org/private`", "401", "HF_TOKEN"],
    );
    let with = sources(&server.endpoint, folder.path(), Some("secret"));
    let path = load::resolve("org/private", &with).expect("a download");
    assert!(path.ends_with(COMMIT));
}

#[test]
fn what_is_no_model_is_refused_with_what_it_could_be() {
    let (server, folder) = (hub(), tempfile::tempdir().expect("a temporary folder"));
    let sources = sources(&server.endpoint, folder.path(), None);
    refused("org/unknown", &sources, &["`org/unknown`", "404"]);
    refused(
        "org/empty",
        &sources,
        &["neither model*.safetensors nor GGUF"],
    );
    for name in ["smollm3", "./models/none", "a/b/c", "../x", "org/..", ""] {
        refused(
            name,
            &sources,
            &["smollm2", "qwen2.5-coder-0.5b", "gemma3-270m"],
        );
    }
    assert_eq!(
        load::resolve(".", &sources).expect("a folder"),
        Path::new(".")
    );
}

#[test]
fn the_environment_names_caches_and_the_hub() {
    let variables = HashMap::from([
        ("HF_ENDPOINT", "http://127.0.0.1:9/"),
        ("HF_HOME", "/hf"),
        ("HF_TOKEN", "t"),
        ("XDG_CACHE_HOME", "/caches"),
        ("STEMMA_DOWNLOAD_DIR", ""),
    ]);
    let sources =
        Sources::from_environment(|name| variables.get(name).map(|value| (*value).to_owned()));
    assert_eq!(sources.downloads, Path::new("/caches/stemma"));
    assert_eq!(sources.hub.endpoint.as_deref(), Some("http://127.0.0.1:9"));
    assert_eq!(sources.hub.cache, Path::new("/hf/hub"));
    assert_eq!(sources.hub.token.as_deref(), Some("t"));
    let sources =
        Sources::from_environment(|name| (name == "STEMMA_DOWNLOAD_DIR").then(|| "/c".into()));
    assert_eq!(sources.downloads, Path::new("/c"));
}
