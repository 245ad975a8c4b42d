"""Lists of training: a right passage and wrong ones with the text that asks for it.

All pairs of a step are sorted by their length and cut into slices of fixed sizes, each as wide as
pairs of those ranks are, mostly: little is padded, and layers are compiled for as many shapes as
there are slices.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from training.embedder.batches import Texts

SHARES = (3, 3, 2, 2, 1, 1)
"""Of a step's pairs, the shortest first. Attention wants few long ones at once."""
SPARE = 0.04
"""A slice is as wide as pairs that rank so much higher: lists of a step are of similar lengths."""
SAMPLE_STEPS = 64
WIDTH_STEP = 8


@dataclass(frozen=True)
class PairTexts:
    """Texts of both roles, which make rows `[CLS] anchor [SEP] passage [SEP]`."""

    anchors: Texts
    passages: Texts

    def lengths(self, anchors: Tensor, passages: Tensor) -> Tensor:
        """[N] tokens of the pairs at these places."""
        return self.anchors.lengths[anchors] + self.passages.lengths[passages] - 1

    def rows(self, anchors: Tensor, passages: Tensor, width: int) -> tuple[Tensor, Tensor]:
        """Ids and types [N, width]. Passages that are too long lose their end, but not [SEP]."""
        first, second = self.anchors, self.passages
        columns = torch.arange(width, device=first.ids.device)
        ahead = first.lengths[anchors][:, None]
        # A passage without its [CLS].
        behind = (second.lengths[passages][:, None] - 1).minimum(width - ahead).clamp(min=1)
        inside = (columns - ahead).clamp(min=0).minimum(behind - 1)
        last = columns == ahead + behind - 1
        inside = torch.where(last, second.lengths[passages][:, None] - 2, inside)
        asked = first.ids[first.starts[anchors][:, None] + columns.minimum(ahead - 1)]
        held = second.ids[second.starts[passages][:, None] + 1 + inside]
        ids = torch.where(columns < ahead, asked, held).long()
        real = columns < ahead + behind
        return ids * real, ((columns >= ahead) & real).float()


@dataclass(frozen=True)
class Lists:
    """A step's pairs [lists * width], list by list, the right passage first in each."""

    anchors: Tensor
    passages: Tensor


class Sampler:
    """All anchors once in an epoch, with other negatives each time."""

    def __init__(self, pairs: Tensor, negatives: Tensor, lists: int, wrong: int) -> None:
        self.pairs, self.negatives = pairs, negatives
        self.lists, self.wrong = lists, wrong

    def endless(self) -> Iterator[Lists]:
        """Step by step."""
        device = self.pairs.device
        assert len(self.pairs) >= self.lists, f"{len(self.pairs)} anchors are too few for a step"
        while True:
            order = torch.randperm(len(self.pairs), device=device)
            for rows in order.split(self.lists):
                if len(rows) == self.lists:
                    yield self.take(rows)

    def take(self, rows: Tensor) -> Lists:
        """The lists of some anchors."""
        known = self.negatives[rows]
        drawn = torch.rand(known.shape, device=known.device).topk(self.wrong).indices
        passages = torch.cat([self.pairs[rows, 1:2], known.gather(1, drawn)], 1)
        anchors = self.pairs[rows, 0:1].expand_as(passages)
        return Lists(anchors.reshape(-1), passages.reshape(-1))


class Slices:
    """Shapes of a step."""

    def __init__(self, texts: PairTexts, sampler: Sampler, tokens_max: int) -> None:
        self.texts = texts
        pairs = sampler.lists * (sampler.wrong + 1)
        assert pairs % sum(SHARES) == 0, f"pairs of a step must be a multiple of {sum(SHARES)}"
        self.counts = [pairs * share // sum(SHARES) for share in SHARES]
        steps = sampler.endless()
        sample = [next(steps) for _ in range(SAMPLE_STEPS)]
        lengths = torch.cat([texts.lengths(step.anchors, step.passages) for step in sample])
        lengths = lengths.sort().values
        self.mean = lengths.clamp(max=tokens_max).float().mean().item()
        self.widths = []
        for place in range(len(SHARES)):
            share = sum(SHARES[: place + 1]) / sum(SHARES) + SPARE
            length = int(lengths[min(len(lengths) - 1, int(share * len(lengths)))])
            self.widths.append(min(tokens_max, -(-length // WIDTH_STEP) * WIDTH_STEP))

    def describe(self) -> str:
        """Shapes, and how much of them is no padding."""
        shapes = [f"{count}x{width}" for count, width in zip(self.counts, self.widths)]
        tokens = sum(count * width for count, width in zip(self.counts, self.widths))
        return f"{', '.join(shapes)}; {self.mean * sum(self.counts) / tokens:.2f} of it tokens"

    def of(self, lists: Lists) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Places of pairs within the step, and their rows."""
        order = self.texts.lengths(lists.anchors, lists.passages).argsort()
        for places, width in zip(order.split(self.counts), self.widths):
            yield places, *self.texts.rows(lists.anchors[places], lists.passages[places], width)
