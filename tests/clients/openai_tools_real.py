"""Tests a weather tool with a real model.

Arguments: the URL, the model and, optionally, the ids of a response and of its call to continue."""

import json
import sys

import openai

url, model, *begun = sys.argv[1:]
client = openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0, timeout=300)
TOOLS = [
    {
        "type": "function",
        "name": "get_weather",
        "description": "Get the current weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    }
]
DAYS = ["today", "tomorrow"]
ALARM = {
    "type": "function",
    "name": "set_alarm",
    "description": "Set an alarm.",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {
            "day": {"enum": DAYS},
            "hour": {"type": "integer", "minimum": 0, "maximum": 23},
        },
        "required": ["day", "hour"],
        "additionalProperties": False,
    },
}
REQUEST = {"model": model, "tools": TOOLS, "temperature": 0, "max_output_tokens": 64}


def send_result(response_id, call_id, *states):
    # Such a small model repeats the call unless the result asks for an answer.
    result = "Sunny, 21 degrees. Now answer the user in a sentence."
    output = {"type": "function_call_output", "call_id": call_id, "output": result}
    raw = client.responses.with_raw_response.create(
        input=[output], previous_response_id=response_id, **REQUEST
    )
    answer = raw.parse()
    assert raw.headers["x-stemma-continuation"] in states, raw.headers
    assert "21" in answer.output_text, answer
    return answer


if begun:
    # The server may have written a snapshot before it ended.
    send_result(*begun, "cold", "thawed")
else:
    ask = {"input": "What is the weather in Paris?", **REQUEST}
    named = {"type": "function", "name": "get_weather"}
    for choice in ["required", named, "auto"]:
        # Such a small model would repeat its call.
        response = client.responses.create(tool_choice=choice, parallel_tool_calls=False, **ask)
        [call] = response.output
        assert (call.type, call.name) == ("function_call", "get_weather"), (choice, call)
        assert json.loads(call.arguments) == {"city": "Paris"}, (choice, call)
    call_id = call.call_id
    for seed in range(20):
        # Forced calls are valid at a high temperature and for unrelated input.
        rambling = {"temperature": 1.2, "input": "Tell me a joke.", "extra_body": {"seed": seed}}
        forced = ["required", {"type": "function", "name": "set_alarm"}]
        made = client.responses.create(
            model=model,
            tools=[*TOOLS, ALARM],
            tool_choice=forced[seed % 2],
            parallel_tool_calls=False,
            max_output_tokens=200,
            **rambling,
        )
        assert made.output, (seed, made)
        for call in made.output:
            assert call.type == "function_call", (seed, made)
            if call.status != "completed":
                # The name of the city did not end within the limit.
                assert made.status == "incomplete" and call.name == "get_weather", (seed, made)
                continue
            arguments = json.loads(call.arguments)
            if call.name == "set_alarm":
                assert set(arguments) == {"day", "hour"}, (seed, call)
                assert arguments["day"] in DAYS and 0 <= arguments["hour"] < 24, (seed, call)
            else:
                assert (seed % 2, call.name) == (0, "get_weather"), (seed, call)
                assert isinstance(arguments["city"], str), (seed, call)
    answer = send_result(response.id, call_id, "warm")
    assert answer.usage.input_tokens_details.cached_tokens > response.usage.input_tokens
    print(response.id, call_id, end="")
