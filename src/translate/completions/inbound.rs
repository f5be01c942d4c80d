//! Completion requests → the domain, or a refusal that names the parameter by its path.

use std::sync::Arc;

use crate::{
    conversation::{
        ContentPart, Item, Message, OutputFormat, Preamble, RawPrompt, Role, ToolChoice, ToolRules,
        Truncation, Turn,
    },
    limits,
    translate::{
        Code, RequestError, chat,
        inbound::{self, SamplingFields},
        logprobs,
    },
    wire::completion::{CompletionRequest, Prompts},
};

/// Tokens of an answer where a request names no number: OpenAI's default.
const MAX_TOKENS_DEFAULT: u64 = 16;

/// A completion request, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Completions {
    /// One turn for each prompt.
    pub turns: Vec<Turn>,
    /// Number of choices for each prompt, at least 1.
    pub answers: usize,
    /// True if the answers begin with their prompts.
    pub echo: bool,
    /// True if a stream ends with the token counts.
    pub include_usage: bool,
}

/// Translates a request.
///
/// # Errors
/// What cannot be answered.
pub fn completions(request: CompletionRequest) -> Result<Completions, RequestError> {
    reject_unsupported(&request)?;
    let answers = chat::answers(request.n)?;
    let prompts = prompts(request.prompt)?;
    if prompts.len() * answers > limits::CHOICES_MAX {
        let most = limits::CHOICES_MAX;
        let message = format!("All prompts together may have at most {most} answers.");
        return Err(RequestError::invalid("prompt", message));
    }
    let mut sampling = inbound::sampling_request(&SamplingFields {
        temperature: request.temperature,
        top_p: request.top_p,
        top_k: request.top_k,
        min_p: request.min_p,
        repetition_penalty: request.repetition_penalty,
        presence_penalty: request.presence_penalty,
        frequency_penalty: request.frequency_penalty,
        logit_bias: request.logit_bias.as_ref(),
        seed: request.seed,
    })?;
    sampling.logprobs = logprobs::count("logprobs", request.logprobs)?;
    let max_tokens = inbound::at_least_one("max_tokens", request.max_tokens)?;
    let stop = inbound::stop(request.stop)?;
    let labels = inbound::echoed_fields(None, request.user, None, None)?;
    let turn = |prompt: RawPrompt| Turn {
        model: request.model.clone(),
        head: Preamble::default(),
        previous: None,
        items: match &prompt {
            RawPrompt::Text(text) => vec![message(text)],
            RawPrompt::Tokens(_) => Vec::new(),
        },
        raw: Some(prompt),
        truncation: Truncation::Disabled,
        max_output_tokens: Some(max_tokens.unwrap_or(MAX_TOKENS_DEFAULT)),
        sampling: sampling.clone(),
        stop: stop.clone(),
        ignore_eos: request.ignore_eos.unwrap_or(false),
        store: false,
        keep_prefix: false,
        tools: Arc::new([]),
        skipped_tools: Vec::new(),
        effort: None,
        tool_rules: ToolRules {
            choice: ToolChoice::None,
            parallel: true,
            calls_max: None,
        },
        format: OutputFormat::Text,
        verbosity: None,
        labels: labels.clone(),
    };
    Ok(Completions {
        turns: prompts.into_iter().map(turn).collect(),
        answers,
        echo: request.echo.unwrap_or(false),
        include_usage: request
            .stream_options
            .is_some_and(|options| options.include_usage == Some(true)),
    })
}

fn message(text: &str) -> Item {
    Item::Message(Message {
        role: Role::User,
        content: vec![ContentPart::Text(text.to_owned())],
    })
}

