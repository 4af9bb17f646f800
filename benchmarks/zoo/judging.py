"""Compare the records of a capture with weights that were computed without Regard."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

import regard
from regard.capture import Recording
from regard.errors import RegardError

TOLERANCE = 1e-5

RIGHT, REFUSED, WRONG, MISSED, ABSENT = "right", "refused", "wrong", "missed", "absent"
VERDICTS = (RIGHT, REFUSED, WRONG, MISSED, ABSENT)


@dataclass
class Truth:
    """The weights of one attention call, from the model itself or from the formula."""

    weights: Tensor  # (b,h,q,k)
    kind: str | None = None  # "self", "causal" or "cross", None to skip the comparison
    rows: Tensor | None = None  # (b,q), True where a row is compared, None for all rows
    # Whether the rest of each row is attention to a sink, which the weights leave out.
    sink: bool = False
    # Whether the weights of every head are the mean over the heads.
    averaged: bool = False


@dataclass
class Subject:
    """A model with a call, the true weights of the call, and options of capture()."""

    model: nn.Module
    call: Callable[[], Any]
    truths: list[Truth]
    options: dict[str, Any] = field(default_factory=dict)  # for capture()


@dataclass(frozen=True)
class Case:
    """One entry of the zoo."""

    family: str
    name: str
    build: Callable[[], Subject]


class Absent(Exception):
    """Raised with the reason if a model cannot be built here."""


@dataclass(frozen=True)
class Result:
    """The verdict on a case."""

    verdict: str
    detail: str = ""


def judge(subject: Subject) -> Result:
    """Run a model with and without capture, and compare the outputs and the records with the truth."""
    _check_truths(subject.truths)
    plain = subject.call()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with regard.capture(subject.model, **subject.options) as seen:
                captured = subject.call()
            records = list(seen)
        except RegardError as error:
            return Result(REFUSED, str(error))
        except Exception as error:
            return Result(WRONG, f"crash, {type(error).__name__}: {error}")
    warned = [str(w.message) for w in caught]
    words = [message for message in warned if message.startswith("not recorded")]
    doubts = [message for message in warned if "modules={" in message or "not seen to multiply" in message]
    words += [f"unseen: {name}" for name in getattr(seen, "unseen", ())]
    if not _equal(plain, captured):
        return Result(WRONG, "the output of the model changed")
    result = _compare(seen, len(records), subject.truths, "; ".join(words))
    wrong_one = repr(result.detail.partition(":")[0])
    if result.verdict == WRONG and any(wrong_one in message for message in doubts):
        return Result(
            REFUSED, f"{result.detail}; {doubts[0]}"
        )  # its axes or weights are in doubt, and it says so
    if result.verdict == RIGHT and doubts:
        return Result(RIGHT, f"but it warns: {doubts[0]}")
    return result


def _check_truths(truths: list[Truth]) -> None:
    """Raise Absent if there are no true weights, or if all their rows are equal and show no mistake."""
    if not truths:
        raise Absent("the model gave no weights to compare with")
    for truth in truths:
        _, _, q, k = truth.weights.shape
        if k > 1 and q > 1 and float((truth.weights[:, :, 1:] - truth.weights[:, :, :-1]).abs().max()) < 1e-3:
            raise Absent(f"its weights are the same in every row, {tuple(truth.weights.shape)}")


def _compare(seen: Recording, count: int, truths: list[Truth], words: str) -> Result:
    free = list(range(count))
    unmatched, wrong_kinds = [], []
    for truth in truths:
        fitting = next((n for n in free if _fault(seen[n].map, truth) is None), None)
        if fitting is None:
            unmatched.append(truth)
            continue
        free.remove(fitting)
        if truth.kind is not None and seen[fitting].kind != truth.kind:
            wrong_kinds.append(f"{seen[fitting].name} is {seen[fitting].kind!r}, expected {truth.kind!r}")
    if free:
        return Result(WRONG, _described(seen, free, unmatched))
    if wrong_kinds:
        return Result(WRONG, "kind: " + "; ".join(wrong_kinds[:2]))
    if unmatched:
        shapes = ", ".join(str(tuple(t.weights.shape)) for t in unmatched[:3])
        told = f"{len(unmatched)} of {len(truths)} maps are not recorded, {shapes}"
        return Result(REFUSED if words else MISSED, f"{told}; {words}" if words else told)
    return Result(RIGHT, words)


def _fault(found: Any, truth: Truth) -> str | None:
    """Return what is wrong with a map, or None."""
    expected = truth.weights.double()
    try:
        weights = found[:].double() if not isinstance(found, Tensor) else found.double()
    except RegardError as error:
        return f"cannot be read: {error}"
    if truth.sink and weights.shape[-1] == expected.shape[-1] + 1:
        return _sink_fault(weights, truth)
    if weights.shape != expected.shape:
        return f"shape {tuple(weights.shape)}, expected {tuple(expected.shape)}"
    if truth.averaged:
        weights = weights.mean(dim=1, keepdim=True).expand_as(weights)
    apart = (weights - expected).abs().nan_to_num(nan=1.0)
    if truth.rows is not None:
        apart = apart * truth.rows[:, None, :, None]
    worst = float(apart.max())
    return None if worst <= TOLERANCE else f"off by {worst:.2g}"


def _sink_fault(weights: Tensor, truth: Truth) -> str | None:
    """Return what is wrong with a map whose first or last key is a sink, or None."""
    sums = weights.sum(dim=-1)
    if float((sums - 1).abs().max()) > TOLERANCE:
        return "the rows with their sink do not sum to 1"
    plain = Truth(truth.weights, truth.kind, truth.rows)
    first, last = _fault(weights[..., 1:], plain), _fault(weights[..., :-1], plain)
    return None if first is None or last is None else last


def _described(seen: Recording, free: list[int], unmatched: list[Truth]) -> str:
    """Return why the first record that matches no truth differs from the nearest one."""
    record = seen[free[0]]
    if not unmatched:
        return f"{record.name}: a record {tuple(record.map.shape)} of something that is not attention"
    faults = [fault for truth in unmatched if (fault := _fault(record.map, truth)) is not None]
    best = min(faults, key=lambda fault: (not fault.startswith("off"), fault))
    more = f" (and {len(free) - 1} more)" if len(free) > 1 else ""
    return f"{record.name}: {best}{more}"


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _tensors(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)


def _equal(one: Any, other: Any) -> bool:
    """Return whether all tensors of two outputs are equal, bit for bit."""
    pairs = list(zip(_tensors(one), _tensors(other), strict=True))
    return bool(pairs) and all(
        a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs
    )
