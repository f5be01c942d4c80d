"""Runs an agent of openai-agents with two tools.

Arguments: the URL, the model, and "scripted" or "real"."""

import asyncio
import sys

import agents
from openai import AsyncOpenAI

url, model, kind = sys.argv[1:]
client = AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
agents.set_tracing_disabled(True)
called = []

# Small models repeat a call unless the result tells them to answer.
PLEASE = "" if kind == "scripted" else ". Now answer the user in a sentence."


@agents.function_tool
def get_weather(city: str) -> str:
    """Tells the current weather in a city."""
    called.append(("get_weather", city))
    return f"sunny, 21 degrees{PLEASE}"


@agents.function_tool
def get_time(city: str) -> str:
    """Tells the current local time in a city."""
    called.append(("get_time", city))
    return f"half past four{PLEASE}"


def agent():
    return agents.Agent(
        name="Guide",
        instructions=None if kind == "scripted" else "Call a tool for the weather or the time.",
        tools=[get_weather, get_time],
        model=agents.OpenAIResponsesModel(model=model, openai_client=client),
        model_settings=agents.ModelSettings(temperature=0.0, max_tokens=64),
    )


def call(name):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {{"city": "Paris"}}}}\n</tool_call>'


async def ask(text, previous=None):
    result = await agents.Runner.run(
        agent(),
        text,
        max_turns=4,
        previous_response_id=previous,
        auto_previous_response_id=True,
    )
    return result


async def main():
    if kind == "scripted":
        questions = [f"Say: {call('get_weather')}", f"Say: {call('get_time')}"]
        expected = ["sunny, 21 degrees", "half past four"]
    else:
        questions = ["What is the weather in Paris?", "What time is it in Paris?"]
        expected = ["21", "half past four"]
    previous = None
    for question, words in zip(questions, expected):
        result = await ask(question, previous)
        # A small model does not call a tool in a conversation that already has a call.
        previous = result.last_response_id if kind == "scripted" else None
        print(f"{question!r}: {called} {result.final_output!r}")
        assert words in result.final_output, result.final_output
    assert called == [("get_weather", "Paris"), ("get_time", "Paris")], called
    if kind == "scripted":
        streamed = agents.Runner.run_streamed(
            agent(), questions[0], auto_previous_response_id=True
        )
        names = [event.name async for event in streamed.stream_events() if hasattr(event, "name")]
        assert "tool_called" in names and "tool_output" in names, names
        assert expected[0] in streamed.final_output


asyncio.run(main())
print("fine")
