//! Chat requests → the domain, or a refusal that names the parameter by its path.

use super::messages::items;
use crate::{
    conversation::{Preamble, SamplingRequest, Truncation, Turn},
    limits,
    translate::{
        Code, RequestError,
        format::{self, format},
        inbound::{self, SamplingFields, UnsupportedTools},
        logprobs,
    },
    wire::chat::ChatRequest,
};

/// A chat request, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Chat {
    /// The turn of the first answer; the others differ in their seed only.
    pub turn: Turn,
    /// Number of choices, at least 1.
    pub answers: usize,
    /// True if a stream ends with the token counts.
    pub include_usage: bool,
}

/// Translates a request.
///
/// # Errors
/// What cannot be answered.
pub fn chat(mut request: ChatRequest, unsupported: UnsupportedTools) -> Result<Chat, RequestError> {
    reject_unsupported(&request)?;
    let declared = inbound::declared(request.tools.take(), unsupported)?;
    let tool_rules = inbound::tool_rules(
        &declared.tools,
        request.tool_choice.as_ref(),
        request.parallel_tool_calls,
        request.max_tool_calls,
    )?;
    let format = format("response_format", request.response_format.take())?;
    format::check_tool_choice(&format, &tool_rules.choice)?;
    let turn = Turn {
        sampling: SamplingRequest {
            logprobs: asked_logprobs(&request)?,
            ..inbound::sampling_request(&sampling(&request))?
        },
        format,
        verbosity: inbound::verbosity("verbosity", request.verbosity.as_deref())?,
        labels: inbound::echoed_fields(
            request.metadata,
            request.user,
            request.safety_identifier,
            request.prompt_cache_key,
        )?,
        max_output_tokens: match request.max_completion_tokens {
            Some(_) => {
                inbound::at_least_one("max_completion_tokens", request.max_completion_tokens)?
            }
            None => inbound::at_least_one("max_tokens", request.max_tokens)?,
        },
        stop: inbound::stop(request.stop)?,
        ignore_eos: request.ignore_eos.unwrap_or(false),
        store: false,
        keep_prefix: inbound::keeps_prefix(request.prompt_cache_retention.as_deref()),
        raw: None,
        truncation: Truncation::Disabled,
        previous: None,
        items: items(request.messages)?,
        head: Preamble {
            instructions: None,
            tools: inbound::shown(&declared.tools, &tool_rules.choice),
            tool_instruction: inbound::instruction(&tool_rules.choice),
            template_args: inbound::template_args(
                "chat_template_kwargs",
                request.chat_template_kwargs,
            )?,
        },
        effort: inbound::effort("reasoning_effort", request.reasoning_effort)?,
        tools: declared.tools.into(),
        skipped_tools: declared.skipped,
        tool_rules,
        model: request.model,
    };
    if !inbound::has_text(&turn.head, &turn.items) {
        return Err(RequestError::of(
            Code::EmptyInput,
            "messages",
            "Nothing to answer: no message holds any text.",
        ));
    }
    Ok(Chat {
        turn,
        answers: answers(request.n)?,
        include_usage: request
            .stream_options
            .is_some_and(|options| options.include_usage == Some(true)),
    })
}

fn sampling(request: &ChatRequest) -> SamplingFields<'_> {
    SamplingFields {
        temperature: request.temperature,
        top_p: request.top_p,
        top_k: request.top_k,
        min_p: request.min_p,
        repetition_penalty: request.repetition_penalty,
        presence_penalty: request.presence_penalty,
        frequency_penalty: request.frequency_penalty,
        logit_bias: request.logit_bias.as_ref(),
        seed: request.seed,
    }
}

fn asked_logprobs(request: &ChatRequest) -> Result<Option<u8>, RequestError> {
    let top = logprobs::count("top_logprobs", request.top_logprobs)?.unwrap_or(0);
    match request.logprobs {
        Some(true) => Ok(Some(top)),
        _ if top == 0 => Ok(None),
        _ => Err(RequestError::invalid(
            "top_logprobs",
            "`top_logprobs` needs `logprobs` to be true.",
        )),
    }
}

pub(in crate::translate) fn answers(n: Option<i64>) -> Result<usize, RequestError> {
    let most = limits::CHOICES_MAX;
    match n.map(usize::try_from) {
        None => Ok(1),
        Some(Ok(n)) if (1..=most).contains(&n) => Ok(n),
        Some(_) => Err(RequestError::invalid(
            "n",
            format!("`n` must be from 1 to {most}."),
        )),
    }
}

