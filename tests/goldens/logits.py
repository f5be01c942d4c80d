"""Writes tests/data/models: tiny random models, and the logits that mlx-lm computes with them.

    pip install mlx-lm==0.32.2 mlx==0.32.2 mlx-cpu==0.32.2
    python tests/goldens/logits.py

Weights are stored as bfloat16 (those of the Llama as float32). Logits are computed in float32 from the
stored values, so another float32 implementation agrees up to rounding.
"""

import json
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_map_with_path, tree_unflatten
from mlx_lm.utils import _get_classes

ROOT = Path(__file__).parent.parent / "data" / "models"
PROMPT_LENGTH = 24

BASE = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": 96,
    "max_position_embeddings": 128,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
}

LLAMA3_SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}

MODELS = {
    "llama": BASE
    | {
        "model_type": "llama",
        "tie_word_embeddings": False,
        "attention_bias": True,
        "mlp_bias": True,
        "intermediate_size": 64,
        "rope_scaling": LLAMA3_SCALING,
    },
    "mistral": BASE
    | {
        "model_type": "mistral",
        "tie_word_embeddings": False,
        "head_dim": 32,
        "sliding_window": 8,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "qwen2": BASE
    | {
        "model_type": "qwen2",
        "tie_word_embeddings": True,
        "use_sliding_window": False,
        "sliding_window": 8,
        "max_window_layers": 1,
    },
    "qwen3": BASE
    | {
        "model_type": "qwen3",
        "tie_word_embeddings": True,
        "head_dim": 32,
        "rope_theta": 1000000.0,
        "attention_bias": False,
    },
    "gemma3_text": BASE
    | {
        "model_type": "gemma3_text",
        "num_hidden_layers": 3,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "query_pre_attn_scalar": 48,
        "sliding_window": 8,
        "sliding_window_pattern": 3,
        "rope_theta": 1000000.0,
        "rope_local_base_freq": 10000.0,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "hidden_activation": "gelu_pytorch_tanh",
    },
    "llama-mlx-4bit": BASE
    | {
        "model_type": "llama",
        "tie_word_embeddings": True,
        "quantization": {
            "group_size": 32,
            "bits": 4,
            "model.layers.0.self_attn.v_proj": {"group_size": 32, "bits": 8},
        },
    },
    "llama-mlx-8bit": BASE
    | {
        "model_type": "llama",
        "tie_word_embeddings": False,
        "intermediate_size": 128,
        "quantization": {"group_size": 64, "bits": 8, "mode": "affine"},
    },
}
del MODELS["gemma3_text"]["hidden_act"]


def random_weights(model, config):
    """Returns random weights at the scale of trained models, so that activations neither vanish nor overflow."""

    def draw(name, shape):
        if name.endswith("norm.weight"):
            centre = 0.0 if config["model_type"].startswith("gemma") else 1.0
            return centre + 0.2 * mx.random.normal(shape)
        if name.endswith("bias"):
            return 0.2 * mx.random.normal(shape)
        if "embed_tokens" in name:
            return 0.5 * mx.random.normal(shape)
        return 1.5 * mx.random.normal(shape) / shape[-1] ** 0.5

    drawn = tree_map_with_path(lambda name, old: draw(name, old.shape), model.parameters())
    dtype = mx.float32 if config["model_type"] == "llama" else mx.bfloat16
    return {name: value.astype(dtype) for name, value in tree_flatten(drawn)}


def quantise(weights, quantization):
    """Quantises every matrix to MLX's affine format, with scales and biases in bfloat16."""
    stored = {}
    for name, value in weights.items():
        if value.ndim != 2:
            stored[name] = value
            continue
        path = name.removesuffix(".weight")
        how = quantization.get(path, quantization)
        packed, scales, biases = mx.quantize(
            value.astype(mx.bfloat16), group_size=how["group_size"], bits=how["bits"]
        )
        stored |= {name: packed, f"{path}.scales": scales, f"{path}.biases": biases}
    return stored


def dequantised(stored, quantization):
    """Returns the values of quantised weights."""
    plain = {}
    for name, value in stored.items():
        path = name.removesuffix(".weight")
        if value.dtype == mx.uint32:
            how = quantization.get(path, quantization)
            scales = stored[f"{path}.scales"].astype(mx.float32)
            biases = stored[f"{path}.biases"].astype(mx.float32)
            value = mx.dequantize(
                value, scales, biases, group_size=how["group_size"], bits=how["bits"]
            )
        if not name.endswith((".scales", ".biases")):
            plain[name] = value.astype(mx.float32)
    return plain


def build(config):
    model_class, args_class = _get_classes(config)
    args = {key: value for key, value in config.items() if key != "quantization"}
    return model_class(args_class.from_dict(args))


def write(name, config):
    folder = ROOT / name
    folder.mkdir(parents=True, exist_ok=True)
    mx.random.seed(20240607)
    model = build(config)
    weights = random_weights(model, config)
    if config["model_type"] == "gemma3_text":
        weights.pop("lm_head.weight")
    quantization = config.get("quantization", {})
    stored = quantise(weights, quantization) if quantization else weights
    plain = dequantised(stored, quantization)

    model.load_weights(list(model.sanitize(dict(plain)).items()), strict=True)
    tokens = mx.random.randint(0, config["vocab_size"], (PROMPT_LENGTH,)).astype(mx.uint32)
    logits = model(tokens[None])[0].astype(mx.float32)
    mx.eval(logits)

    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    mx.save_safetensors(str(folder / "model.safetensors"), stored)
    golden = {"tokens": tokens, "logits": logits}
    mx.save_safetensors(str(folder / "golden.safetensors"), golden)
    spread = (logits.max(axis=-1) - logits.min(axis=-1)).mean().item()
    print(f"{name}: logits {logits.shape}, spread {spread:.2f}")


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    for name, config in MODELS.items():
        write(name, config)
