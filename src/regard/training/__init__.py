"""Training: one loop for every task, schedules, checkpoints; one process or many."""

from regard.training.checkpoints import Checkpoint, latest_checkpoint, load_checkpoint, save_checkpoint
from regard.training.loop import Outcome, TrainingError, train
from regard.training.losses import output_cross_entropy
from regard.training.options import TrainingOptions
from regard.training.schedules import get_linear_schedule_with_warmup
from regard.training.task import TrainingTask

__all__ = [
    "Checkpoint",
    "Outcome",
    "TrainingError",
    "TrainingOptions",
    "TrainingTask",
    "get_linear_schedule_with_warmup",
    "latest_checkpoint",
    "load_checkpoint",
    "output_cross_entropy",
    "save_checkpoint",
    "train",
]
