"""Writes tests/data/models/NAME.json: results of mlx-lm with the weights of a real GGUF file.

    pip install mlx-lm==0.32.2 mlx==0.32.2 mlx-cpu==0.32.2 gguf==0.19.0
    python tests/goldens/real_logits.py FOLDER_WITH_GGUF_FILES

The `gguf` package dequantises the weights to float32, so no code of this repository is involved. The file
has the prompt, 64 logits spread over the vocabulary, the largest logits, and the greedy continuation.
"""

import json
import sys
from pathlib import Path

import mlx.core as mx
import numpy as np
from gguf import GGUFReader, dequantize
from mlx_lm.generate import generate_step
from mlx_lm.utils import _get_classes

OUT = Path(__file__).parent.parent / "data" / "models"
PROBES = 64
LARGEST = 10
CONTINUATION = 24

QUESTION = ["<|im_start|>", "user", "Ċ", "What", "Ġis", "Ġthe", "Ġcapital", "Ġof", "ĠFrance", "?"]
QUESTION += ["<|im_end|>", "Ċ", "<|im_start|>"]
PROMPTS = {
    "smollm2": ("SmolLM2-135M-Instruct.Q4_1.gguf", QUESTION + ["ass", "istant", "Ċ"]),
    "qwen2.5-coder-0.5b": (
        "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf",
        QUESTION + ["assistant", "Ċ"],
    ),
    "gemma3-270m": (
        "gemma-3-270m.Q4_K_M.gguf",
        ["<bos>", "The", "▁capital", "▁of", "▁France", "▁is"],
    ),
}

LAYER_NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
GEMMA_LAYER_NAMES = LAYER_NAMES | {
    "ffn_norm": "pre_feedforward_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
OTHER_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


class Gguf:
    def __init__(self, path):
        self.reader = GGUFReader(path)
        self.architecture = self.field("general.architecture")
        self.tokens = self.field("tokenizer.ggml.tokens")

    def field(self, key, default=None):
        field = self.reader.fields.get(key)
        return default if field is None else field.contents()

    def own(self, key, default=None):
        return self.field(f"{self.architecture}.{key}", default)

    def config(self):
        config = {
            "model_type": self.architecture,
            "hidden_size": self.own("embedding_length"),
            "num_hidden_layers": self.own("block_count"),
            "intermediate_size": self.own("feed_forward_length"),
            "num_attention_heads": self.own("attention.head_count"),
            "num_key_value_heads": self.own("attention.head_count_kv"),
            "rms_norm_eps": self.own("attention.layer_norm_rms_epsilon"),
            "max_position_embeddings": self.own("context_length"),
            "rope_theta": self.own("rope.freq_base", 10000.0),
            "vocab_size": len(self.tokens),
            "tie_word_embeddings": all(t.name != "output.weight" for t in self.reader.tensors),
        }
        if self.own("attention.key_length"):
            config["head_dim"] = self.own("attention.key_length")
        if self.architecture == "gemma3":
            config |= {
                "model_type": "gemma3_text",
                "sliding_window": self.own("attention.sliding_window"),
                "query_pre_attn_scalar": config["head_dim"],
            }
        return config

    def weights(self):
        return dict(map(self.weight, self.reader.tensors))

    def weight(self, tensor):
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        gemma = self.architecture == "gemma3"
        parts = tensor.name.split(".")
        if parts[0] == "blk":
            names = GEMMA_LAYER_NAMES if gemma else LAYER_NAMES
            name = f"model.layers.{parts[1]}.{names[parts[2]]}.{parts[3]}"
        else:
            name = f"{OTHER_NAMES[parts[0]]}.{parts[1]}"
        if gemma and name.endswith("norm.weight"):
            values = values - 1
        if self.architecture == "llama" and parts[2:3] in (["attn_q"], ["attn_k"]):
            values = self.half_split(values, parts[2] == "attn_q")
        return name, mx.array(values)

    def half_split(self, rows, is_query):
        """Undoes the converter's interleaving of the two halves of each head (RoPE order)."""
        heads = self.own("attention.head_count" if is_query else "attention.head_count_kv")
        apart = rows.reshape(heads, len(rows) // heads // 2, 2, -1)
        return apart.swapaxes(1, 2).reshape(rows.shape)


def write(name, path, pieces):
    gguf = Gguf(path)
    config = gguf.config()
    model_class, args_class = _get_classes(config)
    model = model_class(args_class.from_dict(config))
    model.load_weights(list(model.sanitize(gguf.weights()).items()), strict=True)
    prompt = [gguf.tokens.index(piece) for piece in pieces]

    logits = np.array(model(mx.array([prompt]))[0, -1].astype(mx.float32))
    probes = np.linspace(0, len(logits) - 1, PROBES).astype(int)
    largest = np.argsort(-logits)[:LARGEST]
    steps = generate_step(mx.array(prompt), model, max_tokens=CONTINUATION)
    continuation = [int(token) for token, _ in steps]

    golden = {
        "prompt": prompt,
        "probes": {int(index): round(float(logits[index]), 5) for index in probes},
        "largest": {int(index): round(float(logits[index]), 5) for index in largest},
        "continuation": continuation,
    }
    (OUT / f"{name}.json").write_text(json.dumps(golden, indent=1) + "\n")
    print(f"{name}: {''.join(gguf.tokens[token] for token in continuation)}")


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    for name, (file, pieces) in PROMPTS.items():
        path = Path(sys.argv[1]) / file
        if path.exists():
            write(name, path, pieces)
        else:
            print(f"{name}: skipped, there is no {path}")
