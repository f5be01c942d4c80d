"""Writes tests/data/mlx-quantised: a model folder with MLX's quantisation formats, and the expected values.

    pip install mlx==0.32.2 mlx-cpu==0.32.2
    python tests/goldens/mlx_quantised.py

Every layer's `up_proj` has another format, as `mlx_lm.convert` writes with a predicate per layer. Scales
are float32, float16 and bfloat16 in turn. The expected values are MLX's, computed in float32.
"""

import json
from itertools import cycle, product
from pathlib import Path

import mlx.core as mx

FOLDER = Path(__file__).parent.parent / "data" / "mlx-quantised"
ROWS, COLUMNS = 2, 256


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    mx.set_default_device(mx.cpu)
    mx.random.seed(7)
    stored, expected = {}, {}
    quantization = {"group_size": 64, "bits": 4, "mode": "affine"}
    types = cycle([mx.float32, mx.float16, mx.bfloat16])
    ways = product([2, 3, 4, 5, 6, 8], [32, 64, 128])
    for layer, ((bits, group_size), dtype) in enumerate(zip(ways, types)):
        path = f"model.layers.{layer}.mlp.up_proj"
        weights = mx.random.normal((ROWS, COLUMNS)).astype(dtype)
        packed, scales, biases = mx.quantize(weights, group_size=group_size, bits=bits)
        stored |= {f"{path}.weight": packed, f"{path}.scales": scales, f"{path}.biases": biases}
        expected[f"{path}.weight"] = mx.dequantize(
            packed,
            scales.astype(mx.float32),
            biases.astype(mx.float32),
            group_size=group_size,
            bits=bits,
        )
        if (bits, group_size) != (4, 64):
            quantization[path] = {"group_size": group_size, "bits": bits}
    norm = mx.random.normal((COLUMNS,)).astype(mx.bfloat16)
    stored["model.norm.weight"] = norm
    expected["model.norm.weight"] = norm.astype(mx.float32)

    config = {"model_type": "llama", "quantization": quantization}
    config["quantization_config"] = quantization
    (FOLDER / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (FOLDER / "tokenizer.json").write_text("{}\n")
    mx.save_safetensors(str(FOLDER / "model.safetensors"), stored, metadata={"format": "mlx"})
    (FOLDER / "expected").mkdir(exist_ok=True)
    mx.save_safetensors(str(FOLDER / "expected" / "expected.safetensors"), expected)


if __name__ == "__main__":
    main()
