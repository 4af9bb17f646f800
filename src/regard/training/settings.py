"""The settings of a training run that the command line offers, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from regard.settings import Settings, setting

__all__ = ["DURATIONS", "LEAST_STEPS", "TrainingSettings", "without_durations"]

# The settings that say how long to train. A run has one of them.
DURATIONS = ("steps", "epochs", "minutes")
# The help of the setting, whose default differs between tasks.
LEAST_STEPS = (
    "Updates before which patience stops no run, and that small data is trained for by default; 0 for none."
)


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(Settings):
    """The settings of the training loop, from the number of steps to the seed.

    They are checked in :class:`regard.training.TrainingOptions`.
    """

    title: ClassVar[str] = "Training"
    # The settings that say how large a batch is at most, which are lowered for few data if none of them is given.
    batch_sizes: ClassVar[tuple[str, ...]] = ()

    steps: int | None = setting(None, "Number of updates. Give this, epochs or minutes.")
    epochs: float | None = setting(None, "Passes over the data.")
    minutes: float | None = setting(
        None, "Minutes of updates, without those of validations. The schedule follows the time."
    )
    learning_rate: float = setting(1e-3, "The highest learning rate.")
    warmup: int = setting(500, "Steps until the highest learning rate is reached.")
    schedule: str = setting("cosine", "linear, cosine, inverse_sqrt or constant.")
    optimizer: str = setting(
        "adamw", "adamw, or muon for the matrices inside the blocks and adamw for the rest."
    )
    weight_decay: float = setting(0.01, "Weight decay of the matrices.")
    clip: float = setting(1.0, "Largest norm of the gradients, 0 for no limit.")
    accumulate: int = setting(1, "Batches per update.")
    average: float = setting(0.999, "Decay of the exponential average of the weights, 0 for none.")
    precision: str = setting("float32", "float32, bfloat16, or auto for bfloat16 where the machine has it.")
    compile: bool = setting(False, "Compile the model with torch.compile.")
    validate_every: int = setting(0, "Steps between validations, 0 for one after each epoch.")
    patience: int = setting(0, "Validations without improvement after which training stops, 0 for never.")
    least_steps: int = setting(500, LEAST_STEPS)
    save_every: int = setting(500, "Steps between checkpoints.")
    keep: int = setting(2, "Checkpoints to keep.")
    seed: int = setting(0, "Seed of all random numbers.")


def without_durations(defaults: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return default values without those that say how long to train, if a given value says so.

    >>> without_durations({"steps": 600, "width": 64}, {"minutes": 3.0})
    {'width': 64}
    """
    if all(given.get(name) is None for name in DURATIONS):
        return defaults
    return {name: value for name, value in defaults.items() if name not in DURATIONS}
