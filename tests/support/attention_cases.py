"""Cases for the tests of the core, with inputs, plain torch code, the float64 oracle and every kernel."""

from __future__ import annotations

import math
import os
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import regard
from regard import reference, scores
from regard.kernels import additive, native
from regard.kernels.block_sparse import compiled, plans
from regard.shapes import Grid

SCORES = ("dot", "scaled_dot", "additive", "bilinear")
MASKS = (
    "none",
    "causal",
    "padding",
    "causal&padding",
    "window",
    "global",
    "blocks",
    "dense",
    "not",
    "offset",
    "nothing",
)
BIASES = ("none", "trained", "fixed", "wide")
LAYOUTS = ("contiguous", "heads last", "strided")
KERNELS = ("default", "additive in C", "additive in torch", "block-sparse in C", "block-sparse in torch")
FULL = os.environ.get("REGARD_FULL") == "1"


def examples(quick: int, full: int):
    """Return Hypothesis settings with ``quick`` examples for ``make test`` and ``full`` for ``make test-all``."""
    return settings(max_examples=full if FULL else quick, deadline=None, database=None, derandomize=not FULL)


@dataclass(frozen=True)
class Case:
    score: str
    mask: str
    dtype: torch.dtype
    layout: str
    # One of "none", "trained", "fixed" and "wide" (fixed, always in float32).
    bias: str
    b: int
    h: int
    g: int
    q: int
    k: int
    d: int
    e: int
    seed: int

    @property
    def grid(self) -> Grid:
        return Grid(self.b, self.h, self.q, self.k)


HEADS = [(1, 1), (2, 1), (2, 2), (4, 2), (3, 3), (6, 2)]
SMALL = [0, 1, 2, 3, 5, 7, 13, 31]
LARGE = [1, 7, 63, 64, 65, 130, 150]
WIDTHS = [1, 2, 3, 8, 11, 16]


def cases(score: str, dtypes: list[torch.dtype], lengths: list[int]) -> st.SearchStrategy[Case]:
    return st.builds(
        lambda heads, **rest: Case(score=score, h=heads[0], g=heads[1], **rest),
        heads=st.sampled_from(HEADS),
        mask=st.sampled_from(MASKS),
        dtype=st.sampled_from(dtypes),
        layout=st.sampled_from(LAYOUTS),
        bias=st.sampled_from(BIASES),
        b=st.integers(1, 3),
        q=st.sampled_from(lengths),
        k=st.sampled_from(lengths),
        d=st.sampled_from(WIDTHS),
        e=st.sampled_from(WIDTHS),
        seed=st.integers(0, 2**20),
    )