fn prompts(prompts: Option<Prompts>) -> Result<Vec<RawPrompt>, RequestError> {
    let raw = match prompts {
        None => vec![RawPrompt::Text(String::new())],
        Some(Prompts::Texts(texts)) => texts.into_iter().map(RawPrompt::Text).collect(),
        Some(Prompts::Tokens(lists)) => lists.into_iter().map(RawPrompt::Tokens).collect(),
    };
    if raw.is_empty() {
        return Err(empty("`prompt` holds no prompt."));
    }
    // An empty prompt asks for anything at all; blanks are a mistake.
    let is_blank = |prompt: &RawPrompt| match prompt {
        RawPrompt::Text(text) => !text.is_empty() && text.trim().is_empty(),
        RawPrompt::Tokens(tokens) => tokens.is_empty(),
    };
    match raw.iter().any(is_blank) {
        true => Err(empty("A prompt holds nothing but blanks.")),
        false => Ok(raw),
    }
}

fn empty(message: &str) -> RequestError {
    RequestError::of(Code::EmptyInput, "prompt", message)
}

/// Parts of the API that this server does not have.
fn reject_unsupported(request: &CompletionRequest) -> Result<(), RequestError> {
    RequestError::of_unsupported(&[
        ("suffix", request.suffix.is_some()),
        (
            "best_of",
            request
                .best_of
                .is_some_and(|best| best != request.n.unwrap_or(1)),
        ),
        (
            "echo",
            // Only a string prompt can be echoed, and log probabilities of prompts are not
            // computed.
            request.echo == Some(true)
                && (request.logprobs.is_some()
                    || matches!(request.prompt, Some(Prompts::Tokens(_)))),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::translate::parse;

    fn translate(request: &Value) -> Result<Completions, RequestError> {
        let parsed = parse::parse(request.to_string().as_bytes())?;
        assert!(parsed.unknown.is_empty(), "{request}: {:?}", parsed.unknown);
        completions(parsed.value)
    }

    #[test]
    fn prompts_come_in_four_forms() {
        let text = |text: &str| RawPrompt::Text(text.to_owned());
        for (prompt, expected) in [
            (json!(null), vec![text("")]),
            (json!(""), vec![text("")]),
            (json!("a"), vec![text("a")]),
            (json!(["a", "b"]), vec![text("a"), text("b")]),
            (json!([1, 2]), vec![RawPrompt::Tokens(vec![1, 2])]),
            (
                json!([[1], [2, 3]]),
                vec![RawPrompt::Tokens(vec![1]), RawPrompt::Tokens(vec![2, 3])],
            ),
        ] {
            let translated = translate(&json!({"prompt": prompt})).expect("prompts");
            let found: Vec<_> = translated
                .turns
                .into_iter()
                .filter_map(|turn| turn.raw)
                .collect();
            assert_eq!(found, expected, "{prompt}");
        }
    }

    #[test]
    fn what_is_refused_names_the_parameter() {
        for (request, param) in [
            (json!({"prompt": " "}), "prompt"),
            (json!({"prompt": ["a", "\n"]}), "prompt"),
            (json!({"prompt": []}), "prompt"),
            (json!({"prompt": [[]]}), "prompt"),
            (json!({"prompt": {}}), "prompt"),
            (json!({"prompt": ["a", 1]}), "prompt"),
            (json!({"prompt": [-1]}), "prompt"),
            (json!({"prompt": vec!["a"; 17]}), "prompt"),
            (json!({"prompt": "a", "n": 0}), "n"),
            (json!({"prompt": "a", "best_of": 2}), "best_of"),
            (json!({"prompt": "a", "suffix": "b"}), "suffix"),
            (json!({"prompt": "a", "logprobs": 21}), "logprobs"),
            (json!({"prompt": "a", "logprobs": 1, "echo": true}), "echo"),
            (json!({"prompt": [1], "echo": true}), "echo"),
            (json!({"prompt": "a", "max_tokens": 0}), "max_tokens"),
        ] {
            let refusal = translate(&request).expect_err(&request.to_string());
            let found = refusal.param.unwrap_or_default();
            assert!(found.starts_with(param), "{request}: {found}");
        }
    }

    #[test]
    fn max_tokens_defaults_to_sixteen() {
        let most = |request: &Value| {
            let translated = translate(request).expect("a prompt");
            translated.turns[0].max_output_tokens
        };
        assert_eq!(most(&json!({"prompt": "a"})), Some(16));
        assert_eq!(most(&json!({"prompt": "a", "max_tokens": 3})), Some(3));
    }
}
