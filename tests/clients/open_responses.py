"""Validates responses and events against the Open Responses schema.

Arguments: the URL, a model and, optionally, a model that fails."""

import json
import sys
from urllib.request import Request, urlopen

from openresponses_types import types
from pydantic import TypeAdapter

url, model, *failing = sys.argv[1:]

# Open Responses has other names for these two events.
RENAMED = {
    "response.reasoning_text.delta": "response.reasoning.delta",
    "response.reasoning_text.done": "response.reasoning.done",
}


def event_models():
    """Returns the schema's event classes by event type."""
    models = {}
    for name, kind in vars(types).items():
        if name.endswith("StreamingEvent"):
            (value,) = kind.model_fields["type"].annotation
            models[value.value] = kind
    return models


EVENTS = event_models()
assert len(EVENTS) > 20, EVENTS


def strict(kind, value):
    """Validates JSON in strict mode, without conversions."""
    return TypeAdapter(kind).validate_json(json.dumps(value), strict=True)


def response(value):
    found = strict(types.ResponseResource, value)
    missing = {field.alias or name for name, field in types.ResponseResource.model_fields.items()} - value.keys()
    assert not missing, missing
    return found


def post(**request):
    body = json.dumps({"model": model, "max_output_tokens": 16, **request}).encode()
    request = Request(f"{url}/v1/responses", body, {"content-type": "application/json"})
    return urlopen(request, timeout=300)


def create(**request):
    return json.load(post(**request))


def retrieve(id):
    return json.load(urlopen(f"{url}/v1/responses/{id}", timeout=300))


def stream(**request):
    with post(stream=True, **request) as lines:
        for line in lines:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))


REQUESTS = [
    {"input": "Say hello."},
    {
        "input": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]},
            {"role": "user", "content": "Again."},
        ],
        "instructions": "Answer in verse.",
        "temperature": 0.5,
        "top_p": 0.9,
        "presence_penalty": 0.1,
        "frequency_penalty": -0.1,
        "metadata": {"a": "b"},
        "truncation": "auto",
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "parallel_tool_calls": False,
        "max_tool_calls": 3,
        "safety_identifier": "s",
        "prompt_cache_key": "k",
    },
    {"input": "Say hello.", "max_output_tokens": 1},
    {"input": "Say hello.", "store": False},
]

kinds = set()


def check_stream(**request):
    """Validates every event of a stream and returns the type of the last."""
    for event in stream(**request):
        kind = event["type"] = RENAMED.get(event["type"], event["type"])
        kinds.add(kind)
        strict(EVENTS[kind], event)
        if "response" in event:
            response(event["response"])
    return kind


for request in REQUESTS:
    created = create(**request)
    response(created)
    if created["store"]:
        assert retrieve(created["id"]) == created
        continued = create(input="Go on.", previous_response_id=created["id"])
        assert response(continued).previous_response_id == created["id"]
    assert check_stream(**request) in ["response.completed", "response.incomplete"]

for name in failing:
    assert check_stream(model=name, input="x") == "response.failed"
    assert "error" in kinds

print(f"fine: {len(kinds)} kinds of events")
