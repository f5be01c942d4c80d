//! Parts of the API that this server does not have: refused by name, never passed over in silence.

use serde_json::Value;

use crate::{
    translate::{Code, Refusal},
    wire::CreateRequest,
};

/// Refuses a request that asks for something that is not there.
pub(super) fn refuse(request: &CreateRequest) -> Result<(), Refusal> {
    let reasoning = request.reasoning.as_ref();
    Refusal::of_absent(&[
        ("background", request.background == Some(true)),
        ("conversation", request.conversation.is_some()),
        ("prompt", request.prompt.is_some()),
        (
            "chat_template_kwargs",
            request.chat_template_kwargs.is_some(),
        ),
        (
            "reasoning.effort",
            reasoning.is_some_and(|reasoning| reasoning.effort.is_some()),
        ),
        (
            "tools",
            request
                .tools
                .as_ref()
                .is_some_and(|tools| !tools.is_empty()),
        ),
    ])?;
    refuse_tool_choice(request.tool_choice.as_ref())?;
    let format = request.text.as_ref().and_then(|text| text.format.as_ref());
    if let Some(format) = format {
        refuse_format("text.format", format.kind.as_deref())?;
    }
    Ok(())
}

fn refuse_tool_choice(choice: Option<&Value>) -> Result<(), Refusal> {
    const PARAM: &str = "tool_choice";
    let refused = match choice {
        None => return Ok(()),
        Some(Value::String(name)) => match name.as_str() {
            "auto" | "none" => return Ok(()),
            "required" => {
                Refusal::invalid(PARAM, "`tool_choice` cannot be `required` without `tools`.")
            }
            other => Refusal::invalid(
                PARAM,
                format!("`tool_choice` must be `auto` or `none`, not `{other}`."),
            ),
        },
        Some(Value::Object(_)) => Refusal::unsupported(PARAM),
        Some(_) => Refusal::of(
            Code::InvalidType,
            PARAM,
            "`tool_choice` has the wrong type: expected a string or an object.",
        ),
    };
    Err(refused)
}

/// Refuses the formats of an answer that are not there; `param` is what the API calls it.
pub(in crate::translate) fn refuse_format(param: &str, kind: Option<&str>) -> Result<(), Refusal> {
    match kind {
        Some("text") => Ok(()),
        Some("json_object" | "json_schema") => Err(Refusal::unsupported(param)),
        Some(other) => Err(Refusal::invalid(
            format!("{param}.type"),
            format!("`{param}.type` must be `text`, not `{other}`."),
        )),
        None => Err(Refusal::missing(format!("{param}.type"))),
    }
}
