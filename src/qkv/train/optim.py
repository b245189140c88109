"""Optimizers: AdamW, and Muon for matrices.

Muon replaces the momentum of each matrix by the nearest orthogonal matrix, so that rare directions learn as fast as
common ones. Its five Newton–Schulz steps run in float32 on all matrices of one shape at once: bfloat16, as usual
elsewhere, is slow or missing on CPUs.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from .settings import Settings

# The polynomial a·x + b·x³ + c·x⁵ pushes every singular value in (0, 1] towards 1, as fast as five steps can.
A, B, C = 3.4445, -4.7750, 2.0315


def orthogonalise(matrices: Tensor) -> Tensor:
    """Return matrices (K, R, C) with the singular values of each brought close to 1.

    >>> close = orthogonalise(torch.randn(1, 4, 6, generator=torch.Generator().manual_seed(0)))
    >>> bool(((torch.linalg.svdvals(close) - 1).abs() < 0.35).all())
    True
    """
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.transpose(1, 2) if tall else matrices
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        square = x @ x.transpose(1, 2)
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=B, alpha=C), x, beta=A)
    return x.transpose(1, 2) if tall else x


class Muon(torch.optim.Optimizer):
    """Orthogonalised momentum, for the matrices of the blocks."""

    def __init__(
        self, matrices: Iterable[nn.Parameter], lr: float = 0.02, momentum: float = 0.95, weight_decay: float = 0.0
    ) -> None:
        super().__init__(list(matrices), dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Update every matrix that has a gradient."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[nn.Parameter]] = {}
            for matrix in group["params"]:
                if matrix.grad is not None:
                    shapes.setdefault(matrix.shape, []).append(matrix)
            for shape, matrices in shapes.items():
                gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
                momenta = [self.state[m].setdefault("momentum", torch.zeros_like(m)) for m in matrices]
                torch._foreach_lerp_(momenta, gradients, 1 - group["momentum"])
                nesterov = torch._foreach_lerp(gradients, momenta, group["momentum"])
                updates = _whole(orthogonalise, torch.stack(list(nesterov)))
                if group["weight_decay"]:
                    torch._foreach_mul_(list[Tensor](matrices), 1 - group["lr"] * group["weight_decay"])
                # A tall matrix can change more before its outputs change as much.
                scale = max(1.0, shape[0] / shape[1]) ** 0.5
                torch._foreach_add_(list[Tensor](matrices), list(updates.unbind()), alpha=-group["lr"] * scale)


def _whole(work: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return work(x). If x is sharded (FSDP), each process gathers x, computes, and keeps its own slice."""
    if not hasattr(x, "full_tensor"):
        return work(x)
    from torch.distributed.tensor import distribute_tensor

    # No source rank: all have computed the same, nothing needs to be sent.
    return distribute_tensor(work(x.full_tensor()), x.device_mesh, x.placements, src_data_rank=None)  # type: ignore[attr-defined]


def make_optimizers(model: nn.Module, settings: Settings) -> list[torch.optim.Optimizer]:
    """Return the optimizers of a run. Each group stores its full learning rate as `full`, for the schedule."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]

    def adamw(groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        groups = [group for group in groups if group["params"]]
        return torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-10, fused=True)

    if settings.optimizer == "adamw":
        matrices, vectors = ([p for _, p in named if (p.ndim >= 2) == is_matrix] for is_matrix in (True, False))
        decayed = dict(params=matrices, lr=settings.lr, weight_decay=settings.weight_decay)
        optimizers = [adamw([decayed, dict(params=vectors, lr=settings.lr, weight_decay=0.0)])]
    else:
        matrices = [p for name, p in named if p.ndim == 2 and _in_block(name)]
        head = [p for name, p in named if name.startswith("head")]
        rest = [p for name, p in named if not any(p is other for other in (*matrices, *head))]
        groups = [
            dict(params=rest, lr=settings.adam_lr, weight_decay=0.0),
            dict(params=head, lr=settings.adam_lr / 2, weight_decay=0.0),
        ]
        optimizers = [Muon(matrices, settings.lr, weight_decay=settings.weight_decay), adamw(groups)]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["full"] = group["lr"]
    return optimizers


def descend(optimizers: Iterable[torch.optim.Optimizer], loss: Tensor, clipped: nn.Module | None = None) -> None:
    """Take one optimizer step for a loss and clear the gradients, which are clipped to norm 1 if `clipped` is a model."""
    loss.backward()
    if clipped is not None:
        nn.utils.clip_grad_norm_(clipped.parameters(), 1.0)
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def set_rate(optimizers: list[torch.optim.Optimizer], share: float) -> None:
    """Set every group to this share of its full learning rate."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["full"] * share


def _in_block(name: str) -> bool:
    return ("encoder." in name or "decoder." in name) and "position" not in name
