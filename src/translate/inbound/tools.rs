//! `tools` → what a client declares.

use std::collections::HashSet;

use super::input::named;
use crate::{
    conversation::{CustomFormat, CustomTool, FunctionTool, GrammarSyntax, Namespace, Tool},
    limits,
    translate::{Code, RequestError},
    wire::tool::{ToolDeclaration, ToolFields, ToolFormat},
};

/// Handling of tools that this server does not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnsupportedTools {
    /// The request is refused.
    #[default]
    Refuse,
    /// They are left out, and the client is told.
    Skip,
}

/// The tools of a request.
#[derive(Debug, Default)]
pub(in crate::translate) struct Declared {
    pub(in crate::translate) tools: Vec<Tool>,
    /// Types of tools that were left out.
    pub(in crate::translate) skipped: Vec<String>,
}

/// Translates `tools`.
pub(in crate::translate) fn declared(
    tools: Option<Vec<ToolDeclaration>>,
    unsupported: UnsupportedTools,
) -> Result<Declared, RequestError> {
    let mut declared = Declared::default();
    for (index, entry) in tools.unwrap_or_default().into_iter().enumerate() {
        let path = format!("tools[{index}]");
        if let Some(tool) = tool(&path, entry, unsupported, &mut declared.skipped)? {
            declared.tools.push(tool);
        }
    }
    reject_duplicates(&declared.tools)?;
    Ok(declared)
}

fn tool(
    path: &str,
    tool: ToolDeclaration,
    unsupported: UnsupportedTools,
    skipped: &mut Vec<String>,
) -> Result<Option<Tool>, RequestError> {
    let kind = tool.kind.clone();
    let kind = kind.ok_or_else(|| RequestError::missing(format!("{path}.type")))?;
    match kind.as_str() {
        "function" => function(path, tool).map(Tool::Function).map(Some),
        "custom" => custom(path, tool).map(Tool::Custom).map(Some),
        "namespace" => {
            let namespace = namespace(path, tool, unsupported, skipped)?;
            Ok(namespace.map(Tool::Namespace))
        }
        _ if unsupported == UnsupportedTools::Skip => {
            skipped.push(kind);
            Ok(None)
        }
        other => Err(RequestError::of(
            Code::UnsupportedTool,
            format!("{path}.type"),
            format!(
                "`{path}` is a tool of type `{other}`, which this server does not have: send \
                 `function`, `namespace` or `custom`."
            ),
        )),
    }
}

fn function(path: &str, tool: ToolDeclaration) -> Result<FunctionTool, RequestError> {
    let (path, fields) = match tool.function {
        Some(nested) => (format!("{path}.function"), nested),
        None => (path.to_owned(), flat(tool)),
    };
    Ok(FunctionTool {
        name: tool_name(&path, fields.name)?,
        description: fields.description,
        parameters: fields.parameters,
        strict: fields.strict,
        path: format!("{path}.parameters"),
    })
}

fn custom(path: &str, tool: ToolDeclaration) -> Result<CustomTool, RequestError> {
    let (path, fields) = match tool.custom {
        Some(nested) => (format!("{path}.custom"), nested),
        None => (path.to_owned(), flat(tool)),
    };
    Ok(CustomTool {
        name: tool_name(&path, fields.name)?,
        description: fields.description,
        format: match fields.format {
            None => CustomFormat::Text,
            Some(format) => custom_format(&format!("{path}.format"), format)?,
        },
    })
}

fn flat(tool: ToolDeclaration) -> ToolFields {
    ToolFields {
        name: tool.name,
        description: tool.description,
        parameters: tool.parameters,
        strict: tool.strict,
        format: tool.format,
    }
}

fn custom_format(path: &str, format: ToolFormat) -> Result<CustomFormat, RequestError> {
    let kind = format.kind;
    match kind.as_deref() {
        None => Err(RequestError::missing(format!("{path}.type"))),
        Some("text") => Ok(CustomFormat::Text),
        Some("grammar") => {
            let (path, syntax, definition) = match format.grammar {
                Some(nested) => (format!("{path}.grammar"), nested.syntax, nested.definition),
                None => (path.to_owned(), format.syntax, format.definition),
            };
            let syntax = match syntax.as_deref() {
                None => return Err(RequestError::missing(format!("{path}.syntax"))),
                Some("lark") => GrammarSyntax::Lark,
                Some("regex") => GrammarSyntax::Regex,
                Some(other) => {
                    let message =
                        format!("`{path}.syntax` must be `lark` or `regex`, not `{other}`.");
                    return Err(RequestError::invalid(format!("{path}.syntax"), message));
                }
            };
            let path = format!("{path}.definition");
            Ok(CustomFormat::Grammar {
                syntax,
                definition: named(path.clone(), definition)?,
                path,
            })
        }
        Some(other) => {
            let message = format!("`{path}.type` must be `text` or `grammar`, not `{other}`.");
            Err(RequestError::invalid(format!("{path}.type"), message))
        }
    }
}

/// Returns a namespace with its supported members; `None` if it has none.
fn namespace(
    path: &str,
    tool: ToolDeclaration,
    unsupported: UnsupportedTools,
    skipped: &mut Vec<String>,
) -> Result<Option<Namespace>, RequestError> {
    let name = tool_name(path, tool.name)?;
    let members = tool.tools;
    let members = members.ok_or_else(|| RequestError::missing(format!("{path}.tools")))?;
    let mut tools = Vec::new();
    for (index, member) in members.into_iter().enumerate() {
        let path = format!("{path}.tools[{index}]");
        match (member.kind.as_deref(), unsupported) {
            (None, _) => return Err(RequestError::missing(format!("{path}.type"))),
            (Some("function"), _) => tools.push(function(&path, member)?),
            (Some(other), UnsupportedTools::Skip) => skipped.push(other.to_owned()),
            (Some(other), UnsupportedTools::Refuse) => {
                let message = format!(
                    "`{path}` is a tool of type `{other}`; a namespace holds functions only."
                );
                let param = format!("{path}.type");
                return Err(RequestError::of(Code::UnsupportedTool, param, message));
            }
        }
    }
    Ok((!tools.is_empty()).then_some(Namespace {
        name,
        description: tool.description,
        tools,
    }))
}

fn tool_name(path: &str, name: Option<String>) -> Result<String, RequestError> {
    let path = format!("{path}.name");
    let name = named(path.clone(), name)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.:/".contains(c);
    if name.chars().all(fits) && name.len() <= limits::TOOL_NAME_CHARS_MAX {
        return Ok(name);
    }
    let message = format!(
        "`{path}` may have at most {} characters: letters, digits, `_`, `-`, `.`, `:` and `/`.",
        limits::TOOL_NAME_CHARS_MAX
    );
    Err(RequestError::invalid(path, message))
}

/// Rejects two tools of one name: a call names its tool only.
fn reject_duplicates(tools: &[Tool]) -> Result<(), RequestError> {
    let mut names = HashSet::new();
    for (index, tool) in tools.iter().enumerate() {
        for shown in tool.shown() {
            if !names.insert(shown.name.clone()) {
                let message = format!("Two tools are called `{}`.", shown.name);
                return Err(RequestError::invalid(
                    format!("tools[{index}].name"),
                    message,
                ));
            }
        }
    }
    Ok(())
}
