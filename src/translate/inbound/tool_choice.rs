//! Translates `tool_choice` and call limits to the allowed and forced calls, and to the tools that
//! the model sees.

use serde_json::Value;

use super::{at_least_one, input::named};
use crate::{
    conversation::{
        CallKind, FunctionTool, NamedTool, Tool, ToolChoice, ToolRules, tool::shown_name,
    },
    translate::{RequestError, request_error::wrong_type},
};

const PARAM: &str = "tool_choice";

/// Translates `tool_choice` and the call limits for these tools.
pub(in crate::translate) fn tool_rules(
    tools: &[Tool],
    choice: Option<&Value>,
    parallel: Option<bool>,
    calls_max: Option<i64>,
) -> Result<ToolRules, RequestError> {
    Ok(ToolRules {
        choice: tool_choice(choice, tools)?,
        parallel: parallel.unwrap_or(true),
        calls_max: at_least_one("max_tool_calls", calls_max)?,
    })
}

/// Translates `tool_choice`, which both APIs' forms may have.
fn tool_choice(choice: Option<&Value>, tools: &[Tool]) -> Result<ToolChoice, RequestError> {
    match choice {
        None | Some(Value::Null) => Ok(ToolChoice::Auto),
        Some(Value::String(word)) => match word.as_str() {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            "required" if tools.is_empty() => Err(RequestError::invalid(
                PARAM,
                "`tool_choice` cannot be `required` without `tools`.",
            )),
            "required" => Ok(ToolChoice::Required),
            other => Err(RequestError::invalid(
                PARAM,
                format!(
                    "`tool_choice` must be `auto`, `none`, `required` or an object, not `{other}`."
                ),
            )),
        },
        Some(choice @ Value::Object(_)) => match choice["type"].as_str() {
            Some("allowed_tools") => allowed(choice, tools),
            _ => named_tool(PARAM, choice, tools).map(ToolChoice::Named),
        },
        Some(_) => Err(wrong_type(PARAM.to_owned(), "a string or an object")),
    }
}

fn allowed(choice: &Value, tools: &[Tool]) -> Result<ToolChoice, RequestError> {
    let (path, fields) = match &choice["allowed_tools"] {
        Value::Null => (PARAM.to_owned(), choice),
        nested => (format!("{PARAM}.allowed_tools"), nested),
    };
    let mode = format!("{path}.mode");
    let required = match &fields["mode"] {
        Value::Null => return Err(RequestError::missing(mode)),
        Value::String(word) if word == "auto" => false,
        Value::String(word) if word == "required" => true,
        other => {
            let message = format!("`{mode}` must be `auto` or `required`, not {other}.");
            return Err(RequestError::invalid(mode, message));
        }
    };
    let path = format!("{path}.tools");
    let listed = match &fields["tools"] {
        Value::Null => return Err(RequestError::missing(path)),
        Value::Array(listed) if listed.is_empty() => {
            let message = format!("`{path}` must not be empty.");
            return Err(RequestError::invalid(path, message));
        }
        Value::Array(listed) => listed,
        _ => return Err(wrong_type(path, "a list")),
    };
    let listed = listed.iter().enumerate();
    let named = listed.map(|(index, tool)| named_tool(&format!("{path}[{index}]"), tool, tools));
    Ok(ToolChoice::Allowed {
        required,
        tools: named.collect::<Result<_, _>>()?,
    })
}

/// A function or a custom tool by its name, in either API's form.
fn named_tool(path: &str, choice: &Value, tools: &[Tool]) -> Result<NamedTool, RequestError> {
    let (kind, nested) = match choice["type"].as_str() {
        Some("function") => (CallKind::Function, "function"),
        Some("custom") => (CallKind::Custom, "custom"),
        None => return Err(RequestError::missing(format!("{path}.type"))),
        Some(other) => {
            let message = format!("`{path}` of type `{other}` is not supported.");
            return Err(RequestError::invalid(path, message));
        }
    };
    let (path, fields) = match &choice[nested] {
        Value::Null => (format!("{path}.name"), choice),
        inside => (format!("{path}.{nested}.name"), inside),
    };
    let name = match &fields["name"] {
        Value::Null => None,
        Value::String(name) => Some(name.clone()),
        _ => return Err(wrong_type(path, "a string")),
    };
    let name = named(path.clone(), name)?;
    let wanted = shown_name(fields["namespace"].as_str(), &name);
    let mut declared = tools.iter().flat_map(declared);
    let found = declared.find(|tool| tool.kind == kind && tool.shown_name() == wanted);
    found.ok_or_else(|| {
        let kind = match kind {
            CallKind::Function => "function",
            CallKind::Custom => "custom tool",
        };
        RequestError::invalid(path, format!("`tools` declares no {kind} `{name}`."))
    })
}

/// Returns the names that a declared tool can be called by.
fn declared(tool: &Tool) -> Vec<NamedTool> {
    let named = |kind, namespace: Option<&String>, name: &String| NamedTool {
        kind,
        namespace: namespace.cloned(),
        name: name.clone(),
    };
    match tool {
        Tool::Function(function) => vec![named(CallKind::Function, None, &function.name)],
        Tool::Custom(custom) => vec![named(CallKind::Custom, None, &custom.name)],
        Tool::Namespace(namespace) => {
            let members = namespace.tools.iter();
            let space = Some(&namespace.name);
            members
                .map(|member| named(CallKind::Function, space, &member.name))
                .collect()
        }
    }
}

/// Returns the functions that the model sees: all, or the allowed ones.
pub(in crate::translate) fn shown(tools: &[Tool], choice: &ToolChoice) -> Vec<FunctionTool> {
    let all = tools.iter().flat_map(Tool::shown);
    let wanted: Vec<String> = match choice {
        ToolChoice::Named(tool) => vec![tool.shown_name()],
        ToolChoice::Allowed { tools, .. } => tools.iter().map(NamedTool::shown_name).collect(),
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Required => return all.collect(),
    };
    all.filter(|tool| wanted.contains(&tool.name)).collect()
}

/// Returns the instruction to call; `None` if no call is forced.
pub(in crate::translate) fn instruction(choice: &ToolChoice) -> Option<String> {
    match choice {
        ToolChoice::Auto
        | ToolChoice::None
        | ToolChoice::Allowed {
            required: false, ..
        } => None,
        ToolChoice::Required | ToolChoice::Allowed { required: true, .. } => {
            Some("You must call one or more of the available functions to answer.".to_owned())
        }
        ToolChoice::Named(tool) => {
            let name = tool.shown_name();
            Some(format!("You must call the '{name}' function to answer."))
        }
    }
}
