"""Records what PyTorch drafts with a tiny random EAGLE-3.

    pip install torch numpy safetensors
    python3 -m training.drafters.eagle3_fixtures

writes test/fixtures/drafters/eagle3-{plain,speculators}: the drafter's files, what the base gives it
(inputs.safetensors), and expected.json. The network is written down as its publication has it: an
entry for each hidden state of the base and the token behind it, attention over all of them at once.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

OUT = Path("test/fixtures/drafters")
BASE, VOCABULARY, TAPS = 12, 64, 3
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 8
TOKENS, LENGTH = 12, 5
GAP_MIN = 1e-3
"""Logits of the likeliest token are at least this far above the next one's."""

Weights = dict[str, Tensor]


@dataclass(frozen=True)
class Network:
    """What differs between the kinds of checkpoints."""

    hidden: int
    drafted: int
    layer: str
    """What names of the layer begin with."""
    config: dict
    own_tokens: bool

    def shapes(self) -> dict[str, tuple[int, ...]]:
        hidden, inner = self.hidden, 2 * self.hidden
        found = {"fc.weight": (hidden, TAPS * BASE), "norm.weight": (hidden,)}
        if self.config.get("fc_norm"):
            found |= {f"fc_norm.{tap}.weight": (BASE,) for tap in range(TAPS)}
        for norm in ("hidden_norm", "input_layernorm", "post_attention_layernorm"):
            found[f"{self.layer}{norm}.weight"] = (hidden,)
        attention = f"{self.layer}self_attn."
        for part, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            found[f"{attention}{part}_proj.weight"] = (heads * HEAD_DIM, 2 * hidden)
        found[f"{attention}o_proj.weight"] = (hidden, HEADS * HEAD_DIM)
        for part in ("gate", "up"):
            found[f"{self.layer}mlp.{part}_proj.weight"] = (inner, hidden)
        found[f"{self.layer}mlp.down_proj.weight"] = (hidden, inner)
        found["lm_head.weight"] = (self.drafted, hidden)
        if self.own_tokens:
            found["embed_tokens.weight"] = (VOCABULARY, hidden)
        return found

    def weights(self, random: torch.Generator) -> Weights:
        found = {}
        for name, shape in self.shapes().items():
            values = torch.randn(shape, generator=random)
            is_norm = len(shape) == 1
            found[name] = 1 + values / 4 if is_norm else 2 * values * shape[-1] ** -0.5
        if self.drafted < VOCABULARY:
            chosen = torch.randperm(VOCABULARY, generator=random)[: self.drafted].sort().values
            found["d2t"] = chosen - torch.arange(self.drafted)
        return found


LAYER = {
    "model_type": "llama",
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 100.0,
}
NETWORKS = {
    "eagle3-plain": Network(BASE, VOCABULARY, "midlayer.", {}, own_tokens=False),
    "eagle3-speculators": Network(
        16,
        40,
        "layers.0.",
        {"norm_before_residual": True, "fc_norm": True, "norm_output": True},
        own_tokens=True,
    ),
}


def config_of(network: Network) -> dict:
    sizes = {"hidden_size": network.hidden, "intermediate_size": 2 * network.hidden}
    more = {"draft_vocab_size": network.drafted, "target_hidden_size": BASE, **network.config}
    if network.layer == "midlayer.":
        return {"architectures": ["LlamaForCausalLMEagle3"], **LAYER, **sizes, **more}
    return {
        "speculators_model_type": "eagle3",
        "transformer_layer_config": {**LAYER, **sizes},
        **more,
    }


def norm(weights: Weights, name: str, x: Tensor) -> Tensor:
    scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + LAYER["rms_norm_eps"])
    return x * scale * weights[f"{name}.weight"]


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """[heads, tokens, D], pairs (i, i + D / 2)."""
    half = HEAD_DIM // 2
    frequencies = LAYER["rope_theta"] ** (-torch.arange(half, dtype=torch.float32) / half)
    angles = positions[:, None].float() * frequencies
    cosines, sines = angles.cos(), angles.sin()
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), -1)


