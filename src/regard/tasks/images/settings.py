"""The settings of training and evaluating a classifier of pictures, without torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from regard.errors import ArgumentError, option
from regard.settings import setting
from regard.tasks.image_settings import ImageDataSettings, ImageMeasurementSettings
from regard.tasks.settings import TaskSettings, changed, reject_unused
from regard.training.settings import TrainingSettings, without_durations

__all__ = ["ARCHITECTURES", "SHIFT", "ImageEvaluationSettings", "ImageSettings", "stage_depths"]

_PATCHES = ("width", "heads", "feed_forward", "patch_size", "embedding", "positions", "attention_dropout")
# For each kind of network, the settings that not all kinds use.
ARCHITECTURES: dict[str, tuple[str, ...]] = {
    "vit": (*_PATCHES, "layers", "pooling", "pooling_heads"),
    "swin": (*_PATCHES, "depths", "window"),
    "cnn": ("width", "layers"),
    "linear": (),
}
# The sizes of each kind of network, if they are not given. They have about 0.3 million parameters on 28×28 pixels.
SIZES: dict[str, dict[str, Any]] = {
    "vit": {},
    "swin": {"width": 48, "heads": 2, "feed_forward": 192, "patch_size": 2},
    "cnn": {"width": 32, "layers": 3},
    "linear": {},
}
# The width of the feed-forward layers, divided by the width that is given.
FEED_FORWARD = {"vit": 2, "swin": 4}
# The sizes for the 8×8 digits that are trained on if no data is named.
SMALL_SIZES: dict[str, dict[str, Any]] = {
    "vit": {
        "width": 64,
        "layers": 3,
        "feed_forward": 128,
        "patch_size": 2,
        "embedding": "convolution",
    },
    "swin": {"width": 32, "heads": 2, "feed_forward": 128, "patch_size": 1, "window": 4},
    "cnn": {"width": 32, "layers": 2},
    "linear": {},
}
# The shift of training pictures of data, if it is not given. Smaller pictures are shifted less.
SHIFT = 2
# The training on these digits, of less than a minute.
SMALL_TRAINING: dict[str, Any] = {
    "steps": 600,
    "batch_size": 64,
    "warmup": 50,
    "average": 0.99,
    "validate_every": 100,
}


@dataclass(frozen=True, kw_only=True)
class _ImageNetwork(TaskSettings):
    """A Vision Transformer, a Swin Transformer, or a network without attention."""

    title: ClassVar[str] = "Model"

    architecture: str = setting(
        "vit", "vit, swin, cnn (a convolutional network) or linear; the last two have no attention."
    )
    width: int = setting(96, "Numbers that represent a patch. Swin, cnn: in the first stage.")
    layers: int = setting(4, "Vit: blocks. Cnn: stages, each with half the rows and twice the width.")
    depths: str = setting("2,2", "Swin: blocks of each stage, such as 2,2.")
    heads: int = setting(4, "Attention heads. Swin: in the first stage, twice as many in each further one.")
    feed_forward: int = setting(192, "Width of the feed-forward layers. Swin: in the first stage.")
    patch_size: int = setting(4, "Pixels of a patch in each direction, which must divide the picture.")
    embedding: str = setting(
        "patch", "patch (one linear layer), convolution (3×3, stride 2) or deep_convolution (twice as many)."
    )
    positions: str | None = setting(
        None, "learned, sinusoidal (vit) or none; by default learned for vit and none for swin."
    )
    pooling: str = setting("class_token", "Vit: class_token, mean, additive or multihead.")
    pooling_heads: int = setting(1, "Vit: heads of the pooling, of additive and multihead.")
    window: int = setting(7, "Swin: patches of a window in each direction.")
    dropout: float = setting(0.1, "Share of the activations dropped in training.")
    attention_dropout: float = setting(0.0, "Share of the attention weights dropped in training.")


@dataclass(frozen=True, kw_only=True)
class _Augmentation(TaskSettings):
    """Random changes of the training pictures."""

    title: ClassVar[str] = "Random changes"

    shift: int = setting(0, "Pixels that a picture is moved at most in each direction.")
    flip: bool = setting(False, "Reflect half of the pictures; for garments and animals, not for digits.")
    erase: float = setting(0.0, "Share of the pictures in which a rectangle is erased.")


@dataclass(frozen=True, kw_only=True)
class _ImageTraining(TrainingSettings, TaskSettings):
    """Batches of pictures, and how long and how fast to train."""

    title: ClassVar[str] = "Training"
    batch_sizes: ClassVar[tuple[str, ...]] = ("batch_size",)

    batch_size: int = setting(128, "Pictures of a batch.")
    label_smoothing: float = setting(0.1, "Probability that is spread evenly over all classes.")
    learning_rate: float = setting(3e-3, "The highest learning rate.")
    optimizer: str = setting(
        "muon", "adamw, or muon for the matrices inside the blocks and adamw for the rest."
    )
    warmup: int = setting(200, "Steps until the highest learning rate is reached.")


@dataclass(frozen=True, kw_only=True)
class ImageSettings(_ImageTraining, _Augmentation, _ImageNetwork, ImageDataSettings):
    """The settings of training a classifier of pictures."""

    def __post_init__(self):
        super().__post_init__()
        reject_unused(self.architecture, ARCHITECTURES, changed(self))
        stage_depths(self.depths)
        if self.batch_size < 1:
            raise ArgumentError("batch_size", f"expected 1 or more, got {self.batch_size}")
        if not 0 <= self.label_smoothing < 1:
            problem = f"expected a share from 0 to below 1, got {self.label_smoothing}"
            raise ArgumentError("label_smoothing", problem)
        if self.shift < 0:
            raise ArgumentError("shift", f"expected 0 or more pixels, got {self.shift}")
        if not 0 <= self.erase <= 1:
            raise ArgumentError("erase", f"expected a share from 0 to 1, got {self.erase}")

    @classmethod
    def complete(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return the given values with the sizes of the architecture, and a short training if no data is named."""
        architecture = given.get("architecture", "vit")
        reject_unused(architecture, ARCHITECTURES, _without_defaults(given))
        if given.get("data"):
            defaults = {"epochs": 20.0, "shift": SHIFT, **SIZES[architecture]}
        else:
            defaults = {**SMALL_TRAINING, **SMALL_SIZES[architecture]}
        if "width" in given and architecture in FEED_FORWARD:
            defaults["feed_forward"] = FEED_FORWARD[architecture] * given["width"]
        return {**without_durations(defaults, given), **given}


def _without_defaults(given: dict[str, Any]) -> Iterable[str]:
    """Return the names of the given settings, without those of a value that stands for the default."""
    return [name for name, value in given.items() if value is not None]


def stage_depths(text: str) -> tuple[int, ...]:
    """Return the numbers of blocks of the stages that a setting lists.

    >>> stage_depths("2,2,6")
    (2, 2, 6)
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() and int(part) for part in parts):
        problem = f"expected the blocks of each stage, 1 or more, separated by commas, got {text!r}"
        raise ArgumentError("depths", problem, f"such as {option('depths', '2,2')}")
    return tuple(map(int, parts))


@dataclass(frozen=True, kw_only=True)
class ImageEvaluationSettings(ImageMeasurementSettings):
    """The pictures that a classifier of pictures is measured on."""
