//! Requests → the domain, or a refusal that names the parameter by its path.

mod absent;
mod content_parts;
mod echoed_fields;
mod include;
mod input;
mod sampling;
mod template_args;
mod tool_choice;
mod tools;

pub(super) use content_parts::content_parts;
pub(super) use echoed_fields::{echoed_fields, keeps_prefix};
pub(super) use input::{items, named};
pub(super) use sampling::{SamplingFields, sampling_request};
pub(super) use template_args::effort;
pub use template_args::template_args;
pub(super) use tool_choice::{instruction, shown, tool_rules};
pub use tools::UnsupportedTools;
pub(super) use tools::declared;

use std::collections::HashSet;

use crate::{
    conversation::{ContentPart, Item, Preamble, Truncation, Turn, Verbosity},
    id::ResponseId,
    limits,
    translate::{
        Code, RequestError,
        format::{self, format},
    },
    wire::{CreateRequest, TextOrList},
};

/// Checks a request of `POST /v1/responses`.
///
/// # Errors
/// The first thing that is wrong.
pub fn turn(
    mut request: CreateRequest,
    unsupported: UnsupportedTools,
) -> Result<Turn, RequestError> {
    absent::refuse(&request)?;
    let mut sampling = sampling_request(&SamplingFields::from(&request))?;
    include::apply(&request, &mut sampling)?;
    let declared = declared(request.tools.take(), unsupported)?;
    let tool_rules = tool_rules(
        &declared.tools,
        request.tool_choice.as_ref(),
        request.parallel_tool_calls,
        request.max_tool_calls,
    )?;
    let text = request.text.take().unwrap_or_default();
    let format = format("text.format", text.format)?;
    format::check_tool_choice(&format, &tool_rules.choice)?;
    let turn = Turn {
        sampling,
        format,
        verbosity: verbosity("text.verbosity", text.verbosity.as_deref())?,
        labels: echoed_fields(
            request.metadata,
            request.user,
            request.safety_identifier,
            request.prompt_cache_key,
        )?,
        max_output_tokens: at_least_one("max_output_tokens", request.max_output_tokens)?,
        stop: stop(request.stop)?,
        ignore_eos: request.ignore_eos.unwrap_or(false),
        store: request.store.unwrap_or(true),
        keep_prefix: keeps_prefix(request.prompt_cache_retention.as_deref()),
        previous: previous(request.previous_response_id.as_deref())?,
        items: items(request.input)?,
        raw: None,
        truncation: truncation(request.truncation.as_deref())?,
        head: Preamble {
            instructions: request.instructions,
            tools: shown(&declared.tools, &tool_rules.choice),
            tool_instruction: instruction(&tool_rules.choice),
            template_args: template_args("chat_template_kwargs", request.chat_template_kwargs)?,
        },
        effort: effort(
            "reasoning.effort",
            request.reasoning.and_then(|reasoning| reasoning.effort),
        )?,
        tools: declared.tools.into(),
        skipped_tools: declared.skipped,
        tool_rules,
        model: request.model,
    };
    if turn.previous.is_none() {
        reject_empty(&turn.head, &turn.items)?;
        check_call_outputs(&turn.items, &[])?;
    }
    Ok(turn)
}

/// Parses an id; an invalid id gets the error of an unknown one.
fn previous(id: Option<&str>) -> Result<Option<ResponseId>, RequestError> {
    let parse = |id: &str| id.parse().map_err(|_| RequestError::previous_not_found());
    id.map(parse).transpose()
}

fn truncation(value: Option<&str>) -> Result<Truncation, RequestError> {
    match value {
        None | Some("disabled") => Ok(Truncation::Disabled),
        Some("auto") => Ok(Truncation::Auto),
        Some(other) => {
            let message = format!("`truncation` must be `disabled` or `auto`, not `{other}`.");
            Err(RequestError::invalid("truncation", message))
        }
    }
}

