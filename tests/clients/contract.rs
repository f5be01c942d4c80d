//! The contract as a document, tried by a program that makes requests up from it.

use crate::support::{Script, Setup};

use super::{FOLDER, python, run};

/// Answers that are looked for beside those of the document.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,unsupported_method,\
    allow_header_conformance,use_after_free,ensure_resource_availability";

/// Requests that are made up for each operation, beside the document's limits.
const EXAMPLES: &str = "12";

#[tokio::test]
async fn made_up_requests_get_answers_of_the_contract() {
    let Some(mut python) = python() else { return };
    let model = Script::new("scripted", |_| "Hello there.".to_owned());
    let app = Setup::of(model).start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let command = python
        .current_dir(folder.path())
        .env("SCHEMATHESIS_HOOKS", format!("{FOLDER}/contract_hooks.py"))
        .args(["-m", "schemathesis.cli", "run"])
        .arg(format!("{}/openapi.json", app.url))
        .args(["--checks", CHECKS, "--max-examples", EXAMPLES])
        .args(["--no-color", "--warnings=off", "--no-shrink"]);
    let said = run(command).await;
    assert!(said.contains("Seed: "), "{said}");
}
