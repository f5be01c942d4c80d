"""A weather tool on a real model; arguments: the URL, the model, and the ids of a response and of its call to continue, if there are."""

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
MOST = {"model": model, "tools": TOOLS, "temperature": 0, "max_output_tokens": 64}


def fed_back(response_id, call_id, *warmth):
    # So small a model calls again and again unless somebody asks for an answer.
    result = "Sunny, 21 degrees. Now answer the user in a sentence."
    output = {"type": "function_call_output", "call_id": call_id, "output": result}
    raw = client.responses.with_raw_response.create(
        input=[output], previous_response_id=response_id, **MOST
    )
    answer = raw.parse()
    assert raw.headers["x-stemma-continuation"] in warmth, raw.headers
    assert "21" in answer.output_text, answer
    return answer


if begun:
    # What the model had read may have been written before the server ended.
    fed_back(*begun, "cold", "thawed")
else:
    ask = {"input": "What is the weather in Paris?", **MOST}
    named = {"type": "function", "name": "get_weather"}
    for choice in ["required", named, "auto"]:
        # So small a model would repeat its call.
        response = client.responses.create(tool_choice=choice, parallel_tool_calls=False, **ask)
        [call] = response.output
        assert (call.type, call.name) == ("function_call", "get_weather"), (choice, call)
        assert json.loads(call.arguments) == {"city": "Paris"}, (choice, call)
    call_id = call.call_id
    for seed in range(20):
        # However hot, and whatever is asked for.
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
                # A city whose name does not end.
                assert made.status == "incomplete" and call.name == "get_weather", (seed, made)
                continue
            arguments = json.loads(call.arguments)
            if call.name == "set_alarm":
                assert set(arguments) == {"day", "hour"}, (seed, call)
                assert arguments["day"] in DAYS and 0 <= arguments["hour"] < 24, (seed, call)
            else:
                assert (seed % 2, call.name) == (0, "get_weather"), (seed, call)
                assert isinstance(arguments["city"], str), (seed, call)
    answer = fed_back(response.id, call_id, "warm")
    assert answer.usage.input_tokens_details.cached_tokens > response.usage.input_tokens
    print(response.id, call_id, end="")
