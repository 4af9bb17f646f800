"""Runs an exported file and compares its results with those of the module."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import ArgumentError, RegardError

__all__ = ["ExportError", "Run", "flat_tensors", "largest_difference", "quiet", "runner"]

# The largest difference between a number x of the module and that of the file, relative to 1 + |x|.
TOLERANCE = 1e-5


class ExportError(RegardError, RuntimeError):
    """Raised when a model cannot be exported, or when the file gives other results than the model."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the remarks of torch's exporters about their own code."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


Run = Callable[[dict[str, Tensor]], list[Tensor]]


def runner(kind: str, path: Path) -> Run:
    """Return a function that runs a file on inputs by name."""
    if kind == "onnx":
        import onnxruntime

        options, run_options = onnxruntime.SessionOptions(), onnxruntime.RunOptions()
        # Only fatal errors are logged, because an error is raised as well.
        options.log_severity_level = run_options.log_severity_level = 4
        session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])

        def run(inputs: dict[str, Tensor]) -> list[Tensor]:
            known = {one.name for one in session.get_inputs()}  # an input without effect may be left out
            fed = {name: value.numpy() for name, value in inputs.items() if name in known}
            return [torch.from_numpy(result) for result in session.run(None, fed, run_options)]

        return run
    with quiet():
        program = torch.export.load(io.BytesIO(path.read_bytes())).module()
    return lambda inputs: list(flat_tensors(program(*inputs.values())))


def flat_tensors(value: Any) -> Iterator[Tensor]:
    """Yield the tensors of the results of a module in order, or raise ArgumentError for anything else."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from flat_tensors(part)
    elif value is not None:
        raise ArgumentError("model", f"its forward() returned a {type(value).__name__}, which is no tensor")


def largest_difference(module: nn.Module, inputs: Mapping[str, Tensor], run: Run) -> float:
    """Return the largest relative difference of a file and its module on inputs, or raise ExportError above 1e-5."""
    with torch.no_grad():
        expected = list(flat_tensors(module(*inputs.values())))
    try:
        with torch.no_grad():
            found = run(dict(inputs))
    except Exception as error:
        shapes = ", ".join(f"{name} {tuple(x.shape)}" for name, x in inputs.items())
        # The status of onnxruntime names its own source files.
        reason = str(error).strip().splitlines()[0].split(" Status Message:")[0]
        raise ExportError(f"the exported file fails on {shapes}: {reason}") from error
    largest = 0.0
    for got, want in zip(found, expected, strict=True):
        if tuple(got.shape) != tuple(want.shape):
            raise ExportError(
                f"the exported file gives a result of {tuple(got.shape)}, not {tuple(want.shape)}"
            )
        apart = _relative_difference(got.double(), want.double())
        if apart > TOLERANCE:
            raise ExportError(
                f"the exported file and the model differ by {apart:.2g} * (1 + |x|), more than {TOLERANCE:g}"
            )
        largest = max(largest, apart)
    return largest


def _relative_difference(got: Tensor, want: Tensor) -> float:
    """Return the largest difference of two results, relative to ``1 + |want|``.

    Equal infinities and NaN are no difference.

    >>> one = torch.tensor([0.0, 99.0, torch.inf, torch.nan])
    >>> _relative_difference(one + 0.5, one)
    0.5
    """
    same = (got == want) | (got.isnan() & want.isnan())
    apart = (got - want).abs().div(1 + want.abs()).nan_to_num(torch.inf, torch.inf).masked_fill(same, 0.0)
    return float(apart.max()) if apart.numel() else 0.0
