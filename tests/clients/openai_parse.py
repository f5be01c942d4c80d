"""Parses outputs into a nested pydantic model. All outputs must be instances.

Arguments: the URL, the model, the number of outputs and, optionally, `max_output_tokens`. Outputs are
sampled at temperature 1 with seeds 0, 1, 2, ..., eight concurrently."""

import collections
import concurrent.futures
import enum
import sys
import time

import openai
import pydantic

url, model, count, *limit = sys.argv[1:]
client = openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0, timeout=3600)
LIMIT = {"max_output_tokens": int(limit[0])} if limit else {}


class Role(enum.Enum):
    host = "host"
    guest = "guest"


class Address(pydantic.BaseModel):
    street: str
    city: str
    postcode: str | None


class Person(pydantic.BaseModel):
    name: str
    age: int
    role: Role
    address: Address | None


class Event(pydantic.BaseModel):
    title: str
    date: str
    participants: list[Person]
    tags: list[str]
    indoors: bool


ASK = "Make up an event with two or three people, and describe it as JSON."


def fault(seed):
    """Returns the error (`None` if the output is an instance), the status, and the length in tokens."""
    response = client.responses.parse(
        model=model,
        input=ASK,
        text_format=Event,
        temperature=1,
        extra_body={"seed": seed},
        **LIMIT,
    )
    length = response.usage.output_tokens
    if isinstance(response.output_parsed, Event):
        return None, response.status, length
    return f"seed {seed}: {response.output_text[-200:]}", response.status, length


def run(seed):
    try:
        return fault(seed)
    except (pydantic.ValidationError, openai.OpenAIError) as error:
        return f"seed {seed}: {type(error).__name__}: {' '.join(str(error).split())[:200]}", "no response", 0


begun = time.monotonic()
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    results = list(pool.map(run, range(int(count))))
seconds = time.monotonic() - begun
faults = [fault for fault, _, _ in results if fault]
statuses = collections.Counter(status for _, status, _ in results)
lengths = sorted(length for _, _, length in results)
print(f"{len(results) - len(faults)} of {len(results)} are instances, in {seconds:.0f} s")
print(*(f"{count} {status}" for status, count in statuses.items()), sep=", ")
print(f"tokens: median {lengths[len(lengths) // 2]}, most {lengths[-1]}")
print(*faults, sep="\n")
sys.exit(bool(faults))
