"""What reranking brings to held-out pairs: the embedder's first passages, in another order."""

import torch
from torch import Tensor

from training.embedder.measure import summarise
from training.reranker.lists import PairTexts
from training.reranker.model import CrossEncoder

ANCHORS_MAX = 1024
FIRST = 30
"""Passages that are reranked; one that the embedder ranks lower keeps its place."""
TOKENS = 131_072
"""Of a batch."""


class Measure:
    """Anchors of held-out documents, each to be found among all their passages."""

    def __init__(
        self, pairs: Tensor, vectors: dict[str, Tensor], texts: PairTexts, tokens_max: int
    ) -> None:
        generator = torch.Generator().manual_seed(7)
        chosen = torch.randperm(len(pairs), generator=generator)[:ANCHORS_MAX].to(pairs.device)
        pool, own = torch.unique(pairs[:, 1], return_inverse=True)
        self.texts, self.tokens_max = texts, tokens_max
        self.kinds, self.anchors = pairs[chosen, 2], pairs[chosen, 0]
        near = vectors["anchor"][self.anchors].float() @ vectors["passage"][pool].float().T
        own = own[chosen][:, None]
        self.ranks = (near > near.gather(1, own)).sum(1) + 1
        first = near.topk(min(FIRST, len(pool))).indices
        self.is_own = first == own
        self.first = pool[first]

    def embedder(self) -> dict[str, float]:
        """By the embedder alone; `bound`: were every right passage of the first ones put first."""
        best = torch.where(self.is_own.any(1), 1, self.ranks)
        return {**summarise(self.ranks, self.kinds), "bound": (1 / best).mean().item()}

    def reranked(self, model: CrossEncoder) -> dict[str, float]:
        """With the first passages in the order of their scores."""
        scores = self.scores(model)
        own = scores.masked_fill(~self.is_own, -torch.inf).amax(1, keepdim=True)
        ranks = torch.where(self.is_own.any(1), (scores > own).sum(1) + 1, self.ranks)
        return summarise(ranks, self.kinds)

    @torch.no_grad()
    def scores(self, model: CrossEncoder) -> Tensor:
        """[A, FIRST] in batches of pairs that are about as long as each other."""
        anchors = self.anchors[:, None].expand_as(self.first).reshape(-1)
        passages = self.first.reshape(-1)
        lengths = self.texts.lengths(anchors, passages).clamp(max=self.tokens_max)
        order = lengths.argsort(descending=True)
        scores = torch.empty(len(order), device=order.device)
        cuda = order.device.type == "cuda"
        start = 0
        autocast = torch.autocast(order.device.type, torch.bfloat16, enabled=cuda)
        with autocast, model.bert.uncompiled():
            while start < len(order):
                width = -(-int(lengths[order[start]]) // 8) * 8
                part = order[start : start + TOKENS // width]
                scores[part] = model(*self.texts.rows(anchors[part], passages[part], width)).float()
                start += len(part)
        return scores.view_as(self.first)
