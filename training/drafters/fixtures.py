"""Records the beams that PyTorch finds with tiny random ReDrafters.

    pip install torch numpy safetensors
    python3 -m training.drafters.fixtures

writes test/fixtures/drafters/redrafter-{rnn,sum}: the drafter's files, what the base gives it
(inputs.safetensors), and expected.json. The network is written down a second time here, with all
that a checkpoint may have; training.drafters.redrafter has only what is trained.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

OUT = Path("test/fixtures/drafters")
HIDDEN, VOCABULARY, SEQUENCES = 16, 128, 3
SHAPES = ((1, 2), (2, 5), (4, 4), (16, 3))
"""Beams, and tokens of each."""
GAP_MIN = 3e-4
"""Scores of neighbouring ranks are at least this far apart, so that rounding swaps none."""

Weights = dict[str, Tensor]
Beam = tuple[float, list[int], Tensor]
"""Sum of log-probabilities, the base's tokens, state."""


@dataclass(frozen=True)
class Network:
    """Sizes of a drafter; letters as in redrafter.py."""

    exit_dim: int
    blocks: int
    rnn: bool
    drafted: int

    def config(self) -> dict:
        config = {
            "model_type": "recurrent_drafting_drafter",
            "vocab_size": VOCABULARY,
            "hidden_size": HIDDEN,
            "exit_dim": self.exit_dim,
            "num_draft_layers": self.blocks,
            "num_lookback_tokens": 1,
            "rnn": self.rnn,
            "torch_dtype": "float32",
        }
        return config if self.drafted == VOCABULARY else {**config, "draft_vocab_size": self.drafted}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of all float tensors, by the keys of apple/ml-recurrent-drafter."""
        exit_dim = self.exit_dim
        found: dict[str, tuple[int, ...]] = {}
        if self.rnn:
            found |= {"rnn_w.weight": (HIDDEN, HIDDEN), "rnn_u.weight": (HIDDEN, HIDDEN)}
            found |= {"rnn_u.bias": (HIDDEN,)}
        if exit_dim != 2 * HIDDEN:
            found |= {"input_proj.weight": (exit_dim, 2 * HIDDEN), "input_proj.bias": (exit_dim,)}
        for place in range(self.blocks):
            found[f"lm_head.{place}.linear.weight"] = (exit_dim, exit_dim)
            found[f"lm_head.{place}.linear.bias"] = (exit_dim,)
        return found | {f"lm_head.{self.blocks}.weight": (self.drafted, exit_dim)}

    def weights(self, random: torch.Generator) -> Weights:
        found = {}
        for name, shape in self.shapes().items():
            scale = 2.0 if name == f"lm_head.{self.blocks}.weight" else 1.0
            values = torch.randn(shape, generator=random)
            found[name] = values * scale * shape[-1] ** -0.5
        if self.drafted < VOCABULARY:
            chosen = torch.randperm(VOCABULARY, generator=random)[: self.drafted].sort().values
            found["d2t"] = chosen - torch.arange(self.drafted)
        return found


NETWORKS = {
    "redrafter-rnn": Network(exit_dim=24, blocks=1, rnn=True, drafted=VOCABULARY),
    "redrafter-sum": Network(exit_dim=2 * HIDDEN, blocks=2, rnn=False, drafted=64),
}


def advance(network: Network, weights: Weights, embedded: Tensor, state: Tensor) -> Tensor:
    """The state behind one more token, [H]."""
    if not network.rnn:
        return state + embedded
    from_state = F.linear(state, weights["rnn_u.weight"], weights["rnn_u.bias"])
    return F.silu(F.linear(embedded, weights["rnn_w.weight"]) + from_state)


def log_probabilities(network: Network, weights: Weights, context: Tensor, state: Tensor) -> Tensor:
    """Of all drafted tokens, [draft vocabulary]."""
    x = torch.cat([context, state])
    if "input_proj.weight" in weights:
        x = F.linear(x, weights["input_proj.weight"], weights["input_proj.bias"])
    for place in range(network.blocks):
        block = f"lm_head.{place}.linear"
        x = x + F.silu(F.linear(x, weights[f"{block}.weight"], weights[f"{block}.bias"]))
    return F.linear(x, weights[f"lm_head.{network.blocks}.weight"]).log_softmax(-1)


def search(
    network: Network,
    weights: Weights,
    table: Tensor,
    context: Tensor,
    root: int,
    width: int,
    length: int,
) -> tuple[list[Beam], float]:
    """The beams of the largest sums, best first, and the least distance of two ranks on the way."""
    distances = weights.get("d2t", torch.zeros(network.drafted, dtype=torch.long))
    beams: list[Beam] = [(0.0, [], torch.zeros(HIDDEN))]
    gap = float("inf")
    for _ in range(length):
        states = [
            advance(network, weights, table[tokens[-1] if tokens else root], state)
            for _, tokens, state in beams
        ]
        scores = torch.stack(
            [
                score + log_probabilities(network, weights, context, state)
                for (score, _, _), state in zip(beams, states)
            ]
        ).flatten()
        # Stable, so that of equal scores the lowest place in [beams, draft vocabulary] is first.
        ranked = scores.sort(descending=True, stable=True)
        gap = min(gap, -ranked.values[: width + 1].diff().max().item())
        following: list[Beam] = []
        for place in ranked.indices[:width].tolist():
            parent, drafted = divmod(place, network.drafted)
            token = drafted + int(distances[drafted])
            following.append((scores[place].item(), [*beams[parent][1], token], states[parent]))
        beams = following
    return beams, gap


def record(network: Network, seed: int) -> tuple[Weights, Weights, dict, float]:
    """Weights, inputs, expected beams, and the least distance of two ranks."""
    random = torch.Generator().manual_seed(seed)
    weights = network.weights(random)
    inputs = {
        "embed_tokens.weight": torch.randn(VOCABULARY, HIDDEN, generator=random),
        "hidden": torch.randn(SEQUENCES, HIDDEN, generator=random),
    }
    roots = torch.randint(VOCABULARY, (SEQUENCES,), generator=random).tolist()
    cases, gaps = [], []
    for width, length in SHAPES:
        sequences = []
        for context, root in zip(inputs["hidden"], roots):
            beams, gap = search(
                network, weights, inputs["embed_tokens.weight"], context, root, width, length
            )
            gaps.append(gap)
            scores = [round(score, 5) for score, _, _ in beams]
            sequences.append({"tokens": [tokens for _, tokens, _ in beams], "scores": scores})
        cases.append({"width": width, "length": length, "sequences": sequences})
    about = (
        f"PyTorch {torch.__version__.split('+')[0]}, fp32, CPU, seed {seed}. tokens: [width][length] of the base,"
        " best first; scores: sums of log-probabilities."
    )
    return weights, inputs, {"about": about, "roots": roots, "cases": cases}, min(gaps)


@torch.no_grad()
def main() -> None:
    torch.set_num_threads(1)
    for name, network in NETWORKS.items():
        seed = 1
        weights, inputs, expected, gap = record(network, seed)
        while gap < GAP_MIN:
            seed += 1
            weights, inputs, expected, gap = record(network, seed)
        folder = OUT / name
        folder.mkdir(parents=True, exist_ok=True)
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        save_file(inputs, folder / "inputs.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(network.config(), indent=2) + "\n")
        (folder / "expected.json").write_text(json.dumps(expected) + "\n")
        print(f"{name}: seed {seed}, ranks at least {gap:.1e} apart")


if __name__ == "__main__":
    main()
