"""The settings of a training run that the command line offers, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from regard.settings import Settings, setting

__all__ = ["TrainingSettings"]


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(Settings):
    """The settings of the training loop, from the number of steps to the seed.

    They are checked in :class:`regard.training.TrainingOptions`.
    """

    title: ClassVar[str] = "Training"

    steps: int | None = setting(None, "Number of updates. Give this or epochs.")
    epochs: float | None = setting(None, "Passes over the data.")
    learning_rate: float = setting(1e-3, "The highest learning rate.")
    warmup: int = setting(500, "Steps until the highest learning rate is reached.")
    schedule: str = setting("cosine", "linear, cosine, inverse_sqrt or constant.")
    weight_decay: float = setting(0.01, "Weight decay of AdamW.")
    clip: float = setting(1.0, "Largest norm of the gradients, 0 for no limit.")
    accumulate: int = setting(1, "Batches per update.")
    average: float = setting(0.999, "Decay of the exponential average of the weights, 0 for none.")
    precision: str = setting("float32", "float32, bfloat16, or auto for bfloat16 where the machine has it.")
    compile: bool = setting(False, "Compile the model with torch.compile.")
    validate_every: int = setting(0, "Steps between validations, 0 for one after each epoch.")
    patience: int = setting(0, "Validations without improvement after which training stops, 0 for never.")
    save_every: int = setting(500, "Steps between checkpoints.")
    keep: int = setting(2, "Checkpoints to keep.")
    seed: int = setting(0, "Seed of all random numbers.")
