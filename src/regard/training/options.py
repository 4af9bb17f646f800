"""The settings of a training run."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from regard.errors import ArgumentError, DtypeError, UnknownNameError, option
from regard.shapes import whole_number
from regard.training.schedules import SCHEDULES
from regard.training.settings import DURATIONS, TrainingSettings

__all__ = ["TrainingOptions"]

OPTIMIZERS = ("adamw", "muon")
PRECISIONS = ("auto", "float32", "bfloat16")


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(TrainingSettings):
    """The settings of one run of the training loop, checked.

    Exactly one of ``steps``, ``epochs`` and ``minutes`` has to be given. ``betas`` are those of AdamW. A bad value
    raises ArgumentError.

    >>> TrainingOptions(epochs=3, schedule="cosine").schedule
    'cosine'
    """

    # Exact, unlike in the settings of a task, because the loop has no default length.
    least_steps: int = 0
    betas: tuple[float, float] = (0.9, 0.98)  # of AdamW

    def __post_init__(self):
        if sum(getattr(self, name) is not None for name in DURATIONS) != 1:
            names = f"{option('steps')}, {option('epochs')} and {option('minutes')}"
            raise ArgumentError("steps", f"expected one of {names}", "say how long to train")
        self._take_whole_numbers()
        self._take_numbers()
        if self.schedule not in SCHEDULES:
            raise UnknownNameError("schedule", self.schedule, SCHEDULES)
        if self.optimizer not in OPTIMIZERS:
            raise UnknownNameError("optimizer", self.optimizer, OPTIMIZERS)
        if self.precision not in PRECISIONS:
            raise UnknownNameError("precision", self.precision, PRECISIONS)
        if not isinstance(self.compile, bool):
            raise DtypeError("compile", f"expected True or False, got {self.compile!r}")

    def _take_whole_numbers(self) -> None:
        least = {"warmup": 0, "validate_every": 0, "patience": 0, "least_steps": 0, "seed": 0}
        for name in ("steps", "accumulate", "save_every", "keep", *least):
            value = getattr(self, name)
            if name != "steps" or value is not None:
                object.__setattr__(self, name, whole_number(name, value, least.get(name, 1)))

    def _take_numbers(self) -> None:
        lasting = [name for name in ("epochs", "minutes") if getattr(self, name) is not None]
        for name in ("learning_rate", *lasting):
            if not _number(name, getattr(self, name)) > 0:
                raise ArgumentError(name, f"expected a number above 0, got {getattr(self, name)}")
        for name in ("weight_decay", "clip"):
            if not _number(name, getattr(self, name)) >= 0:
                raise ArgumentError(name, f"expected 0 or more, got {getattr(self, name)}")
        if not 0 <= _number("average", self.average) < 1:
            raise ArgumentError("average", f"expected a share from 0 to below 1, got {self.average}")
        betas = tuple(self.betas) if isinstance(self.betas, tuple | list) else ()
        if len(betas) != 2 or not all(0 <= _number("betas", beta) < 1 for beta in betas):
            raise ArgumentError("betas", f"expected two shares from 0 to below 1, got {self.betas!r}")
        object.__setattr__(self, "betas", betas)  # JSON knows only lists

    def to_json(self) -> dict[str, Any]:
        """Return the settings by name, as values that JSON can hold."""
        return {**asdict(self), "betas": list(self.betas)}


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DtypeError(name, f"expected a number, got {value!r}")
    if not math.isfinite(value):
        raise ArgumentError(name, f"expected a finite number, got {value}")
    return value
