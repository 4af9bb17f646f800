"""Training: for now, the learning-rate schedule."""

from regard.training.schedules import get_linear_schedule_with_warmup

__all__ = ["get_linear_schedule_with_warmup"]
