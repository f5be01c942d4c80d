"""Tests the openai package against a server with scripted models. Argument: the URL."""

import sys

import openai
from openai.types import Completion, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseItem, ResponseStreamEvent
from openai.types.responses.input_token_count_response import InputTokenCountResponse
from pydantic import TypeAdapter

TEXT = "Hello there, café 😀."
url = sys.argv[1]
client = openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
event_type = TypeAdapter(ResponseStreamEvent)


def create():
    raw = client.responses.with_raw_response.create(model="greeter", input="Hi")
    assert raw.request_id.startswith("req_"), raw.request_id
    strict = Response.model_validate_json(raw.text, strict=True)
    response = raw.parse()
    assert response.output_text == strict.output_text == TEXT, response
    assert response.status == "completed"
    assert response.usage.total_tokens > response.usage.output_tokens > 0
    assert response.usage.input_tokens_details.cached_tokens == 0


def options():
    response = client.responses.create(
        model="greeter",
        input=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        ],
        instructions="Answer in verse.",
        temperature=0.7,
        max_output_tokens=2,
        metadata={"a": "b"},
        text={"format": {"type": "text"}},
        truncation="disabled",
        store=False,
        user="u",
    )
    assert response.status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.output[0].status == "incomplete"
    assert (response.temperature, response.metadata) == (0.7, {"a": "b"})
    again = client.responses.create(
        model="greeter", input=[*response.output, {"role": "user", "content": "Go on"}]
    )
    assert again.status == "completed"


def raw_stream():
    raw = client.responses.with_streaming_response.create(
        model="greeter", input="Hi", stream=True
    )
    with raw as response:
        datas = [line[6:] for line in response.iter_lines() if line.startswith("data: ")]
    events = [event_type.validate_json(data, strict=True) for data in datas]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].type == "response.completed"


def stream():
    deltas = ""
    for event in client.responses.create(model="greeter", input="Hi", stream=True):
        if event.type == "response.output_text.delta":
            deltas += event.delta
    assert deltas == TEXT, deltas
    with client.responses.stream(model="greeter", input="Hi") as events:
        snapshots = [e.snapshot for e in events if e.type == "response.output_text.delta"]
        final = events.get_final_response()
    assert snapshots[-1] == final.output_text == TEXT
    assert final.status == "completed"


