"""Golden prompts: real templates, rendered by `transformers`.

templates.py --templates DIR [--write FILE | --show TEMPLATE CASE]

DIR is the folder that fetch_templates.py wrote. Each template renders each conversation of
tests/data/templates/conversations.json, with and without a generation prompt. The golden is length and
hash of the text, because the text contains parts of the template, which has a licence of its own.
Needs transformers==5.24.0 and jinja2==3.1.6, no torch.
"""

import argparse
import datetime
import hashlib
import json
import pathlib
import re

import jinja2
import transformers
from transformers.utils import chat_template_utils

DATA = pathlib.Path(__file__).parent.parent / "data" / "templates"
TRANSFORMERS = "5.24.0"
# Length of the hash prefix: enough to tell apart texts that were not made to collide.
HASH_DIGITS = 16
# A text with addresses of Python objects differs from run to run, so it cannot be a golden.
ADDRESS = re.compile(r" at 0x[0-9a-f]{6,}>")


class FixedClock(datetime.datetime):
    """`datetime` fixed at the time of the conversations file."""

    fixed = None

    @classmethod
    def now(cls, tz=None):
        return cls.fixed


def load_conversations():
    """Reads the conversations and fixes the clock at their time."""
    data = json.loads((DATA / "conversations.json").read_text(encoding="utf-8"))
    FixedClock.fixed = datetime.datetime.fromisoformat(data["now"].partition("[")[0])
    chat_template_utils.datetime = FixedClock
    return data


def prepared(messages, source, parsed):
    """Returns the messages as the server passes them to templates.

    Arguments of calls are objects if they parse to objects, or else all are strings. Call ids have nine
    characters for templates that require it.
    """

    def call_id(text):
        short = "length != 9" in source and len(text) != 9
        return hashlib.sha256(text.encode()).hexdigest()[:9] if short else text

    messages = chat_template_utils._normalize_chat_messages(messages)
    for message in messages:
        if "tool_call_id" in message:
            message["tool_call_id"] = call_id(message["tool_call_id"])
        for call in message.get("tool_calls", []):
            call["id"] = call_id(call["id"])
            if parsed:
                call["function"]["arguments"] = parsed_arguments(call["function"]["arguments"])
    return messages


def parsed_arguments(text):
    """Returns the object that a string parses to, or the string."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return text
    return value if isinstance(value, dict) else text


def render(source, data, name, add_generation_prompt):
    """Renders as `apply_chat_template(tokenize=False)` does: (text, None) or (None, error).

    Templates that fail on arguments that are objects get strings, as from the server.
    """
    case = data["cases"][name]
    variables = {**data["special_tokens"], **case["template_args"]}
    outcome = None
    for parsed in (True, False):
        try:
            (text,), _ = chat_template_utils.render_jinja_template(
                conversations=[prepared(case["messages"], source, parsed)],
                tools=case["tools"] or None,
                chat_template=source,
                add_generation_prompt=add_generation_prompt,
                **variables,
            )
            return text, None
        except Exception as error:  # any exception of a template is an outcome
            outcome = outcome or (None, f"{type(error).__name__}: {error}")
            if type(error) is jinja2.TemplateError:  # what `raise_exception` raises
                break
    return outcome


def golden(text, error):
    """Returns the golden of one rendering: length and SHA-256 prefix, or the kind of error."""
    if error is not None:
        return error.partition(":")[0]
    if ADDRESS.search(text):
        return None  # not repeatable
    encoded = text.encode("utf-8")
    return f"{len(encoded)} {hashlib.sha256(encoded).hexdigest()[:HASH_DIGITS]}"


def goldens(templates, data):
    """Returns all goldens, by template, conversation, and generation prompt (false, true)."""
    result = {}
    for path in sorted(templates.glob("*/*.jinja")):
        if path.stem.endswith("_training"):
            continue  # the same templates with tags that print nothing
        source = path.read_bytes().decode("utf-8")
        result[path.relative_to(templates).as_posix()] = {
            name: [golden(*render(source, data, name, prompt)) for prompt in (False, True)]
            for name in data["cases"]
        }
    return result


def write(result, path):
    """Writes one line per template and conversation, so that diffs are readable."""
    lines = []
    for template, cases in result.items():
        rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(pair)}" for name, pair in cases.items())
        lines.append(f" {json.dumps(template)}: {{\n{rows}\n }}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main():
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--templates", type=pathlib.Path, required=True)
    parser.add_argument("--write", type=pathlib.Path, default=DATA / "goldens.json")
    parser.add_argument("--show", nargs=2, metavar=("TEMPLATE", "CASE"))
    options = parser.parse_args()
    if transformers.__version__ != TRANSFORMERS:
        raise SystemExit(f"needs transformers {TRANSFORMERS}, found {transformers.__version__}")
    data = load_conversations()
    if options.show is None:
        write(goldens(options.templates, data), options.write)
        return
    template, name = options.show
    source = (options.templates / template).read_bytes().decode("utf-8")
    for prompt in (False, True):
        text, error = render(source, data, name, prompt)
        print(f"--- add_generation_prompt={prompt}\n{text if error is None else error}")


if __name__ == "__main__":
    main()
