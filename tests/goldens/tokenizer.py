"""Writes golden token ids to tests/data/tokenizer/{models,families}.json.

    pip install llama-cpp-py-sync==0.11739 cffi gguf==0.19.0 protobuf \\
        sentencepiece==0.2.3 tokenizers==0.23.* transformers==5.24.0
    python tests/goldens/tokenizer.py FOLDER_WITH_THE_MODELS

texts.json has `TEXTS`, whose ids the other files have.
models.json has the ids of real models, by llama.cpp. Those of Qwen are by transformers, which normalises
Unicode (NFC) as the model's authors do and llama.cpp does not. Those of Gemma are by SentencePiece, on
the file's vocabulary.
families.json has ids for each `tokenizer.ggml.pre`, by llama.cpp, on one small vocabulary. The vocabulary
is trained on the texts without a pre-tokenizer, so its merges cross every boundary that a pre-tokenizer
sets.
spm.json has ids of a small SentencePiece vocabulary, by SentencePiece, with and without an added space.

If the wheel's libllama.so does not load, LIBLLAMA is the path of another build.
"""

import json
import os
import sys
import tempfile
import unicodedata
from pathlib import Path

import gguf
from llama_cpp_py_sync._cffi_bindings import get_ffi, get_lib
from sentencepiece import SentencePieceProcessor
from sentencepiece.sentencepiece_model_pb2 import ModelProto
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import Qwen2Tokenizer

DATA = Path(__file__).parent.parent / "data" / "tokenizer"

TEXTS = [
    "",
    " ",
    "  ",
    "   three",
    "\t",
    "\t\tx\n",
    "\n",
    "\n\n\n",
    "\r",
    "a\rb\r\nc",
    " \n \n  \t \n",
    "\n" * 40,
    " " * 70,
    "trailing   ",
    "a\u00a0b\u2003c\u3000d\u0085e\u2028f",
    "Hello, world!",
    "Hello, World! it's We'LL I'm they've 'tis o'clock 'S",
    "The capital of France is Paris.",
    "CamelCase snake_case SCREAMING_CASE kebab-case iPhone XMLHttpRequest",
    "3.14159 1,000,000 12345678901234567890 0x7FFF 1e-9 ½ ² ٣٤٥ १२३",
    "1 22 333 4444 55555",
    "def f(x):\n    return {'a': [x ** 2 for x in range(10)]}\n",
    "#include <stdio.h>\nint main(void)\n{\n\tprintf(\"%d\\n\", 42);\n}\n",
    "<html><body><h1>Hi</h1><table><tr><td>1</td></tr></table></body></html>",
    '{"name": "get_weather", "arguments": {"city": "Zürich", "n": [1, 2.5, null]}}',
    "https://example.com/a/b?c=d&e=%20#frag user@example.com C:\\Users\\x",
    "SELECT * FROM t WHERE a != 'b' -- comment;",
    "!!!???...---===***###@@@$$$%%%^^^&&&",
    "(a)[b]{c}<d>|e|~f~`g`\\h\\/i/",
    "“quotes” ‘single’ «guillemets» — dash – en … ellipsis",
    "Grüße aus München! Çà et là, naïve café façade",
    "e\u0301 a\u0308 n\u0303 o\u0302\u0323 Z\u0351\u036b\u0343A\u0321",
    "Ǆ ß ẞ ſ İ ı ﬁ ﬃ \u212b \u2126 \u212a",
    "Привет, как дела? Съешь ещё этих мягких французских булок",
    "Γειά σου Κόσμε, ἀρχὴ ὁ λόγος",
    "שלום עולם וְהָיָה",
    "مرحبا بالعالم، كيف الحال؟ ١٢٣",
    "नमस्ते दुनिया क्षत्रिय",
    "สวัสดีชาวโลก ภาษาไทย",
    "こんにちは世界。カタカナ、ひらがな。",
    "你好，世界！今天天气怎么样？",
    "안녕하세요 세계 ㄱㄴㄷ",
    "Xin chào thế giới, tiếng Việt",
    "👍 👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇨🇭 ❤️ ☃",
    "😀😁😂🤣😃😄😅😆",
    "∀x∈ℝ: ⌈x⌉ = −⌊−x⌋, ∑ᵢ aᵢ ≤ ∫f(x)dx",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈 𠜎 \U0010fffd",
    "zero\u200bwidth\u200djoin\ufeffbom",
    "NUL \x00 bell \x07 esc \x1b[0m del \x7f",
    "\x00",
    "<|im_start|>user\nHi<|im_end|>",
    "<|endoftext|><|eot_id|></s><s><bos><eos><unk><pad>",
    "<start_of_turn>user<end_of_turn>\n<tool_call>{}</tool_call> <think>",
    "[INST] hi [/INST] <0x0A> <0xE2> ▁ ▁▁",
    "<|im_start<|im_end|>|> <| im_end |>",
    "a" * 300,
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
    "ACGT" * 60,
    "ab " * 40,
    "x\u0302" * 30,
    "line one\nline two\r\n\r\nline three\n\n    indented\n\tTabbed\n",
    "    four\n        eight\n            twelve\n",
    "I saw 2 dogs;they said:woof!Then 3more came...",
]

