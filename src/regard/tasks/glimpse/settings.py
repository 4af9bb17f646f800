"""The settings of training and measuring a classifier that reads pictures in glimpses, without torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from regard.errors import ArgumentError, UnknownNameError, option
from regard.settings import setting
from regard.tasks.image_settings import ImageDataSettings, ImageMeasurementSettings
from regard.tasks.settings import TaskSettings, changed, reject_unused
from regard.training.settings import TrainingSettings, without_durations

__all__ = ["GlimpseEvaluationSettings", "GlimpseSettings"]

MODES = ("plain", "translated", "cluttered")
POLICIES = ("learned", "random", "centre")
FIRST_PLACES = ("centre", "random")
REWARDS = ("log_probability", "correct")
# For each architecture, the settings that the other has no use for.
ARCHITECTURES: dict[str, tuple[str, ...]] = {
    "glimpse": (
        *("glimpses", "glimpse_size", "scales", "glimpse_width", "policy", "first", "place_std"),
        *("learned_std", "samples", "reward", "early_loss"),
    ),
    "dense": (),
}
# Settings that only a learned policy uses.
_OF_THE_POLICY = ("place_std", "learned_std", "reward")
# Settings of the canvas, which plain pictures do not have.
_OF_THE_CANVAS = {"canvas": ("translated", "cluttered"), "clutter": MODES[2:], "clutter_size": MODES[2:]}

# The settings that are used if no data is named. The digits have 8×8 pixels.
DEFAULTS: dict[str, Any] = {
    "mode": "translated",
    "canvas": 20,
    "glimpses": 5,
    "glimpse_size": 4,
    "scales": 3,
    "batch_size": 128,
    "epochs": 60.0,
    "learning_rate": 3e-3,
    "warmup": 50,
    "average": 0.99,
    "validate_every": 165,
}
# The retina of the paper for pictures on a canvas of 60×60 pixels.
ON_A_CANVAS: dict[str, Any] = {"glimpses": 8, "glimpse_size": 12, "scales": 3}


@dataclass(frozen=True, kw_only=True)
class _Pictures(ImageDataSettings):
    """Labelled pictures, and what is made of them."""

    title: ClassVar[str] = "Data"

    mode: str = setting(
        "plain", "plain, translated (at random places of a canvas) or cluttered (among parts of others)."
    )
    canvas: int = setting(60, "Translated and cluttered: pixels of the canvas in each direction.")
    clutter: int = setting(4, "Cluttered: parts of other pictures on a canvas.")
    clutter_size: int = setting(8, "Cluttered: pixels of such a part in each direction.")
    shift: int = setting(0, "Pixels that a training picture is moved at most in each direction.")

    def __post_init__(self):
        super().__post_init__()
        if self.mode not in MODES:
            raise UnknownNameError("mode", self.mode, MODES)
        for name in ("canvas", "clutter", "clutter_size"):
            if getattr(self, name) < 1:
                raise ArgumentError(name, f"expected 1 or more, got {getattr(self, name)}")
        if self.shift < 0:
            raise ArgumentError("shift", f"expected 0 or more pixels, got {self.shift}")


@dataclass(frozen=True, kw_only=True)
class _Network(TaskSettings):
    """A network that reads pictures in glimpses, or as a whole."""

    title: ClassVar[str] = "Model"

    architecture: str = setting(
        "glimpse", "glimpse, or dense for a fully connected network that sees the whole picture."
    )
    width: int | None = setting(
        None,
        "Numbers of the state; by default 256. Of dense: numbers of a hidden layer, by default as many as "
        "give it the parameters of the glimpse network.",
    )
    dropout: float = setting(0.0, "Share of the state dropped before the output in training.")
    glimpses: int = setting(6, "Glimpses at each picture.")
    glimpse_size: int = setting(8, "Pixels of a glimpse in each direction, at the finest scale.")
    scales: int = setting(1, "Scales of a glimpse, each twice as wide and half as sharp as the one before.")
    glimpse_width: int = setting(128, "Numbers that represent what a glimpse shows, and its place.")
    policy: str = setting("learned", "Places after the first: learned, random or centre.")
    first: str = setting("centre", "Place of the first glimpse: centre or random.")
    place_std: float = setting(0.2, "Standard deviation of places in training, where the picture is 2 wide.")
    learned_std: bool = setting(False, "Train that standard deviation too.")

    def __post_init__(self):
        super().__post_init__()
        for name, known in (("policy", POLICIES), ("first", FIRST_PLACES)):
            if getattr(self, name) not in known:
                raise UnknownNameError(name, getattr(self, name), known)


@dataclass(frozen=True, kw_only=True)
class GlimpseSettings(TrainingSettings, _Network, _Pictures):
    """The data, the model and the training of a classifier that reads pictures in glimpses.

    >>> GlimpseSettings(data="mnist", epochs=3.0).glimpses
    6
    """

    title: ClassVar[str] = "Training"
    batch_sizes: ClassVar[tuple[str, ...]] = ("batch_size",)

    batch_size: int = setting(256, "Pictures of a batch.")
    samples: int = setting(4, "Paths of glimpses at each picture of a batch.")
    reward: str = setting(
        "log_probability",
        "What places are trained for: the gain in log_probability of the right class, or 1 if the answer is "
        "correct and 0 if not.",
    )
    early_loss: float = setting(
        0.2, "Weight of the cross entropy after earlier glimpses than the last, 0 for the last alone."
    )
    label_smoothing: float = setting(0.0, "Probability that is spread evenly over all classes.")

    def __post_init__(self):
        super().__post_init__()
        reject_unused(self.architecture, ARCHITECTURES, changed(self))
        _reject_unused(self.mode, self.policy, changed(self))
        for name in changed(self) if self.glimpses == 1 else ():
            if name in _OF_THE_POLICY:
                problem = f"of no use with {option('glimpses', 1)}, after which no place is chosen"
                raise ArgumentError(name, problem, "leave it out, or take more glimpses")
        if self.reward not in REWARDS:
            raise UnknownNameError("reward", self.reward, REWARDS)
        for name in ("batch_size", "samples"):
            if getattr(self, name) < 1:
                raise ArgumentError(name, f"expected 1 or more, got {getattr(self, name)}")
        if not self.early_loss >= 0:
            raise ArgumentError("early_loss", f"expected 0 or more, got {self.early_loss}")
        if not 0 <= self.label_smoothing < 1:
            problem = f"expected a share from 0 to below 1, got {self.label_smoothing}"
            raise ArgumentError("label_smoothing", problem)

    @classmethod
    def complete(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return small glimpses at the embedded digits if no data is named, and defaults for the canvas."""
        architecture = given.get("architecture", "glimpse")
        reject_unused(architecture, ARCHITECTURES, given)
        defaults = {"epochs": 20.0} if given.get("data") else dict(DEFAULTS)
        mode = given.get("mode", defaults.get("mode", "plain"))
        if given.get("data") and mode != "plain":
            defaults |= ON_A_CANVAS
        if mode == "plain":
            defaults.pop("canvas", None)
        if mode == "cluttered" and not given.get("data"):
            defaults["clutter_size"] = 3
        _reject_unused(mode, given.get("policy", "learned"), given)
        unused = ARCHITECTURES["glimpse"] if architecture == "dense" else ()
        defaults = {name: value for name, value in defaults.items() if name not in unused}
        return {**without_durations(defaults, given), **given}