class Drafter:
    """The network over a growing list of hidden states and tokens behind them."""

    def __init__(self, network: Network, weights: Weights, tokens: Tensor):
        self.network, self.weights, self.table = network, weights, tokens
        self.inputs: list[Tensor] = []
        self.gap = float("inf")

    def fused(self, states: Tensor) -> Tensor:
        """[TAPS, BASE] to [hidden]."""
        parts = list(states)
        if self.network.config.get("fc_norm"):
            parts = [norm(self.weights, f"fc_norm.{tap}", part) for tap, part in enumerate(parts)]
        return F.linear(torch.cat(parts), self.weights["fc.weight"])

    def add(self, hidden: Tensor, token: int) -> Tensor:
        """Adds an entry; returns what the layer makes of it."""
        layer, weights = self.network.layer, self.weights
        normed = norm(weights, f"{layer}hidden_norm", hidden)
        embedded = norm(weights, f"{layer}input_layernorm", self.table[token])
        self.inputs.append(torch.cat((embedded, normed)))
        x = normed if self.network.config.get("norm_before_residual") else hidden
        x = x + self.attend()
        inside = norm(weights, f"{layer}post_attention_layernorm", x)
        gate = F.silu(F.linear(inside, weights[f"{layer}mlp.gate_proj.weight"]))
        up = F.linear(inside, weights[f"{layer}mlp.up_proj.weight"])
        return x + F.linear(gate * up, weights[f"{layer}mlp.down_proj.weight"])

    def attend(self) -> Tensor:
        """Of the last entry over all of them."""
        name = f"{self.network.layer}self_attn."
        inputs = torch.stack(self.inputs)
        positions = torch.arange(len(inputs))

        def heads(part: str, count: int) -> Tensor:
            found = F.linear(inputs, self.weights[f"{name}{part}_proj.weight"])
            return found.view(len(inputs), count, HEAD_DIM).transpose(0, 1)

        query = rotate(heads("q", HEADS), positions)[:, -1:]
        key = rotate(heads("k", KV_HEADS), positions).repeat_interleave(HEADS // KV_HEADS, 0)
        value = heads("v", KV_HEADS).repeat_interleave(HEADS // KV_HEADS, 0)
        found = F.scaled_dot_product_attention(query, key, value)
        return F.linear(found.transpose(0, 1).reshape(-1), self.weights[f"{name}o_proj.weight"])

    def next(self, out: Tensor) -> tuple[int, Tensor]:
        """The likeliest token, and what the next entry reads."""
        normed = norm(self.weights, "norm", out)
        logits = F.linear(normed, self.weights["lm_head.weight"])
        best = logits.topk(2)
        self.gap = min(self.gap, float(best.values[0] - best.values[1]))
        token = int(best.indices[0])
        if "d2t" in self.weights:
            token += int(self.weights["d2t"][token])
        return token, normed if self.network.config.get("norm_output") else out


def draft(network: Network, weights: Weights, given: Weights, count: int, root: int):
    """The chain behind the first `count` tokens and the root, and its smallest gap."""
    own = weights.get("embed_tokens.weight", given["embed_tokens.weight"])
    drafter = Drafter(network, weights, own)
    behind = [*given["tokens"][1:count].tolist(), root]
    for place, token in enumerate(behind):
        out = drafter.add(drafter.fused(given["states"][:, place]), token)
    chain = []
    for level in range(LENGTH):
        token, hidden = drafter.next(out)
        chain.append(token)
        if level + 1 < LENGTH:
            out = drafter.add(hidden, token)
    return chain, drafter.gap


def record(name: str, network: Network, seed: int) -> bool:
    """Whether the drafts do not depend on rounding."""
    random = torch.Generator().manual_seed(seed)
    weights = network.weights(random)
    given = {
        "embed_tokens.weight": torch.randn((VOCABULARY, BASE), generator=random),
        "states": torch.randn((TAPS, TOKENS, BASE), generator=random),
        "tokens": torch.randint(VOCABULARY, (TOKENS,), generator=random),
    }
    cases = []
    for count in (1, 2, 5, 8, TOKENS):
        root = int(torch.randint(VOCABULARY, (1,), generator=random))
        chain, gap = draft(network, weights, given, count, root)
        if gap < GAP_MIN:
            return False
        cases.append({"count": count, "root": root, "tokens": chain})
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors")
    save_file(given, folder / "inputs.safetensors")
    (folder / "config.json").write_text(json.dumps(config_of(network), indent=2) + "\n")
    (folder / "expected.json").write_text(json.dumps(cases) + "\n")
    return True


def main() -> None:
    for name, network in NETWORKS.items():
        seed = next(seed for seed in range(100) if record(name, network, seed))
        print(f"{name}: seed {seed}")


if __name__ == "__main__":
    main()