pub(super) fn verbosity(
    param: &str,
    value: Option<&str>,
) -> Result<Option<Verbosity>, RequestError> {
    match value {
        None => Ok(None),
        Some("low") => Ok(Some(Verbosity::Low)),
        Some("medium") => Ok(Some(Verbosity::Medium)),
        Some("high") => Ok(Some(Verbosity::High)),
        Some(_) => {
            let message = format!("`{param}` must be `low`, `medium` or `high`.");
            Err(RequestError::invalid(param, message))
        }
    }
}

pub(super) fn at_least_one(param: &str, value: Option<i64>) -> Result<Option<u64>, RequestError> {
    let checked = |value: i64| match u64::try_from(value) {
        Ok(value) if value > 0 => Ok(value),
        _ => Err(RequestError::invalid(
            param,
            format!("`{param}` must be at least 1, not {value}."),
        )),
    };
    value.map(checked).transpose()
}

pub(super) fn stop(stop: Option<TextOrList<String>>) -> Result<Vec<String>, RequestError> {
    let stops = match stop {
        None => Vec::new(),
        Some(TextOrList::Text(text)) => vec![text],
        Some(TextOrList::List(texts)) => texts,
    };
    let refused = |message: String| Err(RequestError::invalid("stop", message));
    if stops.len() > limits::STOP_STRINGS_MAX {
        let count = limits::STOP_STRINGS_MAX;
        return refused(format!("`stop` may hold at most {count} texts."));
    }
    if stops.iter().any(String::is_empty) {
        return refused("A text of `stop` may not be empty.".to_owned());
    }
    let chars = limits::STOP_CHARS_MAX;
    if stops.iter().any(|text| text.chars().count() > chars) {
        return refused(format!(
            "A text of `stop` may have at most {chars} characters."
        ));
    }
    Ok(stops)
}

/// A model that is given nothing makes something up; a client that sent nothing made a mistake.
/// `items` are the whole conversation: a turn that continues another is checked when that is known.
///
/// # Errors
/// If nothing in all of it says anything.
pub fn reject_empty(head: &Preamble, items: &[Item]) -> Result<(), RequestError> {
    if has_text(head, items) {
        return Ok(());
    }
    Err(RequestError::of(
        Code::EmptyInput,
        "input",
        "Nothing to answer: neither `input` nor `instructions` holds any text.",
    ))
}

/// Refuses outputs of calls that are nowhere in the conversation: neither in the `new` items nor in the
/// `earlier` ones. A turn that continues another is checked when that is known.
///
/// # Errors
/// The first such output.
pub fn check_call_outputs(new: &[Item], earlier: &[Item]) -> Result<(), RequestError> {
    let outputs = new
        .iter()
        .enumerate()
        .filter_map(|(index, item)| match item {
            Item::CallOutput(output) => Some((index, &output.call_id)),
            _ => None,
        });
    let mut outputs = outputs.peekable();
    if outputs.peek().is_none() {
        return Ok(());
    }
    let calls: HashSet<&str> = earlier.iter().chain(new).filter_map(call_id).collect();
    match outputs.find(|(_, id)| !calls.contains(id.as_str())) {
        None => Ok(()),
        Some((index, id)) => Err(unknown_call(format!("input[{index}].call_id"), id)),
    }
}

/// The id of a call.
pub(super) fn call_id(item: &Item) -> Option<&str> {
    match item {
        Item::FunctionCall(call) => Some(&call.call_id),
        Item::CustomCall(call) => Some(&call.call_id),
        Item::Message(_) | Item::CallOutput(_) | Item::Reasoning(_) => None,
    }
}

/// The field at this path names a call that is nowhere.
pub(super) fn unknown_call(path: String, call_id: &str) -> RequestError {
    let message = format!("There is no call `{call_id}` in the conversation.");
    RequestError::invalid(path, message)
}

/// True if a conversation holds anything but blanks.
pub(super) fn has_text(head: &Preamble, items: &[Item]) -> bool {
    let instructions = head.instructions.as_deref().unwrap_or_default();
    is_not_blank(instructions) || items.iter().any(item_has_text)
}

