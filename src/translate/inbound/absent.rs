//! Parts of the API that this server does not have: refused by name, never passed over in silence.

use crate::{translate::RequestError, wire::CreateRequest};

/// Refuses a request that asks for something that is not there.
pub(super) fn refuse(request: &CreateRequest) -> Result<(), RequestError> {
    RequestError::of_unsupported(&[
        ("background", request.background == Some(true)),
        ("conversation", request.conversation.is_some()),
        ("prompt", request.prompt.is_some()),
    ])
}
