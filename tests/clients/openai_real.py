"""Tests the openai package against a server with a real model. Arguments: the URL and the model."""

import sys

import openai
from openai.types.chat import ChatCompletion
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

url, model = sys.argv[1:]
client = openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
event_type = TypeAdapter(ResponseStreamEvent)
most = {"model": model, "max_output_tokens": 24}

raw = client.responses.with_raw_response.create(input="What is the capital of France?", **most)
Response.model_validate_json(raw.text, strict=True)
first = raw.parse()
assert "Paris" in first.output_text, first.output_text
assert client.responses.retrieve(first.id) == first

with client.responses.stream(
    input="Say that again.", previous_response_id=first.id, **most
) as events:
    deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    second = events.get_final_response()
assert second.output_text == deltas != ""
assert second.usage.input_tokens_details.cached_tokens > 0, second.usage

raw = client.responses.with_streaming_response.create(input="Hi", stream=True, **most)
with raw as response:
    datas = [line[6:] for line in response.iter_lines() if line.startswith("data: ")]
events = [event_type.validate_json(data, strict=True) for data in datas]
assert [event.sequence_number for event in events] == list(range(len(events)))

messages = [{"role": "user", "content": "What is the capital of France?"}]
raw = client.chat.completions.with_raw_response.create(
    model=model, messages=messages, max_completion_tokens=24
)
chat = ChatCompletion.model_validate_json(raw.text, strict=True)
assert "Paris" in chat.choices[0].message.content, chat

client.responses.delete(second.id)
print("fine")
