"""Writes the tests' small tokenizers: tests/data/tokenizer/{chatml,sentencepiece}.json.

    pip install tokenizers==0.23.*
    python tests/goldens/tokenizer_fixtures.py

`chatml.json` is a byte-level BPE that can encode any text, with ChatML's control tokens.
`sentencepiece.json` is a BPE over U+2581 with byte fallback, in the layout of Llama 2's.
"""

import json
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, processors, trainers

DATA = Path(__file__).parent.parent / "data" / "tokenizer"

CORPUS = """
The capital of France is Paris. What is the weather like in Paris today?
Say this is a test! This is a test of the server, and the server answers with a test.
You are a helpful assistant. The user asks a question; the assistant answers the question.
user assistant system tool
{"name": "get_weather", "arguments": {"location": "Paris", "unit": "celsius"}}
def main(): return [value for value in range(10) if value % 2 == 0]
Thinking about the question, one two three four five six seven eight nine ten.
""".strip().splitlines()

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MARKUP = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def chatml() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN2), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=384,
        special_tokens=CONTROL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in MARKUP])
    return tokenizer


def sentencepiece() -> Tokenizer:
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    words = Tokenizer(models.BPE())
    words.normalizer = normalizers.Replace(" ", "\u2581")
    words.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.BpeTrainer(vocab_size=200, show_progress=False)
    words.train_from_iterator(CORPUS, trainer)
    learned = json.loads(words.to_str())["model"]

    control = ["<unk>", "<s>", "</s>"]
    pieces = sorted(learned["vocab"], key=learned["vocab"].get)
    vocab = {piece: id for id, piece in enumerate(control + bytes_ + pieces)}
    merges = [tuple(merge) for merge in learned["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(content=" ", left=1, right=0),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    tokenizer.add_special_tokens(control)
    return tokenizer


def main() -> None:
    for name, tokenizer in [("chatml", chatml()), ("sentencepiece", sentencepiece())]:
        text = json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, indent=1)
        (DATA / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
