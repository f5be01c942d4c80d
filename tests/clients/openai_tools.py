"""Tests tool calls and reasoning with the openai package.

Arguments: the URL, and a model whose output is the text after "Say: " in the input."""

import json
import sys

import openai
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

url, model = sys.argv[1:]
client = openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
event_type = TypeAdapter(ResponseStreamEvent)

TOOLS = [
    {
        "type": "function",
        "name": "get_weather",
        "description": "Tells the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        "strict": False,
    },
    {
        "type": "namespace",
        "name": "crm",
        "description": "Customers.",
        "tools": [{"type": "function", "name": "find"}],
    },
    {"type": "custom", "name": "shell", "format": {"type": "text"}},
]
CALLS = [
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
    '<tool_call>\n{"name": "crm.find", "arguments": {}}\n</tool_call>',
    '<tool_call>\n{"name": "shell", "arguments": {"input": "ls\\n"}}\n</tool_call>',
]
OUTPUT = "<think>\nHm.\n</think>\n\nLet me look.\n" + "\n".join(CALLS)
ASK = {"model": model, "input": f"Say: {OUTPUT}", "tools": TOOLS}


def check(response):
    reasoning, message, weather, find, shell = response.output
    assert [part.text for part in reasoning.content] == ["Hm."], reasoning
    assert message.content[0].text == response.output_text == "Let me look.", message
    assert json.loads(weather.arguments) == {"city": "Paris"}, weather
    assert (find.namespace, find.name, find.arguments) == ("crm", "find", "{}"), find
    assert (shell.type, shell.name, shell.input) == ("custom_tool_call", "shell", "ls\n"), shell
    assert response.usage.output_tokens_details.reasoning_tokens > 0
    assert [tool.type for tool in response.tools] == ["function", "namespace", "custom"]


def whole():
    for choice in ["auto", "required", {"type": "function", "name": "get_weather"}]:
        raw = client.responses.with_raw_response.create(tool_choice=choice, **ASK)
        Response.model_validate_json(raw.text, strict=True)
        response = raw.parse()
        if choice == "auto":
            check(response)
        else:
            # A forced call has no message text beside it.
            reasoning, *calls = response.output
            assert reasoning.type == "reasoning", response
            assert calls and all(call.type.endswith("_call") for call in calls), response
        assert client.responses.retrieve(response.id) == response


def streamed():
    raw = client.responses.with_streaming_response.create(stream=True, **ASK)
    with raw as response:
        datas = [line[6:] for line in response.iter_lines() if line.startswith("data: ")]
    events = [event_type.validate_json(data, strict=True) for data in datas]
    check(events[-1].response)
    with client.responses.stream(**ASK) as stream:
        deltas = {}
        for event in stream:
            if event.type.endswith(".delta"):
                deltas.setdefault(event.item_id, []).append(event.delta)
        final = stream.get_final_response()
    joined = ["".join(deltas.get(item.id, [])) for item in final.output]
    assert joined == ["Hm.", "Let me look.", '{"city": "Paris"}', "{}", "ls\n"], joined


def fed_back():
    first = client.responses.create(**ASK)
    calls = [item for item in first.output if item.type.endswith("_call")]
    outputs = [
        {"type": f"{call.type}_output", "call_id": call.call_id, "output": str(n)}
        for n, call in enumerate(calls)
    ]
    by_id = client.responses.create(
        model=model, previous_response_id=first.id, input=outputs, tools=TOOLS
    )
    user = {"role": "user", "content": ASK["input"]}
    whole = client.responses.create(
        model=model, input=[user, *first.output, *outputs], tools=TOOLS
    )
    assert by_id.output_text == whole.output_text == "It gave 2.", (by_id, whole)
    listed = client.responses.input_items.list(by_id.id, order="asc")
    assert [item.type for item in listed] == [output["type"] for output in outputs]


def chat():
    messages = [{"role": "user", "content": f"Say: {OUTPUT}"}]
    function = {key: TOOLS[0][key] for key in ["name", "description", "parameters"]}
    tools = [
        {"type": "function", "function": function},
        {"type": "function", "function": {"name": "crm.find"}},
        {"type": "custom", "custom": {"name": "shell"}},
    ]
    raw = client.chat.completions.with_raw_response.create(
        model=model, messages=messages, tools=tools
    )
    choice = ChatCompletion.model_validate_json(raw.text, strict=True).choices[0]
    weather, find, shell = choice.message.tool_calls
    assert json.loads(weather.function.arguments) == {"city": "Paris"}
    assert (find.function.name, shell.custom.input) == ("crm.find", "ls\n")
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "Let me look.")
    assert choice.message.reasoning_content == choice.message.reasoning == "Hm."

    # The package's type for deltas has no custom tools.
    messages = [{"role": "user", "content": "Say: " + "\n".join(CALLS[:2])}]
    ask = {"model": model, "messages": messages, "tools": tools[:2]}
    raw = client.chat.completions.with_streaming_response.create(stream=True, **ask)
    with raw as response:
        lines = [line[6:] for line in response.iter_lines() if line.startswith("data: ")]
    chunks = [ChatCompletionChunk.model_validate_json(line, strict=True) for line in lines[:-1]]
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    with client.chat.completions.stream(**ask) as stream:
        final = stream.get_final_completion().choices[0].message
    assert [call.function.name for call in final.tool_calls] == ["get_weather", "crm.find"]
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": "sun"} for call in final.tool_calls
    ]
    answer = client.chat.completions.create(
        model=model, messages=[*messages, final, *results], tools=tools[:2]
    )
    assert answer.choices[0].message.content == "It gave sun.", answer


def errors():
    for more, code in [
        ({"tools": [{"type": "web_search"}]}, "unsupported_tool"),
        ({"tools": [], "tool_choice": "required"}, "invalid_value"),
        ({"tool_choice": {"type": "function", "name": "none"}}, "invalid_value"),
    ]:
        try:
            client.responses.create(**{**ASK, **more})
        except openai.BadRequestError as error:
            assert error.code == code, error
        else:
            raise AssertionError(f"{more} is accepted")


for test in [whole, streamed, fed_back, chat, errors]:
    test()
    print(f"{test.__name__}: fine")
