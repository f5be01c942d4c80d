"""Writes tests/data/dequantise: a GGUF file with every supported tensor type, and the expected values.

    pip install gguf==0.19.0 safetensors==0.6.2
    python tests/goldens/dequantise.py

The file is a small Llama whose feed-forward weights have a different tensor type in every layer. Types
that the gguf package can quantise to hold random numbers. Other types hold random blocks with plausible
scales. The expected values are dequantised by the package. Q and K weights are in the row order of
llama.cpp's converter; their expected values are in the order before conversion.
"""

from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter, TokenType
from gguf.quants import dequantize, quantize
from safetensors.numpy import save_file

FOLDER = Path(__file__).parent.parent / "data" / "dequantise"
ROWS, COLUMNS = 2, 256
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 64
VOCABULARY = 8

# Offsets of the 16-bit floats in a block, for types that the package cannot quantise to.
SCALES = {"Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
QUANTISED = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]

rng = np.random.default_rng(20)


def stored(name: str, kind: GGMLQuantizationType, rows: int) -> np.ndarray:
    """Returns random rows: encoded blocks of a quantised type, or numbers of a plain type."""
    if name in QUANTISED:
        return quantize(rng.normal(size=(rows, COLUMNS)).astype(np.float32), kind)
    elements, size = GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, size=(rows * COLUMNS // elements, size), dtype=np.uint8)
    for at in SCALES[name]:
        scales = rng.normal(scale=0.01, size=(len(blocks), 1)).astype(np.float16)
        scales[0] = 3e-7  # a subnormal one
        blocks[:, at : at + 2] = scales.view(np.uint8)
    return blocks.reshape(rows, -1)


def interleaved(weights: np.ndarray, heads: int) -> np.ndarray:
    """Returns the rows in the order of `permute` in llama.cpp's convert_hf_to_gguf.py."""
    halves = weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
    return halves.swapaxes(1, 2).reshape(weights.shape)


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    writer = GGUFWriter(FOLDER / "every-type.gguf", "llama")
    kinds = QUANTISED + list(SCALES)
    writer.add_block_count(len(kinds))
    writer.add_context_length(512)
    writer.add_embedding_length(COLUMNS)
    writer.add_feed_forward_length(ROWS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([f"t{i}" for i in range(VOCABULARY)])
    writer.add_token_types([TokenType.NORMAL] * VOCABULARY)
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(2)

    expected = {}

    def add(name: str, hugging_face: str, data: np.ndarray, kind, heads: int = 0) -> None:
        expected[hugging_face] = np.ascontiguousarray(dequantize(data, kind), dtype=np.float32)
        data = interleaved(data, heads) if heads else data
        writer.add_tensor(name, data, raw_dtype=kind)

    f32 = GGMLQuantizationType.F32
    embedding = rng.normal(size=(VOCABULARY, COLUMNS)).astype(np.float32)
    add("token_embd.weight", "model.embed_tokens.weight", embedding, f32)
    for layer, name in enumerate(kinds):
        kind = GGMLQuantizationType[name]
        hf = f"model.layers.{layer}"
        add(f"blk.{layer}.ffn_gate.weight", f"{hf}.mlp.gate_proj.weight", stored(name, kind, ROWS), kind)
    q8 = GGMLQuantizationType.Q8_0
    q = rng.normal(size=(HEADS * HEAD_DIM, 32)).astype(np.float32)
    k = rng.normal(size=(KV_HEADS * HEAD_DIM, 32)).astype(np.float32)
    bias = rng.normal(size=(KV_HEADS * HEAD_DIM,)).astype(np.float32)
    add("blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight", quantize(q, q8), q8, HEADS)
    add("blk.0.attn_k.weight", "model.layers.0.self_attn.k_proj.weight", k, f32, KV_HEADS)
    add("blk.0.attn_k.bias", "model.layers.0.self_attn.k_proj.bias", bias, f32, KV_HEADS)

    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(expected, FOLDER / "expected.safetensors")


if __name__ == "__main__":
    main()
