//! `/openapi.json`, checked by schemathesis, which generates requests from it.

use crate::support::{Script, Setup};

use super::{FOLDER, python, run};

/// Checks that schemathesis applies.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,unsupported_method,\
    allow_header_conformance,use_after_free,ensure_resource_availability";

/// Generated requests for each operation.
const EXAMPLES: &str = "12";

#[tokio::test]
async fn generated_requests_get_responses_of_the_contract() {
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
