"""Steps and mistakes that several exercises share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from regard.learn.exercise import Case, Mistake, Step
from regard.learn.words import Words

__all__ = [
    "BATCH",
    "FEATURE",
    "HEAD",
    "KEY",
    "POSITION",
    "QUERY",
    "choice",
    "fixed",
    "mistake",
    "numbers",
    "pick",
    "same",
    "softmax",
    "step",
    "transpose",
    "without",
]

Array = np.ndarray
BATCH, HEAD = Words("sequence", "序列"), Words("head", "头")
QUERY, KEY = Words("query", "查询"), Words("key", "键")
FEATURE, POSITION = Words("feature", "特征"), Words("position", "位置")


def mistake(name: str, en: str, zh: str, **replaces: Callable[[Any], Any]) -> Mistake:
    """Return a mistake. The keyword arguments are the wrong computations of steps."""
    return Mistake(name, Words(en, zh), replaces)


def step(name: str, en: str, zh: str, compute: Callable[[Any], Any], *axes: Words) -> Step:
    """Return a step with the names of the axes of its stage."""
    return Step(name, Words(en, zh), compute, axes)


def choice(name: str, compute: Callable[[Any], Any]) -> Step:
    """Return a choice, which is a detail of the next stage that mistakes can change."""
    return Step(name, Words("", ""), compute, choice=True)


def fixed(value: Any) -> Callable[[Any], Any]:
    """Return the computation of a choice that is the same value in every case, such as a function."""
    return lambda V: value


def same(x: Any) -> Any:
    """Return the argument itself, as the function of a choice that changes nothing."""
    return x


def numbers(rng: np.random.Generator, **shapes: tuple[int, ...]) -> Case:
    """Return a case of arrays with random numbers of two digits after the point."""
    return Case({name: (1.3 * rng.standard_normal(shape)).round(2) for name, shape in shapes.items()})


def pick(mistakes: Sequence[Mistake], *names: str) -> tuple[Mistake, ...]:
    """Return the mistakes of some names."""
    by_name = {one.name: one for one in mistakes}
    return tuple(by_name[name] for name in names)


def without(mistakes: Sequence[Mistake], *names: str) -> tuple[Mistake, ...]:
    """Return the mistakes of other names than these."""
    kept = tuple(one for one in mistakes if one.name not in names)
    assert len(kept) + len(names) == len(tuple(mistakes))
    return kept


def transpose(x: Array) -> Array:
    """Swap the last two axes."""
    return np.swapaxes(x, -1, -2)


def softmax(x: Array, axis: int | tuple[int, ...] | None = -1) -> Array:
    """Return the softmax over an axis. A row of only -inf gives zeros."""
    highest = np.max(x, axis=axis, keepdims=True)
    powers = np.exp(x - np.where(np.isfinite(highest), highest, 0.0))
    total = powers.sum(axis=axis, keepdims=True)
    return np.divide(powers, total, out=np.zeros_like(powers), where=total != 0)
