//! Parts of the API that this server does not have: refused by name, never passed over in silence.

use crate::{translate::Refusal, wire::CreateRequest};

/// Refuses a request that asks for something that is not there.
pub(super) fn refuse(request: &CreateRequest) -> Result<(), Refusal> {
    Refusal::of_absent(&[
        ("background", request.background == Some(true)),
        ("conversation", request.conversation.is_some()),
        ("prompt", request.prompt.is_some()),
    ])?;
    let format = request.text.as_ref().and_then(|text| text.format.as_ref());
    if let Some(format) = format {
        refuse_format("text.format", format.kind.as_deref())?;
    }
    Ok(())
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
