"""Lets the model write behind prompts with PyTorch alone: the rows that `perigee generate --output`
writes, for machines that have no build of it.

Letters: B outputs at once, T places of the cache, C hidden size, V vocabulary, G query heads of one
key head.
"""

import argparse
import json
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from training.drafters.distill import load_model
from training.pocket.export import END_ID, END_OF_TEXT_ID, PAD_ID
from training.pocket.model import Attention, Pocket, rope_tables, rotate

CACHE_BYTES_MAX = {"cuda": 16 << 30, "cpu": 1 << 28}
PROMPT_PLACES = {"cuda": 65_536, "cpu": 2_048}
"""Places of one pass over prompts, padded."""
KERNELS = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Those that plan nothing anew for another length, as each step has one."""


class Cache:
    """Keys and values of some outputs, padded on the left: all write at the same place."""

    def __init__(self, model: Pocket, lengths: Tensor, width: int, places: int) -> None:
        config, device = model.config, lengths.device
        shape = (len(lengths), config.num_key_value_heads, places, config.head_dim)
        dtype = model.model.embed_tokens.weight.dtype
        layers = range(config.num_hidden_layers)
        self.keys = [torch.zeros(shape, dtype=dtype, device=device) for _ in layers]
        self.values = [torch.zeros(shape, dtype=dtype, device=device) for _ in layers]
        self.begins = width - lengths
        """[B] the place of each first token."""
        self.angles = rope_tables(config, places, device)


def attend(
    attention: Attention, x: Tensor, cache: Cache, layer: int, rows: slice, places: slice
) -> Tensor:
    """What the tokens at `places` of `rows` read, [B, T, C]; writes their keys and values."""
    heads = lambda y: y.unflatten(-1, (-1, attention.config.head_dim)).transpose(1, 2)  # noqa: E731
    begins = cache.begins[rows, None]
    at = torch.arange(places.start, places.stop, device=x.device)
    cos, sin = (table[(at - begins).clamp(min=0)][:, None] for table in cache.angles)
    query = rotate(heads(attention.q_proj(x)), cos, sin).to(x.dtype)
    cache.keys[layer][rows, :, places] = rotate(heads(attention.k_proj(x)), cos, sin).to(x.dtype)
    cache.values[layer][rows, :, places] = heads(attention.v_proj(x))
    seen = torch.arange(places.stop, device=x.device)
    # A place of the padding sees itself, so that no softmax is of nothing.
    visible = (seen[None, None] >= begins[..., None]) | (seen == at[:, None])[None]
    visible = (visible & (seen <= at[:, None])[None])[:, None]
    keys, values = (some[layer][rows, :, : places.stop] for some in (cache.keys, cache.values))
    # The G query heads of a key head as G times as many rows: no key is copied for each of them.
    group = attention.config.num_attention_heads // attention.config.num_key_value_heads
    query = query.unflatten(1, (-1, group)).flatten(2, 3)
    visible = visible.repeat(1, 1, group, 1)
    mixed = F.scaled_dot_product_attention(query, keys, values, attn_mask=visible)
    mixed = mixed.unflatten(2, (group, -1)).flatten(1, 2)
    return attention.o_proj(mixed.transpose(1, 2).flatten(2))


def logits_of(model: Pocket, ids: Tensor, cache: Cache, rows: slice, places: slice) -> Tensor:
    """[B, V] behind the last of `ids`, [B, T], which stand at `places`."""
    x = model.model.embed_tokens(ids)
    for number, layer in enumerate(model.model.layers):
        x = x + attend(layer.self_attn, layer.input_layernorm(x), cache, number, rows, places)
        x = x + layer.mlp(layer.post_attention_layernorm(x))
    return (model.model.norm(x[:, -1]) @ model.model.embed_tokens.weight.T).float()


@torch.inference_mode()
def write(
    model: Pocket, prompts: list[list[int]], temperatures: list[float], tokens_max: int
) -> list[list[int]]:
    """What the model writes behind some prompts, each up to its end token."""
    device = model.model.embed_tokens.weight.device
    lengths = torch.tensor([len(ids) for ids in prompts], device=device)
    width = int(lengths.max())
    padded = [[PAD_ID] * (width - len(ids)) + ids for ids in prompts]
    ids = torch.tensor(padded, device=device)
    cache = Cache(model, lengths, width, width + tokens_max)
    at_once = max(1, PROMPT_PLACES[device.type] // width)
    logits = torch.cat(
        [
            logits_of(
                model, ids[first : first + at_once], cache, slice(first, first + at_once),
                slice(0, width),
            )
            for first in range(0, len(prompts), at_once)
        ]
    )  # fmt: skip
    heat = torch.tensor(temperatures, device=device)[:, None]
    ended = torch.zeros(len(prompts), dtype=torch.bool, device=device)
    written = torch.full((len(prompts), tokens_max), PAD_ID, device=device)
    for step in range(tokens_max):
        # Gumbel's noise: the largest of the noisy logits is a sample.
        noise = -torch.empty_like(logits).exponential_().log()
        token = (logits + heat * noise).argmax(-1)
        written[:, step] = torch.where(ended, PAD_ID, token)
        ended |= (token == END_ID) | (token == END_OF_TEXT_ID)
        # Asked now and then: each time waits for the device.
        if step == tokens_max - 1 or (step % 16 == 15 and bool(ended.all())):
            break
        place = width + step
        every = slice(0, len(prompts))
        logits = logits_of(model, token[:, None], cache, every, slice(place, place + 1))
    ends = (END_ID, END_OF_TEXT_ID)
    return [cut(row, ends) for row in written.tolist()]


def cut(ids: list[int], ends: tuple[int, ...]) -> list[int]:
    """Up to the first end token, which stays."""
    stop = next((place for place, token in enumerate(ids) if token in ends), len(ids))
    return ids[: stop + 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("models/pocket"))
    parser.add_argument("--input", type=Path, required=True, help="of training.drafters.prompts")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = load_model(arguments.model, device)
    if device.type == "cuda":
        model = model.bfloat16()
    rows = [json.loads(line) for line in arguments.input.read_text().splitlines()]
    # Outputs are made together with those of like prompts: padding is computed, too.
    order = sorted(range(len(rows)), key=lambda place: len(rows[place]["prompt_token_ids"]))
    config, began, total = model.config, time.time(), 0
    value_bytes = model.model.embed_tokens.weight.element_size()
    token_bytes = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim
    places_max = CACHE_BYTES_MAX[device.type] // (token_bytes * value_bytes)
    with arguments.output.open("w") as file:
        while order:
            # The longest are at the end, so that memory is found wanting at once.
            longest = rows[order[-1]]
            width = len(longest["prompt_token_ids"]) + longest["max_tokens"]
            group = [order.pop() for _ in range(min(len(order), max(1, places_max // width), 4096))]
            chosen = [rows[place] for place in group]
            with sdpa_kernel(KERNELS):
                outputs = write(
                    model,
                    [row["prompt_token_ids"] for row in chosen],
                    [row["temperature"] for row in chosen],
                    max(row["max_tokens"] for row in chosen),
                )
            for place, row, ids in zip(group, chosen, outputs):
                total += len(ids)
                found = {
                    "prompt_index": place,
                    "prompt_token_ids": row["prompt_token_ids"],
                    "token_ids": ids[: row["max_tokens"]],
                }
                file.write(json.dumps(found) + "\n")
    print(f"{len(rows)} outputs, {total:,} tokens, {time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