PRES = [
    "default", "gpt-2", "smollm", "qwen2", "qwen35", "llama-bpe", "tekken", "gpt-4o",
    "deepseek-v3", "deepseek-coder", "deepseek-llm", "falcon", "command-r", "mpt",
]

MODELS = {
    "smollm2": "SmolLM2-135M-Instruct.Q4_1.gguf",
    "qwen2.5-coder-0.5b": "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf",
    "gemma3-270m": "gemma-3-270m.Q4_K_M.gguf",
}


class LlamaCpp:
    """The vocabulary of a GGUF file, loaded by llama.cpp."""

    def __init__(self, path: Path):
        self.ffi = get_ffi()
        own = os.environ.get("LIBLLAMA")
        self.lib = self.ffi.dlopen(own) if own else get_lib()
        parameters = self.lib.llama_model_default_params()
        parameters.vocab_only = True
        self.model = self.lib.llama_model_load_from_file(str(path).encode(), parameters)
        assert self.model != self.ffi.NULL, path
        self.vocab = self.lib.llama_model_get_vocab(self.model)

    def encode(self, text: str, add_special: bool = False, parse_special: bool = False) -> list[int]:
        data = text.encode()
        ids = self.ffi.new("int32_t[]", len(data) + 8)
        count = self.lib.llama_tokenize(
            self.vocab, data, len(data), ids, len(data) + 8, add_special, parse_special
        )
        assert count >= 0, text
        return list(ids[0:count])


def qwen2(path: Path) -> Qwen2Tokenizer:
    """Returns transformers' Qwen2 tokenizer with the vocabulary of a GGUF file."""
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = fields["tokenizer.ggml.merges"].contents()
    return Qwen2Tokenizer(
        vocab={token: id for id, token in enumerate(tokens)},
        merges=[tuple(merge.split(" ")) for merge in merges],
    )


def sentencepiece(vocabulary: dict, add_space: bool) -> SentencePieceProcessor:
    """Returns a SentencePiece processor with the vocabulary."""
    proto = ModelProto()
    proto.trainer_spec.model_type = proto.trainer_spec.BPE
    proto.trainer_spec.byte_fallback = True
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = add_space
    proto.normalizer_spec.remove_extra_whitespaces = False
    unknown = vocabulary["unknown"]
    # GGUF marks its unknown token as a control token in some files.
    types = [2 if id == unknown else kind for id, kind in enumerate(vocabulary["token_types"])]
    for piece, score, kind in zip(vocabulary["tokens"], vocabulary["scores"], types):
        # GGUF writes user-defined tokens as text.
        piece = piece.replace(" ", "\u2581") if kind == 4 else piece
        proto.pieces.add(piece=piece, score=score, type=kind)
    proto.trainer_spec.unk_id = unknown
    return SentencePieceProcessor(model_proto=proto.SerializeToString())


def metadata(path: Path) -> dict:
    fields = gguf.GGUFReader(path).fields
    keys = {"tokens": "tokens", "scores": "scores", "token_types": "token_type"}
    vocabulary = {name: fields[f"tokenizer.ggml.{key}"].contents() for name, key in keys.items()}
    return vocabulary | {"unknown": fields["tokenizer.ggml.unknown_token_id"].contents()}


def report(name: str, text: str, llama_cpp: list[int], reference: list[int]) -> None:
    if llama_cpp != reference:
        print(f"{name} {text[:50]!r}\n  llama.cpp {llama_cpp[:20]}\n  reference {reference[:20]}")


