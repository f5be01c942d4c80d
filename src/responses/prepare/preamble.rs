//! Builds a turn's preamble for one model from the request and the server's settings. Checks that
//! the template renders it.

use std::mem;

use serde_json::{Map, Value};

use super::super::ServedModel;
use crate::{
    conversation::{Preamble, ToolChoice, Turn},
    template::ChatTemplate,
    translate::{Code, RequestError},
};

/// Values of `reasoning.effort` that turn reasoning off.
const OFF: [&str; 6] = ["none", "minimal", "off", "disabled", "false", "0"];

/// Template variables that turn reasoning on and off.
const SWITCHES: [&str; 2] = ["enable_thinking", "thinking"];

/// Template variables for the reasoning effort.
const STRENGTHS: [&str; 2] = ["reasoning_effort", "reasoning_strength"];

/// Builds the preamble of a turn on this model.
///
/// # Errors
/// If the template would not render the tools.
pub(crate) fn head(model: &ServedModel, turn: &Turn) -> Result<Preamble, RequestError> {
    let Some(template) = model.template.as_deref() else {
        return Ok(turn.head.clone());
    };
    refuse_unseen_tools(model, turn)?;
    let mut head = turn.head.clone();
    let asked = mem::replace(&mut head.template_args, model.template_args.clone());
    head.template_args.extend(asked);
    if let Some(effort) = &turn.effort {
        head.template_args.extend(thinking(template, effort));
    }
    Ok(head)
}

fn refuse_unseen_tools(model: &ServedModel, turn: &Turn) -> Result<(), RequestError> {
    let offered = !turn.head.tools.is_empty() && turn.tool_rules.choice != ToolChoice::None;
    if !offered || model.parser_spec.shows_tools {
        return Ok(());
    }
    let message = format!(
        "The chat template of `{}` shows no tools to the model, so it cannot call any.",
        model.id
    );
    Err(RequestError::of(Code::UnsupportedModel, "tools", message))
}

/// Returns the template arguments for an effort; empty if the template reads none.
fn thinking(template: &ChatTemplate, effort: &str) -> Map<String, Value> {
    let off = OFF.contains(&effort.trim().to_lowercase().as_str());
    let read = |name: &&str| template.mentions(name);
    let switches = SWITCHES.into_iter().filter(read);
    let mut args: Map<String, Value> = switches
        .map(|name| (name.to_owned(), (!off).into()))
        .collect();
    if !off {
        let strengths = STRENGTHS.into_iter().filter(read);
        args.extend(strengths.map(|name| (name.to_owned(), effort.into())));
    }
    args
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::tokenizer::SpecialTokens;

    #[test]
    fn an_effort_becomes_what_the_template_reads() {
        let args = |source: &str, effort: &str| {
            let special = SpecialTokens::default();
            let template = ChatTemplate::compile(source, &special, Arc::new([]));
            Value::from(thinking(&template.expect("a template"), effort))
        };
        let switch = "{{ enable_thinking }}";
        for off in ["none", " OFF ", "Disabled", "false", "0", "minimal"] {
            assert_eq!(
                args(switch, off),
                json!({"enable_thinking": false}),
                "{off}"
            );
        }
        assert_eq!(args(switch, "low"), json!({"enable_thinking": true}));
        let both = "{{ thinking }}{{ reasoning_effort }}";
        let high = json!({"thinking": true, "reasoning_effort": " High"});
        assert_eq!(args(both, " High"), high);
        let strength = json!({"reasoning_strength": "x"});
        assert_eq!(args("{{ reasoning_strength }}", "x"), strength);
        assert_eq!(args("{{ reasoning_strength }}", "none"), json!({}));
        assert_eq!(args("{{ messages }}", "high"), json!({}));
    }
}
