"""Removes the model and the previous response from generated bodies, whose values would rarely exist."""

import schemathesis


@schemathesis.hook
def map_body(context, body):
    if isinstance(body, dict):
        body.pop("model", None)
        body.pop("previous_response_id", None)
    return body
