//! The `include` field.

use crate::{
    conversation::SamplingRequest,
    translate::{Code, RequestError, logprobs},
    wire::CreateRequest,
};

const LOGPROBS: &str = "message.output_text.logprobs";

/// Adds what `include` and `top_logprobs` ask for.
pub(super) fn apply(
    request: &CreateRequest,
    wishes: &mut SamplingRequest,
) -> Result<(), RequestError> {
    let include = request.include.as_deref().unwrap_or_default();
    for (at, name) in include.iter().enumerate() {
        // Clients without stored responses ask for encrypted reasoning; the server has none to
        // send.
        if name != LOGPROBS && name != "reasoning.encrypted_content" {
            let message = format!("`include` of `{name}` is not supported.");
            let param = format!("include[{at}]");
            return Err(RequestError::of(Code::UnsupportedParameter, param, message));
        }
    }
    let top = logprobs::count("top_logprobs", request.top_logprobs)?;
    let asked = include.iter().any(|name| name == LOGPROBS);
    wishes.logprobs = asked.then(|| top.unwrap_or(0));
    Ok(())
}
