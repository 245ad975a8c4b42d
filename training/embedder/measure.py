"""How well held-out pairs are found, by the teacher and by the student."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from training.embedder.batches import Texts
from training.embedder.model import Encoder
from training.embedder.passages import KINDS

PAIRS_MAX = 4096
LENGTHS = {"anchor": 48, "passage": 512}


class Measure:
    """Anchors of held-out documents, each to be found among all their passages."""

    def __init__(
        self,
        pairs: np.ndarray,
        taught: dict[tuple[str, str], Tensor],
        texts: dict[tuple[str, str], Texts],
        projection: Tensor,
    ) -> None:
        chosen = np.random.default_rng(7).permutation(len(pairs))[:PAIRS_MAX]
        device = projection.device
        self.kinds = torch.from_numpy(pairs[chosen, 2]).to(device)
        passages, own = np.unique(pairs[chosen, 1], return_inverse=True)
        self.own = torch.from_numpy(own.reshape(-1)).to(device)
        places = {"anchor": pairs[chosen, 0], "passage": passages}
        self.places = {k: torch.from_numpy(v).long().to(device) for k, v in places.items()}
        self.texts = {role: texts["eval", role] for role in places}
        self.taught = {k: taught["eval", k][v].float() for k, v in self.places.items()}
        self.targets = {k: F.normalize(v @ projection, dim=-1) for k, v in self.taught.items()}

    def teacher(self) -> dict[str, float]:
        """With the teacher's whole vectors."""
        return self.ranks(self.taught["anchor"], self.taught["passage"])

    @torch.no_grad()
    def student(self, model: Encoder) -> dict[str, float]:
        """With the student's vectors, and how near they are to what they should be."""
        vectors = {role: self.embed(model, role) for role in self.places}
        result = self.ranks(vectors["anchor"], vectors["passage"])
        for role, found in vectors.items():
            result[f"{role}_cosine"] = (found * self.targets[role]).sum(-1).mean().item()
        return result

    def embed(self, model: Encoder, role: str) -> Tensor:
        """Eagerly, in batches that are as long as their longest text."""
        order = self.texts[role].lengths[self.places[role]].argsort()
        parts = []
        for part in order.split(256):
            places = self.places[role][part]
            longest = int(self.texts[role].lengths[places].max())
            length = min(LENGTHS[role], -(-longest // 8) * 8)
            cuda = order.device.type == "cuda"
            autocast = torch.autocast(order.device.type, torch.bfloat16, enabled=cuda)
            with autocast, model.uncompiled():
                parts.append(model(self.texts[role].take(places, length)).float())
        out = torch.empty(len(order), parts[0].shape[1], device=order.device)
        out[order] = torch.cat(parts)
        return out

    def ranks(self, anchors: Tensor, passages: Tensor) -> dict[str, float]:
        """How far ahead the right passages are."""
        scores = anchors @ passages.T
        own = scores.gather(1, self.own[:, None])
        return summarise((scores > own).sum(1) + 1, self.kinds)


def summarise(ranks: Tensor, kinds: Tensor) -> dict[str, float]:
    """Mean reciprocal rank and recall at 1 and 10, over all and of each kind."""
    result = {
        "mrr": (1 / ranks).mean().item(),
        "recall1": (ranks <= 1).float().mean().item(),
        "recall10": (ranks <= 10).float().mean().item(),
    }
    for kind, name in enumerate(KINDS):
        of_kind = ranks[kinds == kind]
        if len(of_kind) > 0:
            result[f"mrr_{name}"] = (1 / of_kind).mean().item()
    return result
