"""Records what the `gguf` package makes of blocks of each quantised GGUF type.

    pip install gguf==0.19.0 numpy
    python -m training.recordings.gguf_types

writes test/fixtures/gguf/dequantize.json: for each type its number, blocks and their values, both
deflated and in base64 (values: little-endian f32, each NaN as 0x7fc00000). The blocks are random,
all zero, all ones, every nibble, and random with scales at the edges of half precision.

    python -m training.recordings.gguf_types COUNT SEED

prints the same for COUNT random blocks of each type, whose scales are random bits too.
"""

import base64
import json
import sys
import zlib
from importlib.metadata import version
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import dequantize
from gguf.constants import GGML_QUANT_SIZES

OUT = Path(__file__).resolve().parents[2] / "test/fixtures/gguf/dequantize.json"
SEED = 7
NAN = 0x7FC00000

HALVES = {
    **{name: [0] for name in ["Q4_0", "Q5_0", "Q8_0", "IQ4_NL", "IQ4_XS"]},
    **{name: [0, 2] for name in ["Q4_1", "Q5_1", "Q4_K", "Q5_K"]},
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "Q6_K": [208],
    "MXFP4": [],
}
"""Where the half-precision scales of a block lie."""

SPECIAL = {
    "infinite": 0x7C00,
    "minus infinite": 0xFC00,
    "NaN": 0x7E01,
    "smallest": 0x0001,
    "largest denormal": 0x83FF,
    "minus zero": 0x8000,
    "largest": 0x7BFF,
}
EXPONENTS = [0, 1, 2, 127, 254, 255]
"""Of MXFP4: two denormal ones, the next, 1, and the last two."""


def with_halves(block: np.ndarray, name: str, bits: list[int]) -> np.ndarray:
    changed = block.copy()
    for place, half in zip(HALVES[name], bits):
        changed[place : place + 2] = [half & 255, half >> 8]
    return changed


def recorded_blocks(name: str, size: int, random: np.random.Generator) -> np.ndarray:
    """Two blocks as quantisers make them, and the edges."""

    def body() -> np.ndarray:
        return random.integers(0, 256, size, dtype=np.uint8)

    def common(block: np.ndarray) -> np.ndarray:
        scales = (random.normal(0, 0.05, 2)).astype(np.float16).view(np.uint16)
        return with_halves(block, name, [int(half) for half in scales])

    nibbles = np.array([(at & 15) | ((15 - (at & 15)) << 4) for at in range(size)], dtype=np.uint8)
    blocks = [np.zeros(size, np.uint8), np.full(size, 255, np.uint8)]
    if name == "MXFP4":
        for exponent in [*EXPONENTS, 119, 121]:
            blocks += [np.concatenate([[exponent], nibbles[1:]]).astype(np.uint8)]
        return np.stack([*blocks, body()])
    blocks += [common(body()), common(body()), with_halves(nibbles, name, [0x3C00, 0xB800])]
    blocks += [with_halves(body(), name, [half, half]) for half in SPECIAL.values()]
    if len(HALVES[name]) == 2:
        blocks += [with_halves(body(), name, [0x2E66, half]) for half in [0x7C00, 0x7E01, 0x0001]]
    return np.stack(blocks)


def packed(data: bytes) -> str:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    return base64.b64encode(deflate.compress(data) + deflate.flush()).decode()


def record(name: str, blocks: np.ndarray) -> dict:
    with np.errstate(all="ignore"):
        values = dequantize(blocks, Type[name]).astype("<f4")
    bits = values.view("<u4").copy()
    bits[np.isnan(values)] = NAN
    return {
        "id": Type[name].value,
        "blocks": packed(blocks.tobytes()),
        "values": packed(bits.tobytes()),
    }


def main() -> None:
    sizes = {name: GGML_QUANT_SIZES[Type[name]][1] for name in HALVES}
    if len(sys.argv) > 1:
        count, seed = int(sys.argv[1]), int(sys.argv[2])
        random = np.random.default_rng(seed)
        every = {
            name: record(name, random.integers(0, 256, (count, size), dtype=np.uint8))
            for name, size in sizes.items()
        }
        print(json.dumps({"types": every}))
        return
    random = np.random.default_rng(SEED)
    types = {name: record(name, recorded_blocks(name, size, random)) for name, size in sizes.items()}
    source = (
        f"dequantize() of the gguf Python package {version('gguf')}, seed {SEED}; "
        "python -m training.recordings.gguf_types"
    )
    OUT.write_text(json.dumps({"source": source, "types": types}, indent=1) + "\n")


if __name__ == "__main__":
    main()
