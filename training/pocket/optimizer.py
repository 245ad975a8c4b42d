"""AdamW for embeddings and norms, Muon (Jordan et al., 2024) for the matrices of the layers.

Muon makes each momentum matrix nearly orthogonal by five Newton-Schulz steps. Matrices of one shape
are stacked, so that a step costs four short sequences of batched products.
"""

from collections import defaultdict

import torch
from torch import Tensor, nn

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalise(stack: Tensor, steps: int = 5) -> Tensor:
    """Newton-Schulz iteration on [N, rows, columns]; singular values end near 1."""
    a, b, c = COEFFICIENTS
    x = stack.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Muon with decoupled weight decay; updates have the RMS of AdamW's (factor 0.2 sqrt(max dim))."""

    def __init__(
        self,
        parameters: list[nn.Parameter],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.1,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
            for parameter in group["params"]:
                by_shape[parameter.shape].append(parameter)
            for shape, parameters in by_shape.items():
                self._step_shape(group, shape, parameters)

    def _step_shape(self, group: dict, shape: torch.Size, parameters: list[nn.Parameter]) -> None:
        gradients = torch.stack([p.grad for p in parameters])
        state = self.state[parameters[0]]
        momentum = state.setdefault("momentum", torch.zeros_like(gradients))
        momentum.lerp_(gradients, 1 - group["momentum"])
        update = orthogonalise(gradients.lerp(momentum, group["momentum"]))
        scale = group["lr"] * 0.2 * max(shape) ** 0.5
        torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(parameters, list(update.to(gradients.dtype).unbind()), alpha=-scale)


def make_optimizers(
    model: nn.Module, kind: str, lr: float, matrix_lr: float
) -> list[torch.optim.Optimizer]:
    """The optimizers of a run; `kind` is "adamw" or "muon"."""
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    embeddings = [p for n, p in model.named_parameters() if "embed" in n]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    adam_matrices = matrices if kind == "adamw" else []
    adamw = torch.optim.AdamW(
        [
            {"params": adam_matrices + embeddings, "weight_decay": 0.1},
            {"params": vectors, "weight_decay": 0.0},
        ],
        lr=lr,
        betas=(0.9, 0.95),
        fused=True,
    )
    return [adamw] if kind == "adamw" else [adamw, Muon(matrices, lr=matrix_lr)]
