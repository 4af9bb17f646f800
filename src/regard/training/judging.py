"""Which of two validations is the better one."""

from __future__ import annotations

import math
from collections.abc import Mapping

from regard.training.task import TrainingTask

__all__ = ["decided_by", "is_better"]


def is_better(task: TrainingTask, results: Mapping[str, float], best: Mapping[str, float]) -> bool:
    """Whether a validation beats the best so far, which is empty before the first.

    The task's metric decides. Where the task has a ``floor``, scores below it are noise: there, ``below_floor`` names
    the number that decides instead, the lower the better, and any score that reaches the floor beats them all. An
    undefined score (NaN) beats nothing, since nothing could beat it later.
    """
    if math.isnan(results.get(task.metric, math.nan)):
        return False
    return not best or _rank(task, results) > _rank(task, best)


def decided_by(task: TrainingTask, results: Mapping[str, float]) -> str:
    """Words for the log where the task's metric does not decide."""
    if not _is_below_floor(task, results):
        return ""
    return f", by {_smooth(task)}: {task.metric} is below {_floor(task):g}"


def _rank(task: TrainingTask, results: Mapping[str, float]) -> tuple[bool, float]:
    if _is_below_floor(task, results):
        smooth = results.get(_smooth(task), math.inf)  # a checkpoint holds no infinite numbers
        return False, -math.inf if math.isnan(smooth) else -smooth
    score = results[task.metric]
    return True, score if task.higher_is_better else -score


def _is_below_floor(task: TrainingTask, results: Mapping[str, float]) -> bool:
    return results[task.metric] < _floor(task)


def _floor(task: TrainingTask) -> float:
    return getattr(task, "floor", -math.inf)


def _smooth(task: TrainingTask) -> str:
    return getattr(task, "below_floor", task.metric)