class Tensors:
    """Return the inputs of a case as leaves of the graph, where those in ``names`` get a gradient."""

    def __init__(self, case: Case):
        self.case, self.random = case, torch.Generator().manual_seed(case.seed)
        b, h, g, hidden = case.b, case.h, case.g, 5
        key_width = case.d if case.score in ("dot", "scaled_dot") else case.d + 2
        self.leaves: dict[str, Tensor] = {
            "q": self._made(b, h, case.q, case.d),
            "k": self._made(b, g, case.k, key_width),
            "v": self._made(b, g, case.k, case.e),
        }
        if case.score == "bilinear":
            self.leaves["W"] = self._made(case.d, key_width, layout=False)
        if case.score == "additive":
            self.leaves["W1"] = self._made(hidden, case.d, layout=False)
            self.leaves["W2"] = self._made(hidden, key_width, layout=False)
            self.leaves["w"] = self._made(hidden, layout=False)
        self.bias: Tensor | None = None
        if case.bias != "none":
            dtype = torch.promote_types(case.dtype, torch.float32) if case.bias == "wide" else case.dtype
            self.bias = self._random(1, h, case.q, case.k).to(dtype)
        if case.bias == "trained":
            self.leaves["bias"] = self.bias.requires_grad_()
        self.upstream = self._random(b, h, case.q, case.e).to(case.dtype)
        self.mask = self._mask()

    def _random(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.random, dtype=torch.float64)

    def _made(self, *shape: int, layout: bool = True) -> Tensor:
        kind = self.case.layout if layout else "contiguous"
        if kind == "heads last":
            b, h, n, d = shape
            made = self._random(b, n, h, d).to(self.case.dtype).transpose(1, 2)
        elif kind == "strided":
            made = self._random(*shape[:-1], 2 * shape[-1]).to(self.case.dtype)[..., ::2]
        else:
            made = self._random(*shape).to(self.case.dtype)
        return made.requires_grad_()

    def _mask(self):
        case, (b, h, q, k) = self.case, self.case.grid
        lengths = torch.randint(0, k + 1, (b,), generator=self.random)
        return {
            "none": lambda: None,
            "causal": lambda: regard.causal(),
            "padding": lambda: regard.padding(lengths),
            "causal&padding": lambda: regard.causal() & regard.padding(lengths),
            "window": lambda: regard.window(3, 1),
            "global": lambda: regard.window(2, 2) | regard.global_tokens([p for p in (0, 4) if p < k]),
            "blocks": lambda: regard.blocks(
                torch.rand(-(-q // 16), -(-k // 16), generator=self.random) < 0.5, 16
            ),
            "dense": lambda: regard.masks.as_mask(torch.rand(b, h, q, k, generator=self.random) < 0.6),
            "not": lambda: ~regard.window(1, 1),
            "offset": lambda: regard.causal(offset=torch.arange(b) - 1),
            "nothing": lambda: regard.masks.as_mask(torch.zeros(q, k, dtype=torch.bool)),
        }[case.mask]()

    def score(self):
        x = self.leaves
        if self.case.score == "bilinear":
            made = scores.Bilinear(self.case.d, self.case.d + 2)
            return _with(made, W=x["W"])
        if self.case.score == "additive":
            made = scores.Additive(self.case.d, self.case.d + 2, 5).to(self.case.dtype)
            return _with_additive(made, x)
        return self.case.score

    def keep(self) -> Tensor:
        full = tuple(self.case.grid)
        if self.mask is None:
            return torch.ones(full, dtype=torch.bool)
        return self.mask.dense(self.case.grid).expand(full)


def _with(module, **parameters: Tensor):
    for name, value in parameters.items():
        del module._parameters[name]
        setattr(module, name, value)
    return module


def _with_additive(module, x: dict[str, Tensor]):
    _with(module, v=x["w"])
    _with(module.W1, weight=x["W1"])
    _with(module.W2, weight=x["W2"])
    return module


def ours(t: Tensors) -> tuple[Tensor, dict[str, Tensor]]:
    x = t.leaves
    out = regard.attention(x["q"], x["k"], x["v"], score=t.score(), mask=t.mask, bias=t.bias)
    return _with_gradients(t, out)


def ours_with_weights(t: Tensors) -> tuple[Tensor, dict[str, Tensor]]:
    x = t.leaves
    out, _ = regard.attention_with_weights(x["q"], x["k"], x["v"], score=t.score(), mask=t.mask, bias=t.bias)
    return _with_gradients(t, out)


def plain(t: Tensors) -> tuple[Tensor, dict[str, Tensor]]:
    """Compute attention in plain torch, in the dtype of the inputs."""
    return _with_gradients(t, plain_output(t, t.leaves)[0])


def plain_output(t: Tensors, x: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    groups = t.case.h // t.case.g
    q, k, v = x["q"], x["k"].repeat_interleave(groups, dim=1), x["v"].repeat_interleave(groups, dim=1)
    s = plain_scores(t.case, q, k, x)
    if t.bias is not None:
        s = s + x.get("bias", t.bias.to(torch.promote_types(t.bias.dtype, s.dtype)))
    keep = t.keep()
    some = keep.any(-1, keepdim=True)
    w = torch.softmax(s.masked_fill(~keep & some, float("-inf")), dim=-1) * keep
    return w.to(v.dtype) @ v, w


def plain_scores(case: Case, q: Tensor, k: Tensor, x: dict[str, Tensor]) -> Tensor:
    if case.score == "additive":
        hidden = (q @ x["W1"].T)[..., :, None, :] + (k @ x["W2"].T)[..., None, :, :]
        return torch.tanh(hidden) @ x["w"]
    if case.score == "bilinear":
        return q @ x["W"] @ k.transpose(-2, -1)
    return q @ k.transpose(-2, -1) * (1 / math.sqrt(case.d) if case.score == "scaled_dot" else 1.0)


def _with_gradients(t: Tensors, out: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    leaves = t.leaves
    grads = torch.autograd.grad(
        out, list(leaves.values()), t.upstream, allow_unused=True, materialize_grads=True
    )
    return out.detach(), dict(zip(leaves, (g.detach() for g in grads), strict=True))


def oracle(t: Tensors) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The NumPy oracle in float64 on the same inputs."""
    case, groups = t.case, t.case.h // t.case.g
    x = {name: value.detach().double().numpy() for name, value in t.leaves.items()}
    q, k, v = x["q"], x["k"].repeat(groups, axis=1), x["v"].repeat(groups, axis=1)
    bias = 0.0 if t.bias is None else t.bias.detach().double().numpy()
    mask = np.where(t.keep().numpy(), bias, -np.inf)
    g = t.upstream.double().numpy()
    if case.score == "additive":
        args = (q, k, v, x["W1"], x["W2"], x["w"], None, mask)
        out, _ = reference.additive_attention(*args)
        found = reference.additive_attention_grad(g, *args)
        extra = {"W1": found.W_q, "W2": found.W_k, "w": found.v}
    elif case.score == "bilinear":
        out, _ = reference.bilinear_attention(q, k, v, x["W"], mask)
        found = reference.bilinear_attention_grad(g, q, k, v, x["W"], mask)
        extra = {"W": found.W}
    else:
        scale = None if case.score == "scaled_dot" else 1.0
        out, _ = reference.scaled_dot_product_attention(q, k, v, mask, scale=scale)
        found = reference.scaled_dot_product_attention_grad(g, q, k, v, mask, scale=scale)
        extra = {}
    grads = {"q": found.query, "k": _grouped(found.key, case), "v": _grouped(found.value, case), **extra}
    if case.bias == "trained":
        grads["bias"] = found.mask.sum(axis=0, keepdims=True) if found.mask.shape[0] != 1 else found.mask
    return out, {name: np.asarray(grads[name]) for name in t.leaves}


def _grouped(grad: np.ndarray, case: Case) -> np.ndarray:
    b, h, n, d = grad.shape
    return grad.reshape(b, case.g, h // case.g, n, d).sum(axis=2)


def magnitudes(t: Tensors) -> dict[str, float]:
    """Return the RMS of the output and of each gradient without cancellation, as the unit of errors in ulp.

    A score that is off by an ulp of its terms moves its weight by that much, and all that the weight enters.
    """
    x = {name: value.detach().double().abs().requires_grad_() for name, value in t.leaves.items()}
    signed = {name: value.detach().double() for name, value in t.leaves.items()}
    _, w = plain_output(t, signed)
    groups = t.case.h // t.case.g
    k, v = (x[name].repeat_interleave(groups, dim=1) for name in ("k", "v"))
    # The derivative of tanh is at most 1 and |tanh x| <= |x|, so the sum itself bounds it.
    if t.case.score == "additive":
        hidden = (x["q"] @ x["W1"].T)[..., :, None, :] + (k @ x["W2"].T)[..., None, :, :]
        s = hidden @ x["w"]
    else:
        s = plain_scores(t.case, x["q"], k, x)
    if t.bias is not None:
        s = s + x.get("bias", t.bias.double().abs())
    moved = s.detach()
    w = w * (1 + moved + (w * moved).sum(-1, keepdim=True))
    g = t.upstream.double().abs()
    d_weights = g @ v.transpose(-2, -1)  # (b,h,q,k)
    d_scores = w * (d_weights + (w * d_weights).sum(-1, keepdim=True))
    total = (d_scores.detach() * s).sum() + (w @ v * g).sum()
    grads = torch.autograd.grad(total, list(x.values()), allow_unused=True, materialize_grads=True)
    found = {name: rms(grad) for name, grad in zip(x, grads, strict=True)}
    found["out"] = rms((w @ v).detach())
    return found


def rms(x: Tensor | np.ndarray) -> float:
    x = torch.as_tensor(x).double()
    return float(x.pow(2).mean().sqrt()) if x.numel() else 0.0


@contextmanager
def forced(kernel: str):
    """Make every call use one kernel, of any size."""
    saved = additive.SMALL_WORK, plans.MIN_PAIRS, plans.MAX_DENSITY, native.library, additive.library
    without = native.Library(None, "switched off by a test")
    try:
        if kernel.startswith("additive"):
            additive.SMALL_WORK = 0
        if kernel.startswith("block-sparse"):
            plans.MIN_PAIRS, plans.MAX_DENSITY = 1, 1.0
        if kernel.endswith("in torch"):
            additive.library = compiled.library = lambda: without
        yield
    finally:
        additive.SMALL_WORK, plans.MIN_PAIRS, plans.MAX_DENSITY, native.library, additive.library = saved
        compiled.library = saved[3]


class LargestTensor(TorchDispatchMode):
    """The largest tensor that any operation makes."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        held = {
            x.untyped_storage().data_ptr() for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)
        }
        for x in tree_leaves(out):
            if isinstance(x, torch.Tensor) and x.untyped_storage().data_ptr() not in held:  # not a view
                self.numel = max(self.numel, x.numel())
        return out
