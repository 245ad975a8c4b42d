"""Distils Medusa's heads from a Llama-shaped model, on texts that the model wrote itself.

Source: Cai et al. 2024, "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding
Heads" (arXiv 2401.10774). The network and its keys are those of FasterDecoding/Medusa: version 1,
or with --share-output version 2, whose heads have no output layers of their own.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.drafters.distill import (
    LEVEL_DECAY,
    States,
    add_arguments,
    agreement_of,
    export,
    fit,
    level_loss,
    prepare,
    teacher_of,
)
from training.pocket.model import PocketConfig

CHOICES = 10
"""Choices of a head whose accuracy is measured: the server builds its trees from them."""


class Head(nn.Module):
    """Logits of one token behind the root, from the hidden state that gave the root.

    output [V', H]: the model's own output layer; `shared`: it stays so, else it is learned on.
    """

    def __init__(self, layers: int, output: Tensor, shared: bool) -> None:
        super().__init__()
        hidden = output.shape[1]
        self.layers = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers))
        for layer in self.layers:
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.shared = shared
        if shared:
            # Not a parameter and not saved: neither optimiser nor checkpoint sees it.
            self.register_buffer("output", output, persistent=False)
        else:
            self.output = nn.Parameter(output.clone())

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + F.silu(layer(x))
        return F.linear(x, self.output)


class Medusa(nn.Module):
    """Head i drafts the token i places behind the root; each knows nothing of the others."""

    def __init__(self, heads: int, layers: int, output: Tensor, shared: bool) -> None:
        super().__init__()
        self.heads = nn.ModuleList(Head(layers, output, shared) for _ in range(heads))

    def tensors(self) -> dict[str, Tensor]:
        """By the keys of FasterDecoding/Medusa."""
        found = {}
        for place, head in enumerate(self.heads):
            for at, layer in enumerate(head.layers):
                found[f"{place}.{at}.linear.weight"] = layer.weight
                found[f"{place}.{at}.linear.bias"] = layer.bias
            if not head.shared:
                found[f"{place}.{len(head.layers)}.weight"] = head.output
        return found


@torch.inference_mode()
def accuracies(medusa: Medusa, states: States, chosen: Tensor) -> list[list[float]]:
    """How often each head's k-th choice is the model's token, k up to CHOICES."""
    shown = states.anchors[:16384]
    found = []
    for level, head in enumerate(medusa.heads, start=1):
        anchors = shown[shown + level < states.ends[shown]]
        best = head(states.hidden[anchors].float()).topk(CHOICES, dim=-1).indices
        hits = chosen[best] == states.best[anchors + level][:, None]
        found.append([round(share, 4) for share in hits.float().mean(0).tolist()])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser, "medusa")
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=1, help="residual layers of a head")
    parser.add_argument(
        "--share-output",
        action="store_true",
        help="the model's output layer is that of all heads: the whole vocabulary is drafted",
    )
    arguments = parser.parse_args()
    shared = arguments.share_output
    if shared:
        arguments.draft_vocabulary = PocketConfig.read(arguments.model / "config.json").vocab_size
    prepared = prepare(arguments, arguments.heads)
    embeddings, chosen = prepared.embeddings, prepared.chosen
    model_head = embeddings[chosen]
    medusa = Medusa(arguments.heads, arguments.layers, model_head, shared).to(prepared.device)

    def losses(states: States, anchors: Tensor) -> tuple[Tensor, list[Tensor]]:
        context = states.hidden[anchors].float()
        context = F.dropout(context, arguments.dropout, training=medusa.training)
        total, agreement = torch.zeros((), device=prepared.device), []
        for level, head in enumerate(medusa.heads, start=1):
            logits = head(context)
            teacher = teacher_of(states, anchors + level, anchors, model_head)
            total = total + LEVEL_DECAY ** (level - 1) * level_loss(logits, teacher)
            agreement.append(agreement_of(logits.detach(), teacher, chosen))
        return total, agreement

    fit(medusa, losses, prepared, arguments)
    config = {
        "model_type": "medusa",
        "medusa_num_heads": arguments.heads,
        "medusa_num_layers": arguments.layers,
        "head_accuracies": accuracies(medusa, prepared.held_out, chosen),
    }
    export(prepared, arguments, medusa.tensors(), config)


if __name__ == "__main__":
    main()
