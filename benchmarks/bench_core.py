"""Measure attention() and its maps against the plain torch code that a user would write.

python benchmarks/bench_core.py              everything, some minutes because of torch.compile
python benchmarks/bench_core.py additive     one part: additive, products, maps, block-sparse, imports
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F
from harness import Line, at_least, at_most, peak_bytes, seconds, show
from torch import Tensor

import regard
from regard import attention, blocks, global_tokens, scores, window
from regard.kernels import additive, native
from regard.kernels.block_sparse import compiled
from regard.shapes import Grid

HEADS, WIDTH = 8, 64
Triple = tuple[Tensor, Tensor, Tensor]


def _qkv(n: int, *, grad: bool = False) -> Triple:
    q, k, v = (torch.randn(1, HEADS, n, WIDTH, requires_grad=grad) for _ in range(3))
    return q, k, v


def _both_ways(run: Callable[..., Tensor], inputs: list[Tensor]) -> Callable[[], object]:
    def program() -> object:
        out = run(*inputs)
        return torch.autograd.grad(out, inputs, torch.ones_like(out))

    return program


# ---- the additive score


def bench_additive() -> list[Line]:
    b, n, m = 8, 128, 256
    x, y, v = torch.randn(b, n, m), torch.randn(b, n, m), torch.randn(m) / 16
    values = torch.randn(b, n, m)

    def broadcast(x: Tensor, y: Tensor, v: Tensor, values: Tensor) -> Tensor:
        hidden = torch.tanh(x[:, :, None] + y[:, None])  # (b,q,k,m), as it is usually written
        return torch.softmax(hidden @ v, dim=-1) @ values

    def ours(x: Tensor, y: Tensor, v: Tensor, values: Tensor) -> Tensor:
        return attention(x, y, values, score=scores.Tanh(v))

    inputs = [x, y, v, values]
    with torch.no_grad():
        theirs, mine = seconds(lambda: broadcast(*inputs), lambda: ours(*inputs), turns=9)
        memory = peak_bytes(lambda: broadcast(*inputs)), peak_bytes(lambda: ours(*inputs))
    lines = [at_least("additive forward", "broadcast, eager", theirs / mine, 25, f"({1e3 * mine:.1f} ms)")]
    if memory[0] and memory[1]:
        lines.append(
            at_least(
                "its peak memory",
                "broadcast, eager",
                memory[0] / memory[1],
                20,
                f"less ({memory[1] >> 10} KiB)",
            )
        )
    leaves = [t.clone().requires_grad_() for t in inputs]
    compiled = torch.compile(broadcast)
    eager, inductor, mine = seconds(
        _both_ways(broadcast, leaves), _both_ways(compiled, leaves), _both_ways(ours, leaves), turns=7
    )
    lines.append(
        at_least(
            "additive forward + backward", "broadcast, eager", eager / mine, 12, f"({1e3 * mine:.1f} ms)"
        )
    )
    lines.append(at_least("additive forward + backward", "broadcast, torch.compile", inductor / mine, 8))
    return lines + _without_compiler(lambda: broadcast(*inputs), lambda: ours(*inputs))


def _without_compiler(theirs: Callable[[], object], ours: Callable[[], object]) -> list[Line]:
    real = native.library
    additive.library = lambda: native.Library(None, "switched off by the benchmark")
    try:
        with torch.no_grad():
            slow, fast = seconds(theirs, ours, turns=9)
            memory = peak_bytes(theirs), peak_bytes(ours)
    finally:
        additive.library = real
    lines = [
        at_least(
            "additive forward, no compiler", "broadcast, eager", slow / fast, 6, f"({1e3 * fast:.1f} ms)"
        )
    ]
    if memory[0] and memory[1]:
        lines.append(
            at_least("its peak memory, no compiler", "broadcast, eager", memory[0] / memory[1], 20, "less")
        )
    return lines


# ---- products


def bench_products() -> list[Line]:
    lines = []
    with torch.no_grad():
        for n, turns in ((16, 3000), (512, 60), (1024, 20), (2048, 12)):
            q, k, v = _qkv(n)
            theirs, ours = seconds(
                lambda q=q, k=k, v=v: F.scaled_dot_product_attention(q, k, v),
                lambda q=q, k=k, v=v: attention(q, k, v),
                turns=turns,
            )
            name = f"scaled dot, n = {n}"
            if n == 16:
                extra = 1e6 * (ours - theirs)
                lines.append(Line(name, "SDPA", "<= 30 us more", f"{extra:.1f} us more", extra <= 30))
            else:
                lines.append(at_most(name, "SDPA", ours / theirs, 1.05, f"({1e3 * ours:.1f} ms)"))
        q, k, v = _qkv(2048)
        theirs, ours = seconds(
            lambda: F.scaled_dot_product_attention(q, k, v),
            lambda: attention(q, k, v, return_map=True),
            turns=12,
        )
        lines.append(at_most("with return_map, n = 2048", "SDPA", ours / theirs, 1.15))
    return lines


# ---- maps


def bench_maps() -> list[Line]:
    q, k, v = _qkv(4096)

    def materialised() -> object:
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(WIDTH), dim=-1)
        return weights @ v, weights.topk(8)

    def ours() -> object:
        out, seen = attention(q, k, v, return_map=True)
        return out, seen.topk(8)

    with torch.no_grad():
        slow, fast = seconds(materialised, ours, turns=3)
        lines = [
            at_least(
                "output and top-8, n = 4096", "weights, then topk", slow / fast, 1, f"({1e3 * fast:.0f} ms)"
            )
        ]
        memory = peak_bytes(materialised), peak_bytes(ours)
    if memory[0] and memory[1]:
        lines.append(
            at_least(
                "its peak memory",
                "weights, then topk",
                memory[0] / memory[1],
                10,
                f"less ({memory[1] >> 20} MiB)",
            )
        )
    return lines


# ---- block-sparse masks


def bench_block_sparse() -> list[Line]:
    n = 4096
    sparse = torch.zeros(n // 64, n // 64, dtype=torch.bool)
    sparse.view(-1)[
        torch.randperm(sparse.numel(), generator=torch.Generator().manual_seed(0))[: sparse.numel() // 10]
    ] = True
    patterns = {
        "window(128, 0)": (window(128, 0), 8.0),
        "window + 16 global tokens": (window(128, 0) | global_tokens(16), 5.0),
        "window + 16 scattered ones": (window(128, 0) | global_tokens(range(50, n, 256)), 5.0),
        "blocks of 64 at 10 %": (blocks(sparse, 64), 5.0),
    }
    lines = []
    for name, (mask, wanted) in patterns.items():
        keep = mask.dense(Grid(1, HEADS, n, n))[0, 0]
        for way in ("forward", "forward + backward"):
            q, k, v = _qkv(n, grad=way != "forward")

            def theirs(q: Tensor, k: Tensor, v: Tensor, keep: Tensor = keep) -> Tensor:
                return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)

            def ours(q: Tensor, k: Tensor, v: Tensor, mask: regard.Mask = mask) -> Tensor:
                return attention(q, k, v, mask=mask)

            if way == "forward":
                with torch.no_grad():
                    slow, fast = seconds(lambda: theirs(q, k, v), lambda: ours(q, k, v), turns=5)  # noqa: B023
            else:
                slow, fast = seconds(_both_ways(theirs, [q, k, v]), _both_ways(ours, [q, k, v]), turns=4)
            lines.append(
                at_least(
                    f"{name}, {way}", "SDPA with the mask", slow / fast, wanted, f"({1e3 * fast:.0f} ms)"
                )
            )
    return lines + _growth() + _block_sparse_without_compiler()


def _growth() -> list[Line]:
    lines, mask = [], window(128, 0)
    for way in ("forward", "forward + backward"):
        small, large = (list(_qkv(n, grad=way != "forward")) for n in (4096, 8192))

        def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return attention(q, k, v, mask=mask)

        if way == "forward":
            with torch.no_grad():
                one, two = seconds(lambda: run(*small), lambda: run(*large), turns=15)  # noqa: B023
        else:
            one, two = seconds(_both_ways(run, small), _both_ways(run, large), turns=9)
        lines.append(at_most(f"window, n = 8192, {way}", "n = 4096", two / one, 2.3))
    return lines


def _block_sparse_without_compiler() -> list[Line]:
    q, k, v = _qkv(4096)
    mask = window(128, 0)
    keep = mask.dense(Grid(1, HEADS, 4096, 4096))[0, 0]
    compiled.library = lambda: native.Library(None, "switched off by the benchmark")
    try:
        with torch.no_grad():
            slow, fast = seconds(
                lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=keep),
                lambda: attention(q, k, v, mask=mask),
                turns=5,
            )
    finally:
        compiled.library = native.library
    return [
        at_least(
            "window(128, 0), no compiler", "SDPA with the mask", slow / fast, 6, f"({1e3 * fast:.0f} ms)"
        )
    ]


# ---- imports


def bench_imports() -> list[Line]:
    lines = []
    for name, program in {
        "import regard": "import regard",
        "regard --help": "from regard.cli import main; main(['--help'])",
    }.items():
        empty, ours = seconds(
            lambda: subprocess.run([sys.executable, "-c", "pass"], check=True),
            lambda program=program: subprocess.run(
                [sys.executable, "-c", program], check=True, capture_output=True
            ),
            turns=5,
        )
        lines.append(
            Line(name, "an empty program", "<= 0.3 s more", f"{ours - empty:.2f} s more", ours - empty <= 0.3)
        )
    return lines


PARTS = {
    "additive": ("The additive score: b = 8, q = k = 128, m = 256", bench_additive),
    "products": ("Products: 8 heads of 64", bench_products),
    "maps": ("Maps: 8 heads of 64", bench_maps),
    "block-sparse": ("Block-sparse attention: 8 heads of 64, n = 4096", bench_block_sparse),
    "imports": ("Starting up", bench_imports),
}


def main(chosen: list[str]) -> None:
    torch.manual_seed(0)
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads; ratios of the fastest turns, taken by turns"
    )
    for name in chosen or PARTS:
        title, part = PARTS[name]
        show(title, part())


if __name__ == "__main__":
    main(sys.argv[1:])
