"""Compare the two ways to attend inside the windows of a Swin: as a batch, and with the block-sparse kernel.

Both get the same patches in the order of their windows, 12,544 of them in each line, and the relative bias of a Swin.
The ratio is the CPU time of the block-sparse kernel divided by that of the batch, on one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from harness import seconds
from torch import Tensor, nn

from regard import attention, blocks
from regard.masks import Mask
from regard.models.windows import relative_index
from regard.shapes import Grid

SIDE, HEADS, WIDTH = 7, 3, 48
# The patches of a picture in each direction, and the pictures of a batch.
CASES = ((14, 64), (28, 16), (56, 4), (112, 1))
TURNS = 5


class WindowBias(nn.Module):
    """The relative bias of a Swin as a rule over all patches of a picture, for pairs of the same window."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn((2 * SIDE - 1) ** 2, HEADS))

    def of_window(self) -> Tensor:
        """Return the bias of the pairs of a window, ``(1,h,side²,side²)``."""
        return self.table[relative_index(SIDE)].permute(2, 0, 1)[None]

    def tile(self, i: Tensor, j: Tensor, grid: Grid) -> Tensor:
        """Return the bias of queries ``i`` and keys ``j``, ``(1,h,...)``."""
        return self.of_window()[:, :, i % SIDE**2, j % SIDE**2]


Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def as_batch(bias: WindowBias | None) -> Attend:
    """Return the attention of ``(b,h,n,d)`` with each window as an entry of the batch."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        cut = [x.unflatten(2, (-1, SIDE**2)).transpose(1, 2).flatten(0, 1) for x in (q, k, v)]
        out = attention(*cut, bias=None if bias is None else bias.of_window())  # (b * windows,h,side²,d)
        return out.unflatten(0, (len(q), -1)).transpose(1, 2).flatten(2, 3)

    return attend


def block_sparse(mask: Mask, bias: WindowBias | None) -> Attend:
    """Return the attention of ``(b,h,n,d)`` with a block-sparse mask, a block for each window."""
    return lambda q, k, v: attention(q, k, v, mask=mask, bias=bias)


def both_ways(run: Attend, inputs: list[Tensor], bias: WindowBias | None) -> Callable[[], object]:
    """Return a program that computes the output and all gradients."""
    leaves = [*inputs, *([] if bias is None else bias.parameters())]

    def program() -> object:
        out = run(*inputs)
        return torch.autograd.grad(out, leaves, torch.ones_like(out))

    return program


def ratios(side: int, pictures: int, bias: WindowBias | None) -> list[str]:
    """Return the ratio of a forward pass and that of forward and backward, with the times of the batch, as text."""
    q, k, v = (
        torch.randn(pictures, HEADS, side * side, WIDTH // HEADS, requires_grad=True) for _ in range(3)
    )
    mask = blocks(torch.eye((side // SIDE) ** 2).bool(), SIDE**2)
    batch, sparse = as_batch(bias), block_sparse(mask, bias)
    with torch.no_grad():
        torch.testing.assert_close(sparse(q, k, v), batch(q, k, v), atol=1e-4, rtol=1e-4)
        forward = seconds(
            lambda: batch(q, k, v), lambda: sparse(q, k, v), turns=TURNS, clock=time.process_time
        )
    trained = seconds(
        *(both_ways(run, [q, k, v], bias) for run in (batch, sparse)), turns=TURNS, clock=time.process_time
    )
    return [f"{two / one:5.2f} ({1e3 * one:.1f} ms)" for one, two in (forward, trained)]


def main() -> None:
    """Print a line for each number of patches, with the relative bias and without."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print(f"windows of {SIDE}×{SIDE}, {HEADS} heads of width {WIDTH // HEADS}")
    print("ratio above 1: the batch is faster (in brackets: its time)")
    print(f"{'patches':>9}  {'pictures':>8}  {'bias':>8}  {'forward':>18}  {'forward + backward':>20}")
    for name, bias in (("relative", WindowBias()), ("none", None)):
        for side, pictures in CASES:
            forward, trained = ratios(side, pictures, bias)
            print(f"{f'{side}×{side}':>9}  {pictures:8}  {name:>8}  {forward:>18}  {trained:>20}", flush=True)


if __name__ == "__main__":
    main()
