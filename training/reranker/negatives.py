"""Passages that are easily taken for the right one: those that a search finds beside it.

For each anchor they are drawn of the passages nearest by the embedder's cosine, of those that words
find (BM25), and of the right one's neighbours in its document. All are of the anchor's own cut, in
which passages do not overlap. Left out are near copies of the right passage, and passages that the
embedder holds for much nearer to the anchor: those answer it as well, mostly (Solatorio, 2024,
GISTEmbed). Much, because what the embedder gets wrong by little is what a reranker is for.

T texts · V vocabulary · B anchors of a part · P passages of a cut
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from training.embedder.batches import Texts
from training.embedder.losses import KINDS_WEIGHTS
from training.embedder.vocabulary import SPECIAL

SPECIAL_TOKENS = len(SPECIAL)
"""The first ids of the vocabulary, which mean nothing."""
K1, B = 1.2, 0.75
NEIGHBOURS = (-2, -1, 1, 2)
PART = {"cuda": 2048, "cpu": 128}
"""Anchors whose scores of all passages are held at once."""


@dataclass(frozen=True)
class Mining:
    """What is drawn from, and what is left out."""

    dense_ranks: int = 40
    word_ranks: int = 30
    kept: int = 24
    """Negatives of each anchor, from which every list of training draws."""
    margin: float = 0.1
    """A negative's cosine is at most so much above that of the right passage."""
    copy_cosine: float = 0.92
    """Passages nearer than this to the right one are copies of it."""
    rank_max: int = 300
    """Anchors whose passage neither cosine nor words rank so high say too little of it."""


@dataclass(frozen=True)
class Mined:
    """Anchors to learn from: rows of pairs [N, 4] and places of passages [N, kept]."""

    pairs: Tensor
    negatives: Tensor
    report: dict[str, float]


class WordIndex:
    """BM25 over tokens, by one product of matrices."""

    def __init__(self, texts: Texts, places: Tensor, vocabulary: int) -> None:
        device = texts.ids.device
        kind = torch.float16 if device.type == "cuda" else torch.float32
        self.weights = torch.empty(len(places), vocabulary, dtype=kind, device=device)
        lengths = texts.lengths[places].float()
        norms = K1 * (1 - B + B * lengths / lengths.mean())
        having = torch.zeros(vocabulary, device=device)
        for part in torch.arange(len(places), device=device).split(4096):
            counts = counts_of(texts, places[part], vocabulary)
            having += (counts > 0).sum(0)
            self.weights[part] = (counts * (K1 + 1) / (counts + norms[part, None])).to(kind)
        self.rarity = torch.log1p((len(places) - having + 0.5) / (having + 0.5))

    def scores(self, texts: Texts, places: Tensor) -> Tensor:
        """[B, P] of anchors."""
        asked = (counts_of(texts, places, len(self.rarity)) > 0) * self.rarity
        return asked.to(self.weights.dtype) @ self.weights.T


def counts_of(texts: Texts, places: Tensor, vocabulary: int) -> Tensor:
    """[T, V] how often each text has each token, special ones left out."""
    ids = texts.take(places, int(texts.lengths[places].max()))
    counts = torch.zeros(len(places), vocabulary, device=ids.device)
    counts.scatter_add_(1, ids, torch.ones_like(ids, dtype=counts.dtype))
    counts[:, :SPECIAL_TOKENS] = 0
    return counts


class Cut:
    """The pairs of one cut, and all of its passages, among which is searched."""

    def __init__(
        self, pairs: Tensor, vectors: dict[str, Tensor], texts: dict[str, Texts], vocabulary: int
    ) -> None:
        self.pairs, self.texts = pairs, texts
        self.pool, self.own = torch.unique(pairs[:, 1], return_inverse=True)
        self.asked = vectors["anchor"]
        self.held = vectors["passage"][self.pool]
        self.words = WordIndex(texts["passage"], self.pool, vocabulary)

    def negatives(self, rows: Tensor, mining: Mining) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Which of some rows are worth learning from [B], places of passages [B, kept], and what
        there was to see."""
        own = self.own[rows][:, None]
        anchors = self.pairs[rows, 0]
        near = self.asked[anchors] @ self.held.T
        by_words = self.words.scores(self.texts["anchor"], anchors)
        own_near = near.gather(1, own)
        ranks = (near > own_near).sum(1), (by_words > by_words.gather(1, own)).sum(1)
        found = self.found(near, by_words, own, mining)

        wrong = found == own
        wrong[:, 1:] |= found[:, 1:] == found[:, :-1]
        cosines = near.gather(1, found)
        wrong |= cosines > own_near + mining.margin
        alike = torch.einsum("bkc,bc->bk", self.held[found], self.held[own[:, 0]])
        wrong |= alike > mining.copy_cosine
        keys = torch.rand(found.shape, device=found.device).masked_fill(wrong, -1)
        drawn = keys.topk(mining.kept)
        # Where too few are left, any other passages.
        shift = 1 + torch.randint(len(self.pool) - 1, drawn.indices.shape, device=own.device)
        places = torch.where(
            drawn.values >= 0, found.gather(1, drawn.indices), (own + shift) % len(self.pool)
        )
        seen = {
            "found_first": (ranks[0] == 0).float(),
            "found_30": (ranks[0] < 30).float(),
            "candidates": (~wrong).sum(1).float(),
            "nearer_than_own": ((cosines > own_near) & ~wrong).sum(1).float(),
        }
        return torch.minimum(*ranks) < mining.rank_max, self.pool[places], seen

    def found(self, near: Tensor, by_words: Tensor, own: Tensor, mining: Mining) -> Tensor:
        """[B, K] places in the pool, in their order, some of them twice."""
        most = len(self.pool)
        beside = own + torch.tensor(NEIGHBOURS, device=own.device)
        lists = (
            near.topk(min(mining.dense_ranks, most)).indices,
            by_words.topk(min(mining.word_ranks, most)).indices,
            beside.clamp(0, most - 1),
        )
        return torch.cat(lists, 1).sort(1).values


def mine(
    pairs: Tensor,
    vectors: dict[str, Tensor],
    texts: dict[str, Texts],
    vocabulary: int,
    mining: Mining = Mining(),
) -> Mined:
    """Anchors of all cuts with their negatives, fewer of the kinds that weigh less."""
    device = pairs.device
    weights = torch.tensor(KINDS_WEIGHTS, device=device)
    kept, places, seen = [], [], []
    for cut in range(int(pairs[:, 3].max()) + 1):
        within = Cut(pairs[pairs[:, 3] == cut], vectors, texts, vocabulary)
        chances = weights[within.pairs[:, 2]]
        rows = torch.nonzero(torch.rand(len(chances), device=device) < chances).squeeze(1)
        for part in rows.split(PART[device.type]):
            good, negatives, facts = within.negatives(part, mining)
            kept.append(within.pairs[part[good]])
            places.append(negatives[good])
            seen.append(torch.stack(list({"kept": good.float(), **facts}.values()), 1))
    names = ("kept", *facts)
    means = dict(zip(names, torch.cat(seen).mean(0).tolist()))
    return Mined(torch.cat(kept), torch.cat(places), {"anchors": len(torch.cat(seen)), **means})
