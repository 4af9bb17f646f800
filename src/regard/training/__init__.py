"""The training loop of every task, with schedules and checkpoints, in one process or several.

The names are imported on first use, so importing this package loads no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard._lazy import lazily

if TYPE_CHECKING:
    from regard.training.checkpoints import Checkpoint, latest_checkpoint, load_checkpoint, save_checkpoint
    from regard.training.copy_losses import copy_cross_entropy
    from regard.training.loop import Outcome, TrainingError, train
    from regard.training.losses import output_cross_entropy
    from regard.training.options import TrainingOptions
    from regard.training.schedules import get_linear_schedule_with_warmup
    from regard.training.settings import TrainingSettings
    from regard.training.task import TrainingTask

__all__ = [
    "Checkpoint",
    "Outcome",
    "TrainingError",
    "TrainingOptions",
    "TrainingSettings",
    "TrainingTask",
    "copy_cross_entropy",
    "get_linear_schedule_with_warmup",
    "latest_checkpoint",
    "load_checkpoint",
    "output_cross_entropy",
    "save_checkpoint",
    "train",
]

__getattr__ = lazily(
    __name__,
    {
        "checkpoints": ["Checkpoint", "latest_checkpoint", "load_checkpoint", "save_checkpoint"],
        "copy_losses": ["copy_cross_entropy"],
        "loop": ["Outcome", "TrainingError", "train"],
        "losses": ["output_cross_entropy"],
        "options": ["TrainingOptions"],
        "schedules": ["get_linear_schedule_with_warmup"],
        "settings": ["TrainingSettings"],
        "task": ["TrainingTask"],
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
