"""Records quantised matrices in the layouts of AWQ, GPTQ and compressed-tensors, and their values.

    pip install numpy
    python -m training.recordings.quantized_modules

writes test/fixtures/quantized.json: for each case the fields of `quantization_config`, the tensors
of one module (deflated, in base64), and the matrix they mean (the same, little-endian f32). The
layouts are written here from their descriptions, bit by bit, so that a reader can be wrong in its
own way only.
"""

import base64
import json
import zlib
from pathlib import Path

import numpy as np

OUT = Path(__file__).resolve().parents[2] / "test/fixtures/quantized.json"
SEED = 5
WORD = 32
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]
"""Which of eight outputs each nibble of a word holds, the lowest nibble first."""

random = np.random.default_rng(SEED)


def deflated(data: bytes) -> str:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    return base64.b64encode(deflate.compress(data) + deflate.flush()).decode()


def tensor(dtype: str, array: np.ndarray) -> dict:
    return {"dtype": dtype, "shape": list(array.shape), "data": deflated(array.tobytes())}


def words(integers: np.ndarray, bits: int, axis: int, order: list[int] | None = None) -> np.ndarray:
    """Unsigned integers packed along an axis, `32 / bits` in a word; the last word may be short."""
    per = WORD // bits
    order = order or list(range(per))
    moved = np.moveaxis(integers, axis, -1)
    count = -(-moved.shape[-1] // per)
    packed = np.zeros((*moved.shape[:-1], count), dtype=np.uint32)
    for place in np.ndindex(packed.shape):
        for nibble in range(per):
            at = place[-1] * per + order[nibble]
            if at < moved.shape[-1]:
                packed[place] |= np.uint32(int(moved[(*place[:-1], at)]) << (bits * nibble))
    return np.ascontiguousarray(np.moveaxis(packed, -1, axis)).view(np.int32)


def scale_floats(shape: tuple, dtype: str) -> tuple[dict, np.ndarray]:
    """Scales as a tensor, and as the f32 that they are."""
    values = random.normal(0.01, 0.004, shape).astype(np.float32)
    if dtype == "F16":
        halves = values.astype(np.float16)
        return tensor(dtype, halves), halves.astype(np.float32)
    if dtype == "BF16":
        upper = (values.view(np.uint32) >> 16).astype(np.uint16)
        return tensor(dtype, upper), (upper.astype(np.uint32) << 16).view(np.float32)
    return tensor(dtype, values), values


def meant(quanta: np.ndarray, zeros: np.ndarray, scales: np.ndarray, groups: np.ndarray) -> dict:
    """scale * (quantum - zero) in f32, [rows, columns]; zeros and scales are [rows, groups]."""
    steps = quanta.astype(np.int32) - zeros.astype(np.int32)[:, groups]
    values = scales[:, groups] * steps.astype(np.float32)
    assert values.dtype == np.float32
    return {"shape": list(values.shape), "values": deflated(values.astype("<f4").tobytes())}


def integers(low: int, high: int, shape: tuple) -> np.ndarray:
    return random.integers(low, high, shape)


def in_order(columns: int, size: int) -> np.ndarray:
    return np.arange(columns) // (columns if size == -1 else size)


def awq(rows: int, columns: int, size: int, **fields) -> dict:
    groups = in_order(columns, size)
    count = int(groups[-1]) + 1
    quanta, zeros = integers(0, 16, (rows, columns)), integers(0, 16, (rows, count))
    stored, scales = scale_floats((count, rows), "F16")
    config = {"quant_method": "awq", "bits": 4, "group_size": size, "zero_point": True}
    return {
        "config": {**config, "version": "gemm", **fields},
        "tensors": {
            "qweight": tensor("I32", words(quanta.T, 4, 1, AWQ_ORDER)),
            "qzeros": tensor("I32", words(zeros.T, 4, 1, AWQ_ORDER)),
            "scales": stored,
        },
        **meant(quanta, zeros, scales.T, groups),
    }


def gptq(rows: int, columns: int, size: int, bits: int = 4, index: str = "", **fields) -> dict:
    """`sym` among the fields: all zeros are amid the range."""
    groups = in_order(columns, size)
    count = int(groups[-1]) + 1
    if index == "shuffled":
        groups = random.permutation(groups)
    quanta = integers(0, 1 << bits, (rows, columns))
    zeros = integers(0, 1 << bits, (rows, count))
    zeros[0] = 0  # In the first version it borrows from its neighbour.
    if fields.get("sym"):
        zeros[:] = 1 << (bits - 1)
    less_one = fields.get("checkpoint_format", "gptq") == "gptq"
    zero_words = words(zeros.T, bits, 1)
    if less_one:
        ones = np.uint32(0x11111111 if bits == 4 else 0x01010101)
        zero_words = (zero_words.view(np.uint32) - ones).view(np.int32)
    stored, scales = scale_floats((count, rows), "F16")
    tensors = {
        "qweight": tensor("I32", words(quanta.T, bits, 0)),
        "qzeros": tensor("I32", zero_words),
        "scales": stored,
    }
    if index != "":
        tensors["g_idx"] = tensor("I32", groups.astype(np.int32))
    config = {"quant_method": "gptq", "bits": bits, "group_size": size}
    return {
        "config": {**config, "desc_act": index == "shuffled", **fields},
        "tensors": tensors,
        **meant(quanta, zeros, scales.T, groups),
    }


def compressed(layout: str, shape: tuple, weights: dict, floats: str = "BF16", index=False) -> dict:
    rows, columns = shape
    bits, strategy = weights["num_bits"], weights["strategy"]
    groups = in_order(columns, weights["group_size"] if strategy == "group" else -1)
    count = int(groups[-1]) + 1
    if index:
        groups = random.permutation(groups)
    half = 1 << (bits - 1)
    quanta = integers(-half, half, shape)
    one_scale = strategy == "tensor"
    own = (1,) if one_scale else (rows, count)
    zeros = np.zeros(own, int) if weights["symmetric"] else integers(-half, half, own)
    stored, scales = scale_floats(own, floats)
    tensors = {"weight_scale": stored}
    if layout == "pack-quantized":
        tensors["weight_packed"] = tensor("I32", words(quanta + half, bits, 1))
        tensors["weight_shape"] = tensor("I64", np.array(shape, np.int64))
    else:
        tensors["weight"] = tensor("I8", quanta.astype(np.int8))
    if not weights["symmetric"]:
        packed = layout == "pack-quantized" and not one_scale
        tensors["weight_zero_point"] = (
            tensor("I32", words(zeros + half, bits, 0))
            if packed
            else tensor("I8", zeros.astype(np.int8))
        )
    if index:
        tensors["weight_g_idx"] = tensor("I32", groups.astype(np.int32))
    group = {"targets": ["Linear"], "weights": {"type": "int", "dynamic": False, **weights}}
    return {
        "config": {
            "quant_method": "compressed-tensors",
            "format": layout,
            "config_groups": {"group_0": {**group, "input_activations": None}},
            "ignore": ["lm_head"],
        },
        "tensors": tensors,
        **meant(
            quanta,
            np.broadcast_to(zeros, (rows, count)),
            np.broadcast_to(scales, (rows, count)),
            groups,
        ),
    }


def scheme(bits: int, strategy: str, symmetric: bool, size: int | None = None) -> dict:
    return {"num_bits": bits, "strategy": strategy, "symmetric": symmetric, "group_size": size}


def cases() -> dict:
    pack, ints = "pack-quantized", "int-quantized"
    return {
        "awq, groups of 32": awq(16, 96, 32),
        "awq, groups of 128": awq(8, 256, 128, version="GEMM"),
        "awq, a scale per row": awq(24, 40, -1),
        "gptq, groups of 32": gptq(16, 96, 32, index="in order"),
        "gptq, groups of 64 without an index": gptq(8, 128, 64),
        "gptq, groups of 128 in any order": gptq(8, 256, 128, index="shuffled"),
        "gptq, a last group that is shorter": gptq(8, 80, 32),
        "gptq of the second version": gptq(16, 64, 32, checkpoint_format="gptq_v2"),
        "gptq, 8 bits": gptq(12, 64, 32, bits=8, index="shuffled"),
        "gptq, 8 bits, a scale per row": gptq(4, 20, -1, bits=8, checkpoint_format="gptq_v2"),
        "gptq, symmetric groups": gptq(8, 256, 128, index="in order", sym=True),
        "gptq, 8 bits, symmetric groups": gptq(4, 64, 32, bits=8, sym=True),
        "packed, 4 bits, symmetric groups": compressed(pack, (5, 64), scheme(4, "group", True, 32)),
        "packed, 4 bits, groups with zeros": compressed(
            pack, (11, 256), scheme(4, "group", False, 128), "F16"
        ),
        "packed, 4 bits, groups in any order": compressed(
            pack, (6, 64), scheme(4, "group", True, 32), index=True
        ),
        "packed, 4 bits, rows of odd length": compressed(pack, (9, 43), scheme(4, "channel", False)),
        "packed, 4 bits, one scale": compressed(pack, (3, 16), scheme(4, "tensor", False)),
        "packed, 8 bits, symmetric rows": compressed(pack, (7, 30), scheme(8, "channel", True)),
        "packed, 8 bits, groups with zeros": compressed(
            pack, (6, 64), scheme(8, "group", False, 64), "F32"
        ),
        "bytes, 8 bits, symmetric rows": compressed(ints, (7, 33), scheme(8, "channel", True)),
        "bytes, 8 bits, symmetric rows of whole blocks": compressed(
            ints, (3, 64), scheme(8, "channel", True)
        ),
        "bytes, 8 bits, rows with zeros": compressed(
            ints, (5, 33), scheme(8, "channel", False), "F32"
        ),
        "bytes, 4 bits, groups with zeros": compressed(ints, (4, 64), scheme(4, "group", False, 32)),
        "bytes, 8 bits, one scale": compressed(ints, (3, 17), scheme(8, "tensor", True), "F32"),
        "bytes, 8 bits, one scale and zero": compressed(ints, (3, 17), scheme(8, "tensor", False)),
    }


def main() -> None:
    source = f"python -m training.recordings.quantized_modules, seed {SEED}, numpy {np.__version__}"
    OUT.write_text(json.dumps({"source": source, "cases": cases()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
