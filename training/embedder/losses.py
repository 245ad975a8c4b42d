"""What the student learns from: the teacher's vectors, their similarities, and which texts belong
together."""

import torch
import torch.nn.functional as F
from torch import Tensor

KINDS_WEIGHTS = (1.0, 1.0, 1.0, 0.7, 0.7, 0.3)
"""Of each kind of anchor (passages.py) in the contrastive loss."""


def cosine_loss(student: Tensor, target: Tensor) -> Tensor:
    """1 - cosine; rows of both have length 1."""
    return 1 - (student * target).sum(-1).mean()


def similarity_loss(student: Tensor, teacher: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """How far the student's similarities of each row are from the teacher's, as distributions
    (KL); `mask` is true where a pair does not count."""
    given, wanted = student * scale, teacher * scale
    if mask is not None:
        given, wanted = given.masked_fill(mask, -1e4), wanted.masked_fill(mask, -1e4)
    return F.kl_div(
        F.log_softmax(given, -1), F.log_softmax(wanted, -1), reduction="batchmean", log_target=True
    )


def contrastive_loss(
    student: Tensor, teacher: Tensor, pairs: Tensor, scale: float, weights: Tensor
) -> Tensor:
    """InfoNCE of anchors and passages, both ways. A passage that the teacher holds for nearer to an
    anchor than its own counts as no wrong one (Solatorio, 2024, GISTEmbed)."""
    own = teacher.diagonal()
    same = (pairs[:, 1][:, None] == pairs[:, 1]) | (pairs[:, 0][:, None] == pairs[:, 0])
    same.fill_diagonal_(False)
    at = torch.arange(len(pairs), device=student.device)
    kinds = weights[pairs[:, 2]]
    total = student.new_zeros(())
    for logits, judged in ((student, teacher), (student.T, teacher.T)):
        masked = (logits * scale).masked_fill(same | (judged > own[:, None]), -1e4)
        losses = F.cross_entropy(masked, at, reduction="none")
        total = total + (losses * kinds).sum() / kinds.sum()
    return total / 2


def pair_losses(
    vectors: tuple[Tensor, Tensor],
    taught: tuple[Tensor, Tensor],
    projection: Tensor,
    pairs: Tensor,
    scale: float,
    weights: Tensor,
) -> dict[str, Tensor]:
    """All losses of a batch. `taught` are the teacher's vectors of anchors and passages."""
    anchors, passages = vectors
    targets = [F.normalize(side @ projection, dim=-1) for side in taught]
    across, across_taught = anchors @ passages.T, taught[0] @ taught[1].T
    within, within_taught = passages @ passages.T, taught[1] @ taught[1].T
    itself = torch.eye(len(pairs), dtype=torch.bool, device=anchors.device)
    return {
        "cosine": (cosine_loss(anchors, targets[0]) + cosine_loss(passages, targets[1])) / 2,
        "similarity": (
            similarity_loss(across, across_taught, None, scale)
            + similarity_loss(across.T, across_taught.T, None, scale)
            + similarity_loss(within, within_taught, itself, scale)
        )
        / 3,
        "contrast": contrastive_loss(across, across_taught, pairs, scale, weights),
    }