fn item_has_text(item: &Item) -> bool {
    match item {
        Item::Message(message) => message
            .content
            .iter()
            .any(|ContentPart::Text(text)| is_not_blank(text)),
        Item::FunctionCall(_) | Item::CustomCall(_) | Item::CallOutput(_) => true,
        Item::Reasoning(reasoning) => is_not_blank(&reasoning.text),
    }
}

fn is_not_blank(text: &str) -> bool {
    !text.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::Value;

    use super::*;
    use crate::translate::parse;

    #[derive(Deserialize)]
    struct Accepted {
        name: String,
        request: Value,
    }

    #[derive(Deserialize)]
    struct Refused {
        request: Value,
        param: String,
        code: String,
        says: String,
    }

    fn cases<T: for<'de> Deserialize<'de>>(file: &str) -> Vec<T> {
        let path = format!("{}/tests/data/inbound/{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("the file of cases");
        serde_json::from_str(&text).expect("a list of cases")
    }

    fn translate(request: &Value) -> Result<Turn, RequestError> {
        let parsed = parse::parse(request.to_string().as_bytes())?;
        assert!(parsed.unknown.is_empty(), "{request}: {:?}", parsed.unknown);
        turn(parsed.value, UnsupportedTools::Refuse)
    }

    #[test]
    fn what_is_accepted_becomes_this() {
        for Accepted { name, request } in cases("accepted.json") {
            let turn = translate(&request).expect(&name);
            insta::assert_debug_snapshot!(name.replace(' ', "_"), turn);
        }
    }

    #[test]
    fn what_is_refused_names_the_parameter() {
        for case in cases::<Refused>("refused.json") {
            let request = &case.request;
            let refusal = translate(request).expect_err(&request.to_string());
            assert_eq!(refusal.param.as_deref(), Some(&*case.param), "{request}");
            assert_eq!(refusal.code.as_str(), case.code, "{request}");
            assert!(refusal.message.contains(&case.says), "{request}: {refusal}");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-z_]{0,8}|message|user|input_text".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            let key = "[a-z_]{0,8}|type|role|content|text|format";
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(key, inner, 0..4)
                    .prop_map(|pairs| pairs.into_iter().collect::<Value>()),
            ]
        })
    }

    proptest! {
        /// Whatever stands in a field, there is a turn or a refusal.
        #[test]
        fn anything_in_any_field_is_answered(
            field in prop::sample::select(vec![
                "model", "input", "instructions", "stream", "store", "metadata", "temperature",
                "max_output_tokens", "top_k", "logit_bias", "seed", "stop", "tools", "tool_choice",
                "text", "reasoning", "include", "truncation", "background", "prompt", "frob",
            ]),
            value in any_json(),
        ) {
            let request = serde_json::json!({"input": "x", field: value});
            if let Ok(parsed) = parse::parse(request.to_string().as_bytes())
                && let Err(refusal) = turn(parsed.value, UnsupportedTools::Refuse)
            {
                prop_assert!(refusal.param.is_some(), "{refusal}");
            }
        }
    }

    #[test]
    fn long_stop_texts_and_metadata_are_refused_by_characters() {
        let fits = "é".repeat(limits::METADATA_VALUE_CHARS_MAX);
        let request = |metadata: &str, stop: &str| {
            translate(&serde_json::json!({"input": "x", "metadata": {"a": metadata}, "stop": stop}))
        };
        let stop = "é".repeat(limits::STOP_CHARS_MAX);
        assert!(request(&fits, &stop).is_ok());
        let refused = request(&format!("{fits}x"), &stop).expect_err("too long");
        assert_eq!(refused.param.as_deref(), Some("metadata.a"));
        let refused = request(&fits, &format!("{stop}x")).expect_err("too long");
        assert_eq!(refused.param.as_deref(), Some("stop"));
    }
}
