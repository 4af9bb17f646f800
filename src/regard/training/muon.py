"""The Muon optimizer (Jordan et al. 2024), which makes the update of a matrix nearly orthogonal.

The momentum of a matrix is replaced by the nearest orthogonal matrix, so that all of its directions are learnt equally
fast. The update is scaled to the size of one of AdamW (Liu et al. 2025, "Muon is scalable for LLM training"), so both
have one learning rate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from regard.training.precision import uses_bfloat16

__all__ = ["Muon", "orthogonalised"]

# The coefficients of a polynomial that moves all singular values towards 1, and how often it is applied.
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_TIMES = 5
# The root mean square of an update of AdamW is about this number.
_SIZE = 0.2


class Muon(torch.optim.Optimizer):
    """Muon for ``matrices`` and AdamW for the parameters in ``other_groups``.

    ``betas`` are those of AdamW, and ``momentum`` is that of Muon. All groups have the learning rate ``lr``.

    >>> layer, bias = nn.Linear(3, 5), nn.Parameter(torch.zeros(2))
    >>> optimizer = Muon([layer.weight], [{"params": [bias]}], lr=0.1)
    >>> len(optimizer.param_groups)
    2
    """

    def __init__(
        self,
        matrices: Iterable[nn.Parameter],
        other_groups: list[dict[str, Any]],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.98),
        momentum: float = 0.95,
        weight_decay: float = 0.0,
    ):
        super().__init__(list(matrices), {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.matrices = self.param_groups[0]
        self.adamw = torch.optim.AdamW(other_groups, lr=lr, betas=betas, fused=True) if other_groups else None
        if self.adamw is not None:
            # The state and the groups of both are in one place, where the loop sets rates and saves.
            self.adamw.state = self.state
            self.param_groups += self.adamw.param_groups

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Update all parameters from their gradients. A ``closure`` is not called."""
        by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
        for p in self.matrices["params"]:
            if p.grad is not None:
                by_shape[p.shape].append(p)
        for shape, group in by_shape.items():
            self._update(shape, group)
        if self.adamw is not None:
            self.adamw.step()

    def _update(self, shape: torch.Size, group: list[Tensor]) -> None:
        """Update matrices of one shape together."""
        lr, momentum, decay = (self.matrices[name] for name in ("lr", "momentum", "weight_decay"))
        gradients: list[Tensor] = [p.grad for p in group if p.grad is not None]
        for p in group:
            if not self.state[p]:
                self.state[p]["momentum"] = torch.zeros_like(p)
        held = [self.state[p]["momentum"] for p in group]
        for average, gradient in zip(held, gradients, strict=True):
            average.lerp_(gradient, 1 - momentum)
        # Nesterov momentum.
        looked_ahead = [g.lerp(average, momentum) for g, average in zip(gradients, held, strict=True)]
        updates = orthogonalised(torch.stack(looked_ahead))  # (group,r,c)
        size = _SIZE * max(shape) ** 0.5
        for p, update in zip(group, updates.unbind(), strict=True):
            p.mul_(1 - lr * decay).add_(update, alpha=-lr * size)


def orthogonalised(matrices: Tensor) -> Tensor:
    """Return nearly orthogonal matrices with the singular vectors of ``matrices (n,r,c)``.

    The singular values of the result are between about 0.7 and 1.2. A matrix of zeros stays zero.

    >>> _ = torch.manual_seed(0)
    >>> values = torch.linalg.svdvals(orthogonalised(torch.randn(3, 4, 6)).float())
    >>> bool((values > 0.6).all() and (values < 1.3).all())
    True
    """
    a, b, c = _COEFFICIENTS
    dtype = torch.bfloat16 if uses_bfloat16("auto", matrices.device) else matrices.dtype
    x = matrices / matrices.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)  # (n,r,c)
    x = x.to(dtype)
    wide = x.shape[-2] > x.shape[-1]
    x = x.mT if wide else x
    for _ in range(_TIMES):
        square = x @ x.mT  # (n,r,r)
        x = a * x + (b * square + c * square @ square) @ x
    return (x.mT if wide else x).to(matrices.dtype)