def chat():
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    raw = client.chat.completions.with_raw_response.create(model="greeter", messages=messages, n=2)
    strict = ChatCompletion.model_validate_json(raw.text, strict=True)
    completion = raw.parse()
    assert [choice.message.content for choice in completion.choices] == [TEXT, TEXT]
    assert strict.usage.total_tokens == strict.usage.prompt_tokens + strict.usage.completion_tokens
    raw = client.chat.completions.with_streaming_response.create(
        model="greeter", messages=messages, stream=True, stream_options={"include_usage": True}
    )
    with raw as response:
        lines = [line[6:] for line in response.iter_lines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    chunks = [ChatCompletionChunk.model_validate_json(line, strict=True) for line in lines]
    assert chunks[-1].usage == strict.usage.model_copy(update={
        "completion_tokens": chunks[-1].usage.completion_tokens,
        "total_tokens": chunks[-1].usage.total_tokens,
    })
    with client.chat.completions.stream(model="greeter", messages=messages) as events:
        final = events.get_final_completion()
    assert final.choices[0].message.content == TEXT
    assert final.choices[0].finish_reason == "stop"


def completions():
    raw = client.completions.with_raw_response.create(model="greeter", prompt=["a", "b"], echo=True, max_tokens=99)
    strict = Completion.model_validate_json(raw.text, strict=True)
    assert [choice.text for choice in strict.choices] == ["a" + TEXT, "b" + TEXT]
    raw = client.completions.with_streaming_response.create(
        model="greeter", prompt="a", stream=True, max_tokens=99
    )
    with raw as response:
        lines = [line[6:] for line in response.iter_lines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    # The package's type is that of whole completions, where `finish_reason` is required.
    last = lines.pop()
    lines = [line.replace('"finish_reason":null', '"finish_reason":"stop"') for line in lines]
    chunks = [Completion.model_validate_json(line, strict=True) for line in [*lines, last]]
    assert "".join(chunk.choices[0].text for chunk in chunks) == TEXT


def logprobs():
    asked = dict(model="greeter", input="Hi", include=["message.output_text.logprobs"], top_logprobs=2)
    raw = client.responses.with_raw_response.create(**asked)
    part = Response.model_validate_json(raw.text, strict=True).output[0].content[0]
    assert b"".join(bytes(token.bytes) for token in part.logprobs).decode() == TEXT
    assert all(len(token.top_logprobs) == 2 for token in part.logprobs)
    with client.responses.with_streaming_response.create(**asked, stream=True) as response:
        datas = [line[6:] for line in response.iter_lines() if line.startswith("data: ")]
    events = [event_type.validate_json(data, strict=True) for data in datas]
    tokens = [t.token for e in events if e.type == "response.output_text.delta" for t in e.logprobs]
    assert tokens == [token.token for token in part.logprobs]
    assert events[-1].response.output[0].content[0].logprobs == part.logprobs
    with client.responses.stream(**asked) as events:
        assert events.get_final_response().output[0].content[0].logprobs == part.logprobs
    asked = dict(
        model="greeter", messages=[{"role": "user", "content": "Hi"}], logprobs=True, top_logprobs=2
    )
    raw = client.chat.completions.with_raw_response.create(**asked)
    content = ChatCompletion.model_validate_json(raw.text, strict=True).choices[0].logprobs.content
    assert b"".join(bytes(token.bytes) for token in content).decode() == TEXT
    with client.chat.completions.stream(**asked) as events:
        assert events.get_final_completion().choices[0].logprobs.content == content
    raw = client.completions.with_raw_response.create(
        model="greeter", prompt="a", logprobs=2, max_tokens=99
    )
    shown = Completion.model_validate_json(raw.text, strict=True).choices[0].logprobs
    assert len(shown.tokens) == len(shown.token_logprobs) == len(shown.text_offset) > 3
    assert all(len(top) == 2 for top in shown.top_logprobs)


def count():
    raw = client.responses.input_tokens.with_raw_response.count(model="greeter", input="Hi")
    strict = InputTokenCountResponse.model_validate_json(raw.text, strict=True)
    ended = client.responses.create(model="greeter", input="Hi")
    assert strict.input_tokens == ended.usage.input_tokens
    assert client.responses.input_tokens.count(
        model="greeter", input="Go on", previous_response_id=ended.id
    ).input_tokens > ended.usage.total_tokens


def cancel():
    with client.responses.create(model="slow", input="Hi", stream=True) as stream:
        events = iter(stream)
        created = next(events).response
        raw = client.responses.with_raw_response.cancel(created.id)
        cancelled = Response.model_validate_json(raw.text, strict=True)
        assert (cancelled.id, cancelled.status) == (created.id, "cancelled")
        last = list(events)[-1]
    assert last.type == "response.incomplete"
    assert last.response.status == "cancelled"
    assert client.responses.retrieve(created.id).output == last.response.output
    try:
        client.responses.cancel(created.id)
    except openai.BadRequestError as error:
        assert error.code == "not_cancellable", error
    else:
        raise AssertionError("a response ends twice")


def stored():
    items = [{"role": "user", "content": f"{n}"} for n in range(25)]
    response = client.responses.create(model="greeter", input=items)
    raw = client.responses.with_raw_response.retrieve(response.id)
    assert Response.model_validate_json(raw.text, strict=True) == response
    for order in ["asc", "desc"]:
        page = client.responses.input_items.list(response.id, order=order, limit=10)
        listed = list(page)
        numbers = [int(item.content[0].text) for item in listed]
        assert numbers == sorted(range(25), reverse=order == "desc"), numbers
        assert len({item.id for item in listed}) == 25
        for item in listed:
            TypeAdapter(ResponseItem).validate_json(item.to_json(), strict=True)
        rest = client.responses.input_items.list(response.id, order=order, after=listed[19].id)
        assert [item.id for item in rest.data] == [item.id for item in listed[20:]]
    client.responses.delete(response.id)
    try:
        client.responses.retrieve(response.id)
    except openai.NotFoundError:
        pass
    else:
        raise AssertionError("a deleted response is still there")


def models():
    listed = [model.id for model in client.models.list()]
    assert listed == ["greeter", "slow", "failing", "failing-chat"], listed
    raw = client.models.with_raw_response.retrieve("greeter")
    assert Model.model_validate_json(raw.text, strict=True).id == "greeter"


def errors():
    for call, kind, code in [
        (lambda: client.responses.create(model="none", input="x"), openai.NotFoundError, "model_not_found"),
        (lambda: client.models.retrieve("a/b"), openai.NotFoundError, "model_not_found"),
        (lambda: client.responses.create(model="greeter", input=""), openai.BadRequestError, "empty_input"),
        (lambda: client.responses.create(model="greeter", input="x", background=True), openai.BadRequestError, "unsupported_parameter"),
        (lambda: client.chat.completions.create(model="greeter", messages=[]), openai.BadRequestError, "empty_input"),
        (lambda: client.responses.retrieve("resp_1"), openai.NotFoundError, "not_found"),
    ]:
        try:
            call()
        except kind as error:
            assert error.code == code, error
        else:
            raise AssertionError(f"no {kind.__name__} with {code}")


def failure():
    try:
        for _ in client.responses.create(model="failing", input="x", stream=True):
            pass
    except openai.APIError as error:
        assert "error" in error.message, error
    else:
        raise AssertionError("the failure of a stream goes unnoticed")
    try:
        messages = [{"role": "user", "content": "x"}]
        for _ in client.chat.completions.create(model="failing-chat", messages=messages, stream=True):
            pass
    except openai.APIError as error:
        assert "error" in error.message, error
    else:
        raise AssertionError("the failure of a chat's stream goes unnoticed")


for check in [create, options, raw_stream, stream, chat, completions, logprobs, count, cancel, stored, models, errors, failure]:
    check()
    print(f"{check.__name__}: fine")