def real(folder: Path) -> dict:
    goldens = {}
    for name, file in MODELS.items():
        llama = LlamaCpp(folder / file)
        encode = llama.encode
        if name.startswith("qwen"):
            tokenizer = qwen2(folder / file)
            encode = lambda text: tokenizer.encode(text, split_special_tokens=True)
        elif name.startswith("gemma"):
            encode = sentencepiece(metadata(folder / file), add_space=False).encode
        ids = [encode(text) for text in TEXTS]
        for text, reference in zip(TEXTS, ids):
            report(name, text, llama.encode(text), reference)
        goldens[name] = {"ids": ids, "framed_hi": llama.encode("Hi", add_special=True)}
    return goldens


def trained(alphabet: list[str], size: int, texts: list[str], **options) -> tuple[list[str], list[str]]:
    """Trains a BPE vocabulary without a pre-tokenizer. Returns tokens by id, and merges."""
    tokenizer = Tokenizer(models.BPE(**options))
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    if not options:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.train_from_iterator(texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    return tokens, [" ".join(merge) for merge in model["merges"]]


def write(path: Path, vocabulary: dict) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(vocabulary["tokens"])
    writer.add_token_types(vocabulary["token_types"])
    writer.add_tokenizer_pre(vocabulary["pre"])
    writer.add_token_merges(vocabulary["merges"])
    writer.add_bos_token_id(vocabulary["bos"])
    writer.add_eos_token_id(vocabulary["eos"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def approximates(pre: str, text: str) -> bool:
    """Returns true if llama.cpp's pattern is known to differ from the family's on a text."""
    match pre:
        case "qwen2" | "qwen35" | "command-r" | "mpt":  # no NFC normalisation
            return unicodedata.normalize("NFC", text) != text
        case "tekken" | "gpt-4o":  # no combining marks
            return any(unicodedata.category(character)[0] == "M" for character in text)
        case "deepseek-coder" | "deepseek-llm":  # matches a vertical tab as any white space
            return any(character.isspace() and not character.isascii() for character in text)
    return False


def families(scratch: Path) -> dict:
    tokens, merges = trained(pre_tokenizers.ByteLevel.alphabet(), 900, TEXTS)
    tokens = ["<|endoftext|>", "    "] + tokens
    vocabulary = {"tokens": tokens, "merges": merges, "token_types": [3, 4] + [1] * (len(tokens) - 2)}
    vocabulary |= {"bos": 0, "eos": 0}
    ids = {}
    for pre in PRES:
        write(scratch / "vocab.gguf", vocabulary | {"pre": pre})
        llama = LlamaCpp(scratch / "vocab.gguf")
        ids[pre] = [None if approximates(pre, text) else llama.encode(text) for text in TEXTS]
    return vocabulary | {"ids": ids}


def spm() -> dict:
    # SentencePiece allows no NUL in a token.
    texts = [text.replace(" ", "\u2581").replace("\0", "") for text in TEXTS]
    pieces, merges = trained([], 700, texts, unk_token="<unk>")
    head = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] + ["\n\n", "<td>"]
    # Rare characters are encoded by byte fallback.
    rank = {merge.replace(" ", ""): index for index, merge in enumerate(merges)}
    letters = [p for p in pieces if len(p) == 1 and "".join(texts).count(p) > 8]
    words = sorted((p for p in pieces if len(p) > 1 and p not in head), key=rank.get)
    vocabulary = {
        "tokens": head + letters + words,
        "token_types": [2, 3, 3] + [6] * 256 + [4, 4] + [1] * (len(letters) + len(words)),
        "scores": [0.0] * (len(head) + len(letters)) + [float(-index) for index in range(len(words))],
        "bos": 1,
        "eos": 2,
        "unknown": 0,
        "add_bos": True,
    }
    ids = {
        str(space).lower(): [sentencepiece(vocabulary, space).encode(text) for text in TEXTS]
        for space in [True, False]
    }
    return vocabulary | {"ids": ids}


def main() -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    with tempfile.TemporaryDirectory() as scratch:
        goldens = {
            "models": real(Path(sys.argv[1])),
            "families": families(Path(scratch)),
            "spm": spm(),
        }
    goldens["texts"] = TEXTS
    for name, golden in goldens.items():
        text = json.dumps(golden, ensure_ascii=True, separators=(",", ":"))
        (DATA / f"{name}.json").write_text(text.replace("],[", "],\n[") + "\n")


if __name__ == "__main__":
    main()
