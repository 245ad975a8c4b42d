"""Distils a ReDrafter from a Llama-shaped model, on texts that the model wrote itself.

Source: Cheng et al. 2024, "Recurrent Drafter for Fast Speculative Decoding" (arXiv 2403.09919). The
network and its keys are those of apple/ml-recurrent-drafter.
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
from training.pocket.optimizer import Muon

LEVELS = 5
"""Tokens that are drafted behind each other in training; serving drafts at most as many."""


class ReDrafter(nn.Module):
    """Logits of drafted tokens from one hidden state of the model and the tokens behind it."""

    def __init__(self, hidden: int, size: int, blocks: int, vocabulary: int) -> None:
        super().__init__()
        self.rnn_w = nn.Linear(hidden, hidden, bias=False)
        self.rnn_u = nn.Linear(hidden, hidden)
        self.input = nn.Linear(2 * hidden, size) if size != 2 * hidden else None
        self.blocks = nn.ModuleList(nn.Linear(size, size) for _ in range(blocks))
        self.head = nn.Linear(size, vocabulary, bias=False)

    def initialise(self, model_head: Tensor) -> None:
        """Begins as the model's own output layer on its hidden state."""
        hidden = model_head.shape[1]
        with torch.no_grad():
            self.head.weight.zero_()
            self.head.weight[:, :hidden] = model_head
            if self.input is not None:
                # What was joined comes first; the rest begins as nothing.
                self.input.weight.copy_(torch.eye(*self.input.weight.shape))
                self.input.bias.zero_()
            self.rnn_w.weight.copy_(torch.eye(hidden))
            self.rnn_u.weight.normal_(std=0.02)
            self.rnn_u.bias.zero_()
            for block in self.blocks:
                block.weight.zero_()
                block.bias.zero_()

    def step(self, embedded: Tensor, state: Tensor) -> Tensor:
        return F.silu(self.rnn_w(embedded) + self.rnn_u(state))

    def logits(self, context: Tensor, state: Tensor) -> Tensor:
        x = torch.cat([context, state], dim=-1)
        if self.input is not None:
            x = self.input(x)
        for block in self.blocks:
            x = x + F.silu(block(x))
        return self.head(x)

    def tensors(self) -> dict[str, Tensor]:
        """By the keys of apple/ml-recurrent-drafter."""
        found = {
            "rnn_w.weight": self.rnn_w.weight,
            "rnn_u.weight": self.rnn_u.weight,
            "rnn_u.bias": self.rnn_u.bias,
            f"lm_head.{len(self.blocks)}.weight": self.head.weight,
        }
        if self.input is not None:
            found |= {"input_proj.weight": self.input.weight, "input_proj.bias": self.input.bias}
        for place, block in enumerate(self.blocks):
            found[f"lm_head.{place}.linear.weight"] = block.weight
            found[f"lm_head.{place}.linear.bias"] = block.bias
        return found


def optimizers_of(drafter: ReDrafter, arguments: argparse.Namespace) -> list[torch.optim.Optimizer]:
    """Muon for the recurrence and the blocks, AdamW for the head and what is no matrix."""
    inner = [drafter.rnn_w.weight, drafter.rnn_u.weight, *(b.weight for b in drafter.blocks)]
    kept = {id(weight) for weight in inner}
    others = [weight for weight in drafter.parameters() if id(weight) not in kept]
    adamw = torch.optim.AdamW(others, lr=arguments.lr, weight_decay=arguments.weight_decay)
    return [Muon(inner, arguments.matrix_lr, weight_decay=arguments.weight_decay), adamw]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser, "redrafter")
    parser.add_argument("--blocks", type=int, default=1)
    parser.add_argument("--exit", type=int, default=0, help="its size; 0: twice the model's")
    parser.add_argument("--matrix-lr", type=float, default=0, help="Muon for the matrices, if > 0")
    arguments = parser.parse_args()
    prepared = prepare(arguments, LEVELS)
    embeddings, chosen = prepared.embeddings, prepared.chosen
    model_head = embeddings[chosen]
    hidden = embeddings.shape[1]
    size = arguments.exit or 2 * hidden
    drafter = ReDrafter(hidden, size, arguments.blocks, len(chosen)).to(prepared.device)
    drafter.initialise(model_head)
    device = prepared.device.type

    def losses(states: States, anchors: Tensor) -> tuple[Tensor, list[Tensor]]:
        context = states.hidden[anchors].float()
        context = F.dropout(context, arguments.dropout, training=drafter.training)
        state = torch.zeros_like(context)
        total, agreement = torch.zeros((), device=prepared.device), []
        for level in range(1, LEVELS + 1):
            places = anchors + level
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                state = drafter.step(embeddings[states.ids[places]], state)
                logits = drafter.logits(context, state)
            logits = logits.float()
            teacher = teacher_of(states, places, anchors, model_head)
            total = total + LEVEL_DECAY ** (level - 1) * level_loss(logits, teacher)
            agreement.append(agreement_of(logits.detach(), teacher, chosen))
        return total, agreement

    optimizers = optimizers_of(drafter, arguments) if arguments.matrix_lr > 0 else None
    fit(drafter, losses, prepared, arguments, optimizers)
    config = {
        "model_type": "recurrent_drafting_drafter",
        "exit_dim": size,
        "num_draft_layers": arguments.blocks,
        "num_lookback_tokens": 1,
        "rnn": True,
        "draft_length_trained": LEVELS,
    }
    export(prepared, arguments, drafter.tensors(), config)


if __name__ == "__main__":
    main()
