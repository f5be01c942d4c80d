"""Benchmark of mlx-lm for `cargo xtask bench engine`: prints one flat JSON object, like benches/engine.

Usage: reference.py FOLDER, where FOLDER holds config.json and model.safetensors.
"""

import json
import sys
import time
from pathlib import Path

import mlx.core as mx
from mlx_lm.generate import BatchGenerator, generate_step
from mlx_lm.utils import load_model

PREFILLS = [512, 3400]
BATCHES = [1, 4, 8]
DECODE_PROMPT = 64
DECODE_TOKENS = 129


def prompt(vocabulary, length, nth=0):
    return [(place * 7919 + nth * 104729 + 1) % vocabulary for place in range(length)]


def memory(line):
    """Returns a field of Linux's /proc/self/status in MiB."""
    for found in Path("/proc/self/status").read_text().splitlines():
        if found.startswith(line):
            return int(found.split()[1]) / 1024


def prefill(model, tokens):
    """Returns the seconds until the first output token, and the resident memory at that time in MiB."""
    start = time.perf_counter()
    steps = generate_step(mx.array(tokens), model, max_tokens=2)
    next(steps)
    seconds = time.perf_counter() - start
    resident = memory("VmRSS:")
    for _ in steps:
        pass
    mx.synchronize()
    return seconds, resident


def decode_one(model, tokens, count):
    """Returns the tokens per second of one sequence, after its first token."""
    times = []
    for _ in generate_step(mx.array(tokens), model, max_tokens=count):
        times.append(time.perf_counter())
    mx.synchronize()
    return (len(times) - 1) / (times[-1] - times[0])


def decode_batch(model, prompts, count):
    """Returns the tokens per second of all sequences together, while all of them decode."""
    generator = BatchGenerator(model, max_tokens=count)
    generator.insert(prompts)
    times, counts = [], []
    while responses := generator.next_generated():
        if len(responses) == len(prompts):
            times.append(time.perf_counter())
            counts.append(len(responses))
    generator.close()
    mx.synchronize()
    return sum(counts[1:]) / (times[-1] - times[0])


def measure(folder):
    figures = {}
    start = time.perf_counter()
    model, config = load_model(Path(folder))
    mx.eval(model.parameters())
    figures["load_s"] = time.perf_counter() - start
    vocabulary = config["vocab_size"]

    prefill(model, prompt(vocabulary, DECODE_PROMPT))
    decode_one(model, prompt(vocabulary, DECODE_PROMPT), DECODE_TOKENS // 4)
    for length in PREFILLS:
        seconds, resident = prefill(model, prompt(vocabulary, length))
        figures[f"prefill_{length}_tokens_per_s"] = length / seconds
        figures[f"resident_{length}_tokens_mib"] = resident
    for sequences in BATCHES:
        prompts = [prompt(vocabulary, DECODE_PROMPT, nth) for nth in range(sequences)]
        if sequences == 1:
            rate = decode_one(model, prompts[0], DECODE_TOKENS)
        else:
            rate = decode_batch(model, prompts, DECODE_TOKENS)
        figures[f"decode_{sequences}_tokens_per_s"] = rate
    figures["peak_mib"] = memory("VmHWM:")
    return figures


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
