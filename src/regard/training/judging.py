"""The comparison of two validations of a model."""

from __future__ import annotations

import math
from collections.abc import Mapping

from regard.training.task import TrainingTask

__all__ = ["decided_by", "is_better", "measures"]


def is_better(task: TrainingTask, results: Mapping[str, float], best: Mapping[str, float]) -> bool:
    """Return whether the numbers of a validation are better than the best so far.

    ``best`` is empty before the first validation, which is better unless its score is undefined.

    The task's metric decides. If the task has a ``floor``, scores below it are noise. Two such validations are compared
    by the number that ``below_floor`` names, where lower is better, and a score at or above the floor is better than
    any below it. An undefined score (NaN) is never better, because no later score could be compared with it.
    """
    if math.isnan(results.get(task.metric, math.nan)):
        return False
    return not best or _rank(task, results) > _rank(task, best)


def measures(task: TrainingTask, results: Mapping[str, float]) -> dict[str, float]:
    """Return the numbers of a validation that measure the model, without those that the task has ``fitted``."""
    fitted = getattr(task, "fitted", ())
    return {name: value for name, value in results.items() if name not in fitted}


def decided_by(task: TrainingTask, results: Mapping[str, float]) -> str:
    """Return a text for the log that names the deciding number below the task's floor, or an empty text otherwise."""
    if not _is_below_floor(task, results):
        return ""
    return f", by {_smooth(task)}: {task.metric} is below {_floor(task):g}"


def _rank(task: TrainingTask, results: Mapping[str, float]) -> tuple[bool, float]:
    if _is_below_floor(task, results):
        # Infinite numbers are left out of checkpoints.
        smooth = results.get(_smooth(task), math.inf)
        return False, -math.inf if math.isnan(smooth) else -smooth
    score = results[task.metric]
    return True, score if task.higher_is_better else -score


def _is_below_floor(task: TrainingTask, results: Mapping[str, float]) -> bool:
    return results[task.metric] < _floor(task)


def _floor(task: TrainingTask) -> float:
    return getattr(task, "floor", -math.inf)


def _smooth(task: TrainingTask) -> str:
    return getattr(task, "below_floor", task.metric)
