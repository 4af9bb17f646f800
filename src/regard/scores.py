"""Score functions, which rate how well each query matches each key before the softmax.

=============  =======================================  ==========================
dot            ``q . k``                                no parameters
scaled_dot     ``q . k / sqrt(d)``                      no parameters
additive       ``v . tanh(W1 q + W2 k)``                :class:`Additive`
bilinear       ``q . W k``                              :class:`Bilinear`
=============  =======================================  ==========================

Any callable that maps ``(q, k)`` to scores ``(..., q, k)`` also works as a score, if the score of a pair depends
on that pair alone. Terms that depend on positions belong in ``bias``.

Calling a score evaluates its formula directly. :meth:`Score.prepare` returns the inputs of the kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.errors import ArgumentError, DtypeError, ShapeError, UnknownNameError
from regard.modes import autocasting
from regard.shapes import whole_number

__all__ = ["Additive", "Bilinear", "Dot", "Prepared", "ScaledDot", "Score", "Tanh", "as_score"]


class Prepared(NamedTuple):
    """The projected queries and keys that a kernel takes.

    The score is ``scale * q . k`` if ``v`` is None, and ``scale * v . tanh(q + k)`` otherwise.
    """

    q: Tensor  # (..., q, d) or (..., q, m)
    k: Tensor  # (..., k, d) or (..., k, m)
    scale: float
    v: Tensor | None = None  # (m,)


class Score(nn.Module):
    """The base class of scores that have a kernel.

    A subclass implements :meth:`prepare`.
    """

    def prepare(self, q: Tensor, k: Tensor, scale: float | None) -> Prepared:
        """Check the widths of q and k, and return their projections and the scale.

        ``scale=None`` means the default scale of the score.
        """
        raise NotImplementedError

    def forward(self, q: Tensor, k: Tensor) -> Tensor:  # (..., q, d), (..., k, d) -> (..., q, k)
        """Return the scores ``(..., q, k)`` of every query with every key, at the default scale."""
        prepared = self.prepare(q, k, None)
        if prepared.v is None:
            return prepared.q @ prepared.k.transpose(-2, -1) * prepared.scale
        hidden = torch.tanh(prepared.q[..., :, None, :] + prepared.k[..., None, :, :])  # (..., q, k, m)
        return hidden @ prepared.v * prepared.scale


class Dot(Score):
    """The dot-product score ``q . k``.

    >>> Dot()(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]))
    tensor([[11.]])
    """

    def prepare(self, q: Tensor, k: Tensor, scale: float | None) -> Prepared:
        _check_same_width(q, k)
        return Prepared(q, k, 1.0 if scale is None else scale)


class ScaledDot(Score):
    """The scaled dot-product score ``q . k / sqrt(d)``.

    >>> ScaledDot()(torch.ones(1, 4), torch.ones(1, 4))
    tensor([[2.]])
    """

    def prepare(self, q: Tensor, k: Tensor, scale: float | None) -> Prepared:
        _check_same_width(q, k)
        return Prepared(q, k, 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else scale)


class Bilinear(Score):
    """The bilinear score ``q . W k`` (Luong's "general" score).

    The matrix ``W`` (query_dim,key_dim) is trained and shared by all heads. Queries and keys may have different
    widths.

    >>> Bilinear(query_dim=2, key_dim=3)(torch.ones(1, 5, 2), torch.ones(1, 7, 3)).shape
    torch.Size([1, 5, 7])
    """

    def __init__(self, query_dim: int, key_dim: int):
        super().__init__()
        self.query_dim = whole_number("query_dim", query_dim, least=1)
        self.key_dim = whole_number("key_dim", key_dim, least=1)
        self.W = nn.Parameter(torch.empty(query_dim, key_dim))
        nn.init.xavier_uniform_(self.W)

    def prepare(self, q: Tensor, k: Tensor, scale: float | None) -> Prepared:
        _check_width("q", q, self.query_dim)
        _check_width("k", k, self.key_dim)
        _check_parameter(q, self.W)
        return Prepared(q @ self.W, k, 1.0 if scale is None else scale)


class Tanh(Score):
    """The additive score ``v . tanh(q + k)`` of queries and keys that are already projected to width m.

    ``v (m,)`` is used as it is. It is registered as a parameter only if it is an ``nn.Parameter``.

    >>> Tanh(torch.tensor([2.0]))(torch.tensor([[0.0]]), torch.tensor([[100.0]]))
    tensor([[2.]])
    """

    def __init__(self, v: Tensor):
        super().__init__()
        if v.ndim != 1:
            raise ShapeError("v", f"expected (m,), got {tuple(v.shape)}")
        self.v = v

    def prepare(self, q: Tensor, k: Tensor, scale: float | None) -> Prepared:
        _check_width("q", q, self.v.shape[0])
        _check_width("k", k, self.v.shape[0])
        return Prepared(q, k, 1.0 if scale is None else scale, self.v)


class Additive(Score):
    """The additive score ``v . tanh(W1 q + W2 k)`` (Bahdanau 2014).

    The parameters are trained and shared by all heads. Queries and keys may have different widths. ``bias=True``
    adds a bias to ``W2 k``. ``project_query=False`` omits ``W1`` (``v . tanh(q + W2 k)``), which requires
    ``query_dim == hidden_dim``.

    >>> Additive(query_dim=2, key_dim=3, hidden_dim=4)(torch.ones(5, 2), torch.ones(7, 3)).shape
    torch.Size([5, 7])
    """

    def __init__(
        self, query_dim: int, key_dim: int, hidden_dim: int, *, bias: bool = False, project_query: bool = True
    ):
        super().__init__()
        self.query_dim = whole_number("query_dim", query_dim, least=1)
        self.key_dim = whole_number("key_dim", key_dim, least=1)
        whole_number("hidden_dim", hidden_dim, least=1)
        if not project_query and query_dim != hidden_dim:
            raise ArgumentError(
                "query_dim", f"an unprojected query must be hidden_dim = {hidden_dim} wide, got {query_dim}"
            )
        self.W1 = nn.Linear(query_dim, hidden_dim, bias=False) if project_query else None
        self.W2 = nn.Linear(key_dim, hidden_dim, bias=bias)
        self.v = nn.Parameter(torch.empty(hidden_dim).uniform_(-1, 1) / math.sqrt(hidden_dim))

    def prepare(self, q: Tensor, k: Tensor, scale: float | None) -> Prepared:
        _check_width("q", q, self.query_dim)
        _check_width("k", k, self.key_dim)
        _check_parameter(q, self.v)
        return Prepared(
            q if self.W1 is None else self.W1(q), self.W2(k), 1.0 if scale is None else scale, self.v
        )


_PLAIN: dict[str, Score] = {"dot": Dot(), "scaled_dot": ScaledDot()}
_WITH_PARAMETERS = {
    "additive": "regard.scores.Additive(query_dim, key_dim, hidden_dim)",
    "bilinear": "regard.scores.Bilinear(query_dim, key_dim)",
}


def as_score(score: str | Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the score for a name ("dot" or "scaled_dot"), or a callable as it is.

    Raises an error for an unknown name, for the name of a score with parameters, and for a class in place of a score.

    >>> as_score("scaled_dott")
    Traceback (most recent call last):
        ...
    regard.errors.UnknownNameError: score: unknown name 'scaled_dott': did you mean 'scaled_dot'? known are ...
    """
    if isinstance(score, str):
        if score in _PLAIN:
            return _PLAIN[score]
        if score in _WITH_PARAMETERS:
            raise ArgumentError(
                "score", f"{score!r} has parameters of its own", f"pass {_WITH_PARAMETERS[score]}"
            )
        raise UnknownNameError("score", score, [*_PLAIN, *_WITH_PARAMETERS])
    if isinstance(score, type):
        raise DtypeError(
            "score", f"expected a score, got the class {score.__name__}", f"make one: {score.__name__}(...)"
        )
    if not callable(score):
        raise DtypeError("score", f"expected a name, a Score or a callable, got {type(score).__name__}")
    return score


def _check_same_width(q: Tensor, k: Tensor) -> None:
    if q.shape[-1] != k.shape[-1]:
        raise ShapeError(
            "k",
            f"width {k.shape[-1]}, but q has {q.shape[-1]}",
            "the dot scores need equal widths; use scores.Bilinear or scores.Additive for different ones",
        )


def _check_parameter(q: Tensor, parameter: Tensor) -> None:
    if parameter.device != q.device:
        raise DtypeError(
            "score",
            f"its parameters are on {parameter.device}, but q is on {q.device}",
            "use score.to(q.device)",
        )
    if parameter.dtype != q.dtype and not autocasting(q.device):
        raise DtypeError(
            "score", f"its parameters are {parameter.dtype}, but q is {q.dtype}", "use score.to(q.dtype)"
        )


def _check_width(name: str, x: Tensor, width: int) -> None:
    if x.shape[-1] != width:
        raise ShapeError(name, f"width {x.shape[-1]}, but the score was made for {width}")
