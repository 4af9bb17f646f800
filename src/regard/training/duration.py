"""The length of a run, as a number of steps or as a time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from regard.training.options import TrainingOptions
from regard.training.schedules import SCHEDULES
from regard.training.state import Progress

__all__ = ["Duration"]


@dataclass(frozen=True)
class Duration:
    """The number of updates of a run, or the seconds that its updates take together.

    >>> timed = Duration(seconds=60.0)
    >>> timed.total(Progress(step=30, training_seconds=20.0)), timed.is_over(Progress(step=91, training_seconds=60.5))
    (90.0, True)
    """

    steps: int | None = None
    seconds: float | None = None

    @classmethod
    def of(cls, options: TrainingOptions, batches_per_epoch: int) -> Duration:
        """Return the length of a run with these options."""
        if options.minutes is not None:
            return cls(seconds=60 * options.minutes)
        steps_per_epoch = math.ceil(batches_per_epoch / options.accumulate)
        return cls(steps=options.steps or max(1, round((options.epochs or 1) * steps_per_epoch)))

    def is_over(self, progress: Progress) -> bool:
        """Return whether the run has made its last step."""
        if self.steps is not None:
            return progress.step >= self.steps
        return progress.step > 0 and progress.training_seconds >= (self.seconds or 0.0)

    def total(self, progress: Progress) -> float:
        """Return the number of steps of the whole run, at the mean speed so far if its length is a time.

        It is infinite before the first step of such a run.
        """
        if self.steps is not None:
            return self.steps
        if not progress.training_seconds:
            return math.inf
        return max(1.0, progress.step * (self.seconds or 0.0) / progress.training_seconds)

    def rate(self, progress: Progress, options: TrainingOptions) -> float:
        """Return the factor on the learning rate in the next step."""
        total = self.total(progress)
        if total == math.inf:
            # The warm-up has begun, and the end is far.
            return 1 / max(1, options.warmup)
        # The schedule ends one step later, because a last step at a rate of 0 would have no effect.
        return SCHEDULES[options.schedule](progress.step + 1, min(options.warmup, total), total + 1)