def _reject_unused(mode: str, policy: str, given: Iterable[str]) -> None:
    """Reject settings of a canvas or of a learned policy where there is none."""
    for name in given:
        if mode in MODES and mode not in _OF_THE_CANVAS.get(name, MODES):
            fix = f"leave it out, or say {option('mode', _OF_THE_CANVAS[name][-1])}"
            raise ArgumentError(name, f"of no use for {option('mode', mode)}", fix)
        if policy in POLICIES and policy != "learned" and name in _OF_THE_POLICY:
            problem = f"of no use for {option('policy', policy)}, which is not trained"
            raise ArgumentError(name, problem, "leave it out")
        if policy == "centre" and name == "first":
            raise ArgumentError(name, f"of no use for {option('policy', policy)}", "leave it out")


@dataclass(frozen=True, kw_only=True)
class GlimpseEvaluationSettings(ImageMeasurementSettings):
    """The pictures that a classifier is measured on."""

    title: ClassVar[str] = "Data"

    mode: str | None = setting(None, "plain, translated or cluttered; by default as the model was trained.")
    samples: int = setting(
        1, "Paths of glimpses at each picture. Above 1, places are drawn at random, and the answers averaged."
    )
    places_seed: int = setting(0, "Seed of the places on the canvas, and of drawn places of glimpses.")

    def __post_init__(self):
        super().__post_init__()
        if self.mode is not None and self.mode not in MODES:
            raise UnknownNameError("mode", self.mode, MODES)
        for name, least in (("samples", 1), ("places_seed", 0)):
            if getattr(self, name) < least:
                raise ArgumentError(name, f"expected {least} or more, got {getattr(self, name)}")
