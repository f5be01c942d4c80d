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
        response = client.responses.create(tool_choice=choice, **ask)
        [call] = response.output
        assert (call.type, call.name) == ("function_call", "get_weather"), (choice, call)
        assert json.loads(call.arguments) == {"city": "Paris"}, (choice, call)
    answer = fed_back(response.id, call.call_id, "warm")
    assert answer.usage.input_tokens_details.cached_tokens > response.usage.input_tokens
    print(response.id, call.call_id, end="")
