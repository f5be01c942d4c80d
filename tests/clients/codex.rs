//! Codex CLI with a scripted model. Codex runs the command that the model calls, and sends the
//! output back.

use std::{fs, path::Path};

use serde_json::Value;
use stemma::translate::inbound::UnsupportedTools;
use tempfile::TempDir;

use crate::{
    support::{Setup, TestApp},
    tools,
};

use super::{named, node, run};

/// Content of the file that the command prints; Codex learns it only by running the command.
const NOTE: &str = "the barometer stands at 1013";

/// The configuration in docs/clients.md.
const CONFIG: &str = r#"
model = "caller"
model_provider = "stemma"
model_context_window = 32768
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.stemma]
name = "stemma"
base_url = "URL/v1"
wire_api = "responses"
"#;

/// A model whose output the prompt dictates, with a context that fits Codex's instructions and
/// tools.
fn setup() -> Setup {
    let mut setup = tools::setup();
    let models = setup.models.into_iter();
    let roomy = models.map(|model| model.executor(|it| it.context_length(1 << 17)));
    setup.models = roomy.collect();
    setup
}

/// Codex, with its configuration and a working folder.
struct Codex {
    home: TempDir,
    work: TempDir,
}

impl Codex {
    fn new(app: &TestApp) -> Self {
        let (home, work) = (tempfile::tempdir(), tempfile::tempdir());
        let codex = Self {
            home: home.expect("a folder"),
            work: work.expect("a folder"),
        };
        let config = CONFIG.replace("URL", &app.url);
        fs::write(codex.home.path().join("config.toml"), config).expect("a configuration");
        fs::write(codex.work.path().join("note.txt"), NOTE).expect("a note");
        codex
    }

    /// Runs `codex exec` and returns its events; `None` if Codex is not installed.
    async fn exec(&self, arguments: &[&str]) -> Option<Vec<Value>> {
        let modules = named("STEMMA_TEST_NODE_MODULES")?;
        let said = run(node()?
            .arg(Path::new(&modules).join("@openai/codex/bin/codex.js"))
            .args(["exec", "--json", "--strict-config", "--skip-git-repo-check"])
            // The command is the test's own, and some machines lack the sandbox that Codex needs.
            .arg("--dangerously-bypass-approvals-and-sandbox")
            .args(arguments)
            .env("CODEX_HOME", self.home.path())
            .current_dir(self.work.path())
            .stdin(std::process::Stdio::null()))
        .await;
        let events = said.lines().map(serde_json::from_str);
        Some(events.collect::<Result<_, _>>().expect("lines of JSON"))
    }
}

/// Returns the only completed item of type `kind`.
fn item<'a>(events: &'a [Value], kind: &str) -> &'a Value {
    let completed = events
        .iter()
        .filter(|event| event["type"] == "item.completed");
    let mut items = completed
        .map(|event| &event["item"])
        .filter(|item| item["type"] == kind);
    match (items.next(), items.next()) {
        (Some(item), None) => item,
        _ => panic!("not one {kind}: {events:#?}"),
    }
}

/// Runs a turn with a command, and a turn that continues it.
async fn turns(app: &TestApp, arguments: &[&str]) {
    let codex = Codex::new(app);
    let call = r#"Say: <tool_call>
{"name": "exec_command", "arguments": {"cmd": "cat note.txt"}}
</tool_call>"#;
    let Some(events) = codex.exec(&[arguments, &[call]].concat()).await else {
        return;
    };
    let command = item(&events, "command_execution");
    assert_eq!(command["aggregated_output"], NOTE, "{command}");
    assert_eq!(command["exit_code"], 0, "{command}");
    let answer = item(&events, "agent_message")["text"].as_str();
    let answer = answer.unwrap_or_default();
    assert!(
        answer.starts_with("It gave ") && answer.contains(NOTE),
        "{answer}"
    );
    let last = events.last().expect("an event");
    assert_eq!(last["type"], "turn.completed");
    let usage = &last["usage"];
    let cached = usage["cached_input_tokens"].as_u64().unwrap_or_default();
    let input = usage["input_tokens"].as_u64().unwrap_or_default();
    assert!(
        cached > input / 3,
        "the second request reads little anew: {usage}"
    );

    let more = [&["resume", "--last"], arguments, &["Say: That was all."]].concat();
    let events = codex.exec(&more).await.expect("the same Codex");
    assert_eq!(item(&events, "agent_message")["text"], "That was all.");
}

#[tokio::test]
async fn codex_without_web_search_runs_a_command() {
    let app = setup().start().await;
    turns(&app, &["-c", "web_search=\"disabled\""]).await;
}

#[tokio::test]
async fn codex_with_default_settings_runs_a_command_if_unsupported_tools_are_skipped() {
    let mut setup = setup();
    setup.options.unsupported_tools = UnsupportedTools::Skip;
    turns(&setup.start().await, &[]).await;
}
