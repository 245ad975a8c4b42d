"""Batches for the embedder's training, gathered where the model is: no loader, no workers."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

RUN = 16
"""Consecutive pairs that stay together in a batch: mostly of one page."""
PASSAGE_LENGTHS = (64, 128, 256, 512)
ANCHOR_LENGTHS = (24, 48)
LONG_BATCH_SHARE = 4
"""Batches of the longest passages have this many times fewer pairs."""


@dataclass(frozen=True)
class Texts:
    """Token ids of many texts, one after the other."""

    ids: Tensor
    starts: Tensor
    lengths: Tensor

    @staticmethod
    def read(folder: Path, name: str, device: str) -> "Texts":
        """The texts `<split>-<role>-<side>` of a folder that `pairs` wrote."""
        lengths = torch.from_numpy(np.load(folder / f"{name}-lengths.npy")).long()
        # Ids are below 32,768, and int16 is what can be gathered.
        ids = torch.from_numpy(np.load(folder / f"{name}-ids.npy").astype(np.int16))
        starts = lengths.cumsum(0) - lengths
        return Texts(ids.to(device), starts.to(device), lengths.to(device))

    def take(self, places: Tensor, length: int) -> Tensor:
        """[N, length] ids, padded with 0. Longer texts lose their end but for the last token."""
        columns = torch.arange(length, device=self.ids.device)
        lengths = self.lengths[places].clamp(max=length)[:, None]
        at = self.starts[places][:, None] + torch.minimum(columns, lengths - 1)
        ids = self.ids[at].long()
        last = self.ids[self.starts[places] + self.lengths[places] - 1].long()
        ids = torch.where(columns == lengths - 1, last[:, None], ids)
        return ids * (columns < lengths)


@dataclass(frozen=True)
class Batch:
    """Pairs of one shape."""

    pairs: Tensor
    anchor_length: int
    passage_length: int


class Batches:
    """All pairs of a split in batches of `size`, anew in each epoch."""

    def __init__(self, pairs: np.ndarray, anchors: Texts, passages: Texts, size: int) -> None:
        self.size = size
        self.pairs = torch.from_numpy(pairs).long().to(anchors.ids.device)
        anchor_lengths = anchors.lengths[self.pairs[:, 0]].cpu().numpy()
        passage_lengths = passages.lengths[self.pairs[:, 1]].cpu().numpy()
        self.buckets = []
        previous = 0
        for longest in PASSAGE_LENGTHS:
            fits = (passage_lengths > previous) & (passage_lengths <= longest)
            previous = longest
            if longest == PASSAGE_LENGTHS[-1]:
                self.add_bucket(np.flatnonzero(fits), ANCHOR_LENGTHS[-1], longest)
                continue
            short = anchor_lengths <= ANCHOR_LENGTHS[0]
            self.add_bucket(np.flatnonzero(fits & short), ANCHOR_LENGTHS[0], longest)
            self.add_bucket(np.flatnonzero(fits & ~short), ANCHOR_LENGTHS[1], longest)

    def add_bucket(self, places: np.ndarray, anchor_length: int, passage_length: int) -> None:
        """Pairs of one shape, in the order of their documents."""
        long = passage_length == PASSAGE_LENGTHS[-1]
        size = self.size // LONG_BATCH_SHARE if long else self.size
        if len(places) >= size + RUN:
            self.buckets.append((places, anchor_length, passage_length, size))

    def describe(self) -> str:
        """Pairs of each shape."""
        shapes = (f"{a}x{p}: {len(places):,}" for places, a, p, _ in self.buckets)
        return ", ".join(shapes)

    def epoch(self, rng: np.random.Generator) -> Iterator[Batch]:
        """Every pair about once, in a new order."""
        plan = []
        for place, (places, *_, size) in enumerate(self.buckets):
            first = rng.integers(RUN)
            runs = np.arange(first, len(places) - RUN + 1, RUN)
            rng.shuffle(runs)
            per_batch = size // RUN
            for start in range(0, len(runs) - per_batch + 1, per_batch):
                plan.append((place, runs[start : start + per_batch]))
        for at in rng.permutation(len(plan)):
            place, runs = plan[at]
            places, anchor_length, passage_length, _ = self.buckets[place]
            rows = places[(runs[:, None] + np.arange(RUN)).reshape(-1)]
            chosen = torch.from_numpy(rows).to(self.pairs.device, non_blocking=True)
            yield Batch(self.pairs[chosen], anchor_length, passage_length)