/// Parts of the API that this server does not have.
fn reject_unsupported(request: &ChatRequest) -> Result<(), RequestError> {
    let is_some = |list: &Option<Vec<_>>| list.as_ref().is_some_and(|list| !list.is_empty());
    let modalities = request.modalities.as_deref().unwrap_or_default();
    RequestError::of_unsupported(&[
        ("functions", is_some(&request.functions)),
        ("function_call", request.function_call.is_some()),
        ("modalities", modalities.iter().any(|kind| kind != "text")),
        ("audio", request.audio.is_some()),
        ("prediction", request.prediction.is_some()),
        ("web_search_options", request.web_search_options.is_some()),
    ])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        conversation::{ContentPart, Item, Message, Role},
        translate::parse,
    };

    fn translate(request: &Value) -> Result<Chat, RequestError> {
        let parsed = parse::parse(request.to_string().as_bytes())?;
        assert!(parsed.unknown.is_empty(), "{request}: {:?}", parsed.unknown);
        chat(parsed.value, UnsupportedTools::Refuse)
    }

    fn with(field: &str, value: &Value) -> Value {
        let mut request = json!({"messages": [{"role": "user", "content": "Hi."}]});
        request[field] = value.clone();
        request
    }

    #[test]
    fn messages_become_items() {
        let request = json!({
            "model": "m",
            "messages": [
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "Hi."}]},
                {"role": "assistant", "content": null, "refusal": "No."},
                {"role": "user", "content": "Why?"},
            ],
            "max_completion_tokens": 5, "max_tokens": 7, "n": 2, "seed": 3,
            "stream_options": {"include_usage": true},
        });
        let chat = translate(&request).expect("a chat");
        let said: Vec<(Role, &str)> = chat
            .turn
            .items
            .iter()
            .map(|item| match item {
                Item::Message(Message { role, content }) => match content.as_slice() {
                    [ContentPart::Text(text)] => (*role, text.as_str()),
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            })
            .collect();
        let expected = [
            (Role::System, "Be brief."),
            (Role::User, "Hi."),
            (Role::Assistant, "No."),
            (Role::User, "Why?"),
        ];
        assert_eq!(said, expected);
        assert_eq!((chat.answers, chat.include_usage), (2, true));
        assert_eq!(chat.turn.max_output_tokens, Some(5));
        assert!(!chat.turn.store);
    }

    #[test]
    fn what_is_refused_names_the_parameter() {
        let messages = |message: Value| json!([{"role": "user", "content": "Hi."}, message]);
        for (field, value, param) in [
            ("messages", json!(null), "messages"),
            ("messages", json!([]), "messages"),
            (
                "messages",
                json!([{"role": "user", "content": " "}]),
                "messages",
            ),
            (
                "messages",
                messages(json!({"content": "x"})),
                "messages[1].role",
            ),
            (
                "messages",
                messages(json!({"role": "user"})),
                "messages[1].content",
            ),
            (
                "messages",
                messages(json!({"role": "x", "content": "x"})),
                "messages[1].role",
            ),
            (
                "messages",
                messages(json!({"role": "function", "content": "x"})),
                "messages[1].role",
            ),
            (
                "messages",
                messages(json!({"role": "user", "content": [{"type": "image_url"}]})),
                "messages[1].content[0].image_url",
            ),
            ("n", json!(0), "n"),
            ("n", json!(1000), "n"),
            ("max_tokens", json!(0), "max_tokens"),
            ("max_completion_tokens", json!(-1), "max_completion_tokens"),
            ("temperature", json!(3), "temperature"),
            ("tool_choice", json!("required"), "tool_choice"),
            ("top_logprobs", json!(3), "top_logprobs"),
            ("top_logprobs", json!(21), "top_logprobs"),
            (
                "response_format",
                json!({"type": "xml"}),
                "response_format.type",
            ),
            ("response_format", json!({}), "response_format.type"),
            ("modalities", json!(["text", "audio"]), "modalities"),
            ("verbosity", json!("loud"), "verbosity"),
        ] {
            let request = with(field, &value);
            let refusal = translate(&request).expect_err(&request.to_string());
            assert_eq!(refusal.param.as_deref(), Some(param), "{request}");
        }
    }

    #[test]
    fn what_changes_nothing_is_accepted() {
        for (field, value) in [
            ("tools", json!([])),
            ("tool_choice", json!("none")),
            ("logprobs", json!(false)),
            ("top_logprobs", json!(0)),
            ("response_format", json!({"type": "text"})),
            ("modalities", json!(["text"])),
            ("store", json!(true)),
            ("stream_options", json!({"include_obfuscation": false})),
            ("n", json!(null)),
        ] {
            let request = with(field, &value);
            assert!(translate(&request).is_ok(), "{request}");
        }
    }
}
