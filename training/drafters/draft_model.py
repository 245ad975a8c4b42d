"""Distils a draft model, a small decoder of the model's vocabulary, on texts that the model wrote.

Source: Leviathan et al. 2023, "Fast Inference from Transformers via Speculative Decoding"
(arXiv 2211.17192). A draft model sees tokens alone and drafts one by one, so every place of an
output teaches what it will be asked for; prompts teach, too, with less weight, since much of an
output is copied from them, and two layers are needed for copying.

Letters: B outputs, T their tokens, N those of them that teach.
"""

import argparse
import json
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from training.drafters.distill import (
    CE_SHARE,
    Row,
    States,
    add_arguments,
    export_files,
    fit,
    groups,
    prepare,
)
from training.pocket.export import model_config
from training.pocket.model import Pocket, PocketConfig
from training.pocket.optimizer import make_optimizers

PROMPT_SHARE = 0.2
"""Weight of a prompt's place beside one of an output."""
LENGTH_SPREAD = 0.1
"""Outputs are drawn together whose lengths differ by about this share."""
SHOWN_MAX = 400
"""Held-out outputs whose agreement is measured: together one forward pass."""
KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Those that plan nothing anew for another length, as nearly each step has one."""


class Texts(States):
    """Whole outputs behind their prompts: what is drawn are their numbers, on the host."""

    def __init__(self, model: Pocket, rows: list[Row], *others, **named) -> None:
        super().__init__(model, [row for row in rows if len(row[0]) > 1], *others, **named)
        device = self.ids.device
        outline = np.stack([self.firsts, self.roots, self.lengths])
        self.outline = torch.from_numpy(outline).to(device)
        self.random = np.random.default_rng(1)
        self.waiting: list[np.ndarray] = []

    def draw(self, count: int) -> Tensor:
        """Outputs of about `count` places together, padded; all are drawn before any again."""
        if not self.waiting:
            spread = self.random.uniform(1 - LENGTH_SPREAD, 1 + LENGTH_SPREAD, len(self.lengths))
            order = np.argsort(self.lengths * spread)
            self.waiting = [order[a:b] for a, b in groups(self.lengths[order], count)]
            self.random.shuffle(self.waiting)
        return torch.from_numpy(self.waiting.pop())

    def shown(self) -> Tensor:
        step = max(1, len(self.lengths) // SHOWN_MAX)
        return torch.arange(0, len(self.lengths), step)

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of outputs that were drawn: their places, [B, T], which are of their outputs, and the
        flat indices, [N], of those that have a token behind them. Padding repeats the last token.
        """
        device = self.ids.device
        sizes = self.lengths[rows.numpy()]
        columns = torch.arange(int(sizes.max()), device=device)
        drawn = self.outline[:, rows.to(device, non_blocking=True)]
        firsts, roots, lengths = drawn[..., None]
        places = firsts + torch.minimum(columns, lengths - 1)
        counted = (columns < lengths - 1).flatten()
        # The host knows how many there are, so that it need not wait for the device.
        kept = torch.nonzero_static(counted, size=int((sizes - 1).sum()))[:, 0]
        return places, columns >= roots - 1, kept


def initialise(drafter: Pocket, embeddings: Tensor) -> None:
    """Embeddings begin as the best view of the model's in so few dimensions, of their size."""
    size = drafter.config.hidden_size
    centred = embeddings - embeddings.mean(0)
    left, values, _ = torch.linalg.svd(centred, full_matrices=False)
    found = left[:, :size] * values[:size]
    with torch.no_grad():
        drafter.model.embed_tokens.weight.copy_(found * (0.05 / found.std()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser, "draft-model")
    parser.set_defaults(positions=32768, lr=3e-3)
    parser.add_argument("--matrix-lr", type=float, default=1e-2, help="of the layers' matrices")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--intermediate", type=int, default=768)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--kv-heads", type=int, default=2)
    arguments = parser.parse_args()
    arguments.draft_vocabulary = PocketConfig.read(arguments.model / "config.json").vocab_size
    prepared = prepare(arguments, 1, partial(Texts, whole=True))
    device, head = prepared.device, prepared.embeddings.to(torch.bfloat16)
    base = prepared.model.config
    config = PocketConfig(
        vocab_size=base.vocab_size,
        hidden_size=arguments.hidden,
        intermediate_size=arguments.intermediate,
        num_hidden_layers=arguments.layers,
        num_attention_heads=arguments.heads,
        num_key_value_heads=arguments.kv_heads,
        head_dim=base.head_dim,
        max_position_embeddings=base.max_position_embeddings,
        rms_norm_eps=base.rms_norm_eps,
        rope_theta=base.rope_theta,
    )
    drafter = Pocket(config).to(device)
    initialise(drafter, prepared.embeddings)
    # The model's own passes are over.
    prepared.model.cpu()

    def losses(texts: Texts, rows: Tensor) -> tuple[Tensor, list[Tensor]]:
        places, own, kept = texts.batch(rows)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            hidden = drafter.hidden(texts.ids[places]).flatten(0, 1)[kept]
            logits = F.linear(hidden, drafter.model.embed_tokens.weight).float()
        places, own = places.flatten()[kept], own.flatten()[kept]
        with torch.no_grad():
            taught = (texts.hidden[places] @ head.T).float() - texts.normalizer[places][:, None]
            # The states are rounded, so their sum is not quite one.
            taught = taught.log_softmax(-1)
        found = logits.log_softmax(-1)
        distance = (taught.exp() * (taught - found)).sum(-1)
        label = -found.gather(-1, texts.best[places][:, None])[:, 0]
        weights = torch.where(own, 1.0, PROMPT_SHARE)
        loss = (weights * (distance + CE_SHARE * label)).sum() / weights.sum()
        with torch.no_grad():
            hits = (logits.argmax(-1) == texts.best[places]).float()
            agreement = (hits * own).sum() / own.sum().clamp(min=1)
            # The share of drafts that noise shared with the model confirms is about this.
            overlap = torch.minimum(found.exp(), taught.exp()).sum(-1)
            overlap = (overlap * own).sum() / own.sum().clamp(min=1)
        return loss, [agreement, overlap]

    optimizers = make_optimizers(drafter, "muon", arguments.lr, arguments.matrix_lr)
    with sdpa_kernel(KERNELS):
        fit(drafter, losses, prepared, arguments, optimizers)
    tensors = drafter.state_dict()
    written = {**model_config(config), "base_fingerprint": prepared.fingerprint}
    export_files(arguments.out, tensors, written)
    parameters = sum(tensor.numel() for tensor in tensors.values())
    size = (arguments.out / "model.safetensors").stat().st_size
    print(json.dumps({"parameters": parameters, "bytes": size}))


if __name__ == "__main__":
    main()
