"""Distils Medusa's heads from a Llama-shaped model, on texts that the model wrote itself.

Source: Cai et al. 2024, "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding
Heads" (arXiv 2401.10774). The network and its keys are those of FasterDecoding/Medusa, version 1.
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

CHOICES = 10
"""Choices of a head whose accuracy is measured: the server builds its trees from them."""


class Head(nn.Module):
    """Logits of one token behind the root, from the hidden state that gave the root."""

    def __init__(self, hidden: int, layers: int, vocabulary: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers))
        self.head = nn.Linear(hidden, vocabulary, bias=False)

    def initialise(self, model_head: Tensor) -> None:
        """Begins as the model's own output layer."""
        with torch.no_grad():
            self.head.weight.copy_(model_head)
            for layer in self.layers:
                layer.weight.zero_()
                layer.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + F.silu(layer(x))
        return self.head(x)


class Medusa(nn.Module):
    """Head i drafts the token i places behind the root; each knows nothing of the others."""

    def __init__(self, hidden: int, heads: int, layers: int, vocabulary: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(Head(hidden, layers, vocabulary) for _ in range(heads))

    def tensors(self) -> dict[str, Tensor]:
        """By the keys of FasterDecoding/Medusa."""
        found = {}
        for place, head in enumerate(self.heads):
            for at, layer in enumerate(head.layers):
                found[f"{place}.{at}.linear.weight"] = layer.weight
                found[f"{place}.{at}.linear.bias"] = layer.bias
            found[f"{place}.{len(head.layers)}.weight"] = head.head.weight
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
    arguments = parser.parse_args()
    prepared = prepare(arguments, arguments.heads)
    embeddings, chosen = prepared.embeddings, prepared.chosen
    model_head = embeddings[chosen]
    hidden = embeddings.shape[1]
    medusa = Medusa(hidden, arguments.heads, arguments.layers, len(chosen)).to(prepared.device)
    for head in medusa.heads:
        head.initialise(model_head)

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
