"""`explain` computes one attention, keeps every intermediate step and prints the steps as tables."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _tables
from ._attention import attend
from ._basics import Array, as_floats, length, shortened
from ._masks import apply_mask
from ._scores import additive_scores, bilinear_scores, default_scale, dot_scores

ScoreLike = str | Callable[[Array, Array], ArrayLike]
_FORMULAS = {
    "scaled_dot": "q·k",
    "dot": "q·k",
    "additive": "v·tanh(W_q q + W_k k + b)",
    "bilinear": "q·W·k",
}
_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "scaled_dot": dot_scores,
    "dot": dot_scores,
    "additive": additive_scores,
    "bilinear": bilinear_scores,
}
_NEEDS = {"additive": {"W_q", "W_k", "v"}, "bilinear": {"W"}}
_MAY = {"additive": {"b"}}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Explanation:
    """The inputs, intermediate steps and output of one attention, as read-only arrays.

    The steps are `scores -> scaled -> masked -> weights -> output`. `print` shows them as text tables, a
    notebook shows them as HTML tables.
    """

    q: Array
    k: Array
    v: Array
    mask: Array | None
    score: str
    formula: str
    scale: float | None
    scores: Array
    scaled: Array
    masked: Array
    weights: Array
    output: Array
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    digits: int = 4

    def steps(self) -> list[_tables.ExplainedStep]:
        """Return the five steps in order, each with a title and a table of numbers.

        The numbers are None for a step that changed nothing (no scaling, no mask).
        """
        keys, value_columns = self.key_tokens, tuple(f"v{i}" for i in range(self.output.shape[-1]))
        scaled = masked = None
        if self.scale is not None:
            scaled = _tables.ExplainedStep(
                f"scaled = scores * {self.scale:.{self.digits}g}", self.scaled, keys
            )
        if self.mask is not None:
            formula = (
                "scaled + mask" if self.mask.dtype.kind == "f" else "scaled, -inf where the mask forbids"
            )
            masked = _tables.ExplainedStep(f"masked = {formula}", self.masked, keys)
        return [
            _tables.ExplainedStep(f"scores = {self.formula}", self.scores, keys),
            scaled or _tables.ExplainedStep("scaled = scores (this score is not scaled)", None, keys),
            masked or _tables.ExplainedStep("masked = scaled (no mask)", None, keys),
            _tables.ExplainedStep("weights = softmax(masked)", self.weights, keys, shaded=True),
            _tables.ExplainedStep("output = weights · v", self.output, value_columns),
        ]

    def __str__(self) -> str:
        return _tables.as_text(self._title(), self.steps(), self.query_tokens, self.digits)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _tables.as_html(self._title(), self.steps(), self.query_tokens, self.digits)

    def _title(self) -> str:
        *leading, queries, keys = self.weights.shape
        leading_axes = f", leading axes {tuple(leading)}" if leading else ""
        return f"{self.score} attention: q = {queries}, k = {keys}, d = {self.q.shape[-1]}{leading_axes}"


def _tokens(name: str, tokens: Sequence[str] | None, letter: str, count: int) -> tuple[str, ...]:
    """Check the number of tokens, or number them (`q0`, `q1`, ...) if there are none."""
    if tokens is None:
        return tuple(f"{letter}{i}" for i in range(count))
    if isinstance(tokens, str) or not isinstance(tokens, Iterable):
        raise ValueError(f"{name}: expected a list of {count} words, got {shortened(tokens)}")
    texts = tuple(str(token) for token in tokens)
    if len(texts) != count:
        raise ValueError(f"{name}: {len(texts)} given, {count} in {letter}")
    return texts


def _check_params(score: str, params: Mapping[str, Any]) -> None:
    if not isinstance(score, str) or score not in _FUNCTIONS:
        raise ValueError(
            f"score: expected one of {', '.join(_FUNCTIONS)} or a function of q and k, got {shortened(score)}"
        )
    needed, allowed = _NEEDS.get(score, set()), _NEEDS.get(score, set()) | _MAY.get(score, set())
    for name in sorted(needed - set(params)):
        raise ValueError(f"params: score {score!r} needs {name!r}, write params={{{name!r}: ...}}")
    for name in sorted(set(params) - allowed):
        raise ValueError(f"params: score {score!r} takes no {name!r}")


def _score(score: ScoreLike, q: Array, k: Array, params: Mapping[str, Any]) -> tuple[str, str, Array]:
    """Return the name of the score, its formula as text, and the scores (...,q,k)."""
    if callable(score):
        if params:
            raise ValueError(
                "params: a function as score takes only q and k, bind its other parameters beforehand"
            )
        name = getattr(score, "__name__", "custom")
        (scores,) = as_floats(score=score(q, k))
        return name, f"{name}(q, k)", scores
    _check_params(score, params)
    return score, _FORMULAS[score], _FUNCTIONS[score](q, k, **params)


def _scale(score: ScoreLike, scale: float | None, width: int) -> float | None:
    """Return the factor on the scores, or None if the score is not "scaled_dot"."""
    if score == "scaled_dot":
        if scale is None:
            return default_scale(width)
        try:
            usable = (
                isinstance(scale, numbers.Real) and not isinstance(scale, bool) and np.isfinite(float(scale))
            )
        except OverflowError:
            usable = False
        if not usable:
            raise ValueError(f"scale: expected a finite number, got {shortened(scale)}")
        return float(scale)
    if scale is not None:
        raise ValueError(
            f"scale: only score='scaled_dot' takes a scale, got scale={scale!r} with another score"
        )
    return None


def _reject(unknown: Mapping[str, object]) -> None:
    """Raise TypeError for an unknown keyword argument, with the new name of one that was renamed."""
    renamed = {"query_labels": "query_tokens", "key_labels": "key_tokens"}
    for name in unknown:
        hint = f": use {renamed[name]}=" if name in renamed else ""
        raise TypeError(f"explain() got an unexpected keyword argument {name!r}{hint}")


def _frozen(array: ArrayLike) -> Array:
    copy = np.array(array)
    copy.setflags(write=False)
    return copy


def explain(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    mask: ArrayLike | None = None,
    score: ScoreLike = "scaled_dot",
    scale: float | None = None,
    params: Mapping[str, ArrayLike | None] | None = None,
    query_tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    digits: int = 4,
    **unknown: object,
) -> Explanation:
    """Compute one attention step by step and return every intermediate result.

    `score` is "scaled_dot", "dot", "additive", "bilinear" or a function of (q, k). `params` holds the parameters of
    the score by name. Additive needs `W_q` (which may be None), `W_k`, `v` and optionally `b`, bilinear needs `W`.
    `scale` replaces 1 / sqrt(d) and raises ValueError with any score but "scaled_dot". `query_tokens` and `key_tokens`
    name the rows and columns of the tables, `digits` is the number of decimals.

    >>> print(explain([[np.log(3.0)]], [[1.0], [0.0]], [[4.0], [8.0]], key_tokens=["猫", "mat"], score="dot"))
    dot attention: q = 1, k = 2, d = 1
    <BLANKLINE>
    1. scores = q·k
            猫     mat
    q0  1.0986  0.0000
    <BLANKLINE>
    2. scaled = scores (this score is not scaled)
    <BLANKLINE>
    3. masked = scaled (no mask)
    <BLANKLINE>
    4. weights = softmax(masked)
            猫     mat
    q0  0.7500  0.2500
    <BLANKLINE>
    5. output = weights · v
            v0
    q0  5.0000
    """
    _reject(unknown)
    if params is not None and not isinstance(params, Mapping):
        raise ValueError(f"params: expected the parameters of the score by name, got {shortened(params)}")
    digits = length("digits", digits)
    q_, k_, v_ = as_floats(q=q, k=k, v=v)
    name, formula, scores = _score(score, q_, k_, dict(params or {}))
    factor = _scale(score, scale, q_.shape[-1])
    scaled = scores if factor is None else scores * factor
    output, weights = attend(scaled, v_, mask)
    return Explanation(
        q=_frozen(q_),
        k=_frozen(k_),
        v=_frozen(v_),
        mask=None if mask is None else _frozen(mask),
        score=name,
        formula=formula,
        scale=factor,
        scores=_frozen(scores),
        scaled=_frozen(scaled),
        masked=_frozen(apply_mask(scaled, mask)),
        weights=_frozen(weights),
        output=_frozen(output),
        query_tokens=_tokens("query_tokens", query_tokens, "q", weights.shape[-2]),
        key_tokens=_tokens("key_tokens", key_tokens, "k", weights.shape[-1]),
        digits=digits,
    )
