"""The settings of training and evaluating a captioner, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from regard.errors import ArgumentError, UnknownNameError, option
from regard.settings import setting
from regard.tasks.settings import (
    BatchSettings,
    DataSettings,
    EmbeddedSettings,
    EvaluationSettings,
    TaskSettings,
    TokenSettings,
    changed,
)
from regard.training.settings import LEAST_STEPS, without_durations

__all__ = ["DEFAULTS", "FOR_SCENES", "LANGUAGES", "CaptionEvaluationSettings", "CaptionSettings"]

LANGUAGES = ("en", "zh")
SCORES = ("none", "dot", "scaled_dot", "additive", "bilinear")

# The settings that are used for scenes. With these, the training lasts as long as the user says, or 36 minutes.
FOR_SCENES: dict[str, Any] = {
    "embedded": 200_000,
    "width": 128,
    "feed_forward": 384,
    "encoder_layers": 2,
    "dropout": 0.1,
    "batch_tokens": 700,
    "minutes": 36.0,
    "learning_rate": 3e-3,
    "optimizer": "muon",
    "precision": "auto",
    "warmup": 300,
    "validate_every": 1000,
}
# The settings for scenes of scikit-learn's digits, which are smaller and fewer. A model is trained in a few minutes.
DEFAULTS: dict[str, Any] = {
    **{name: value for name, value in FOR_SCENES.items() if name != "minutes"},
    "embedded": 40_000,
    "image_height": 48,
    "image_width": 48,
    "width": 64,
    "feed_forward": 128,
    "dropout": 0.0,
    "batch_tokens": 500,
    "steps": 3000,
    "warmup": 100,
    "average": 0.995,
    "validate_pictures": 150,
}


@dataclass(frozen=True, kw_only=True)
class SceneSettings(EmbeddedSettings):
    """Scenes that are composed of pictures of single objects."""

    title: ClassVar[str] = "Scenes"
    default_embedded: ClassVar[int] = DEFAULTS["embedded"]

    embedded: int | None = setting(
        None, "Composed scenes to add to the data, or to train on where there is none."
    )
    embedded_seed: int = setting(0, "Seed of the composed scenes.")
    digits: str | None = setting(
        None, "Folder of MNIST's idx files, whose digits are the objects of scenes; by default 8×8 digits."
    )
    garments: str | None = setting(
        None, "Folder of Fashion-MNIST's idx files, whose garments are objects of scenes too."
    )
    words: str | None = setting(
        None, "Objects of the scenes, such as seven,bag; by default all digits and five garments."
    )
    language: str = setting("en", "Language of the captions of scenes: en or zh.")

    def __post_init__(self):
        super().__post_init__()
        if self.language not in LANGUAGES:
            raise UnknownNameError("language", self.language, LANGUAGES)
        self.check_embedded_count("captioned pictures")
        if self.embedded_count:
            return
        for name in ("digits", "garments", "words", "language"):
            if name in changed(self):
                fix = f"add scenes with {option('embedded')}, or leave it out"
                raise ArgumentError(name, f"of no use without scenes ({option('embedded', 0)})", fix)


@dataclass(frozen=True, kw_only=True)
class CaptionedPictures(DataSettings):
    """Files of pictures with captions."""

    title: ClassVar[str] = "Data"
    locations: ClassVar[tuple[str, ...]] = (*DataSettings.locations, "images", "digits", "garments")

    columns: str | None = setting(
        None, "Columns (numbers) or fields (names) of the picture's file and its caption."
    )
    images: str | None = setting(
        None, "Folder of the pictures that the data names; by default the folder of the data."
    )

    def __post_init__(self):
        super().__post_init__()
        _check_images(self)

    def pictures_of(self, location: str) -> list[Path]:
        """Return the pictures that the table of a location names, unless they are in a folder of their own."""
        from regard.tasks.pairs import parsed_columns
        from regard.text import read_pairs

        source = getattr(self, location)
        if location not in ("data", "valid") or self.images is not None or source.startswith("hf:"):
            return []
        columns, options = parsed_columns(self.columns), {"max_words": None, "skip_bad_rows": True}
        rows = read_pairs(source, columns=columns, format=self.format, **options)
        return [Path(source).parent / file.strip() for file, _ in rows]


@dataclass(frozen=True, kw_only=True)
class _CaptionTokens(TokenSettings):
    """Tokens of captions."""

    title: ClassVar[str] = "Vocabulary"

    vocabulary: str = setting("word", "bpe, word, character or byte.")
    max_caption: int = setting(60, "Tokens of a caption, at most. Longer ones are left out of the training.")


@dataclass(frozen=True, kw_only=True)
class _CaptionNetwork(TaskSettings):
    """A convolutional encoder and a recurrent decoder with attention."""

    title: ClassVar[str] = "Model"

    image_height: int = setting(64, "Height of the pictures in pixels. Others are resized.")
    image_width: int = setting(64, "Width of the pictures in pixels. Others are resized.")
    channels: int = setting(1, "1 for grey pictures, 3 for colours.")
    patch: int = setting(4, "Side of a cell of the grid that is attended to, in pixels: 4, 8, 16 or 32.")
    encoder_layers: int = setting(3, "Convolutional blocks. Few keep the features of a cell local.")
    width: int = setting(96, "Numbers that represent a cell or a word.")
    feed_forward: int = setting(192, "Width inside the convolutional blocks.")
    dropout: float = setting(0.0, "Share of the activations dropped in training.")
    score: str = setting(
        "additive", "Attention: none (one fixed vector), dot, scaled_dot, additive or bilinear."
    )
    cell: str = setting("gru", "Decoder: gru or lstm.")
    decoder_layers: int = setting(1, "Recurrent layers of the decoder.")
    input_feeding: bool = setting(False, "Each step reads the attention output of the one before.")
    doubly_stochastic: float = setting(
        0.0,
        "Weight of the penalty that spreads the attention of all words over the picture (Xu et al. 2015).",
    )

    def __post_init__(self):
        super().__post_init__()
        if self.score not in SCORES:
            raise UnknownNameError("score", self.score, SCORES)
        if not 0 <= self.doubly_stochastic < float("inf"):
            raise ArgumentError("doubly_stochastic", f"expected 0 or more, got {self.doubly_stochastic}")
        for name in ("doubly_stochastic", "input_feeding"):
            if getattr(self, name) and self.score == "none":
                problem = f"of no use without attention ({option('score', 'none')})"
                raise ArgumentError(name, problem, f"give another {option('score')}, or leave it out")


@dataclass(frozen=True, kw_only=True)
class CaptionSettings(BatchSettings, _CaptionNetwork, _CaptionTokens, SceneSettings, CaptionedPictures):
    """The data, the model and the training of a captioner.

    >>> CaptionSettings(data="photos.tsv").score
    'additive'
    """

    title: ClassVar[str] = "Training"
    changeable: ClassVar[tuple[str, ...]] = (*BatchSettings.changeable, "validate_pictures")

    batch_tokens: int = setting(500, "Tokens of the captions of a batch, padding included.")
    label_smoothing: float = setting(0.0, "Probability that is spread evenly over all tokens.")
    least_steps: int = setting(1500, LEAST_STEPS)
    validate_pictures: int = setting(300, "Pictures that are captioned to validate.")

    def __post_init__(self):
        super().__post_init__()
        for name in ("validate_pictures", "max_caption"):
            if getattr(self, name) < 1:
                raise ArgumentError(name, f"expected 1 or more, got {getattr(self, name)}")
        if self.batch_tokens < self.max_caption:
            problem = (
                f"{self.batch_tokens} tokens hold no caption of {option('max_caption', self.max_caption)}"
            )
            raise ArgumentError("batch_tokens", problem)
        if self.embedded_count and self.image_height != self.image_width:
            sizes = f"a height of {self.image_height} and a width of {self.image_width} pixels"
            raise ArgumentError("image_width", f"scenes are square, got {sizes}", "give equal sizes")

    @classmethod
    def complete(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return the settings for scenes if no data is named, and ten epochs if nothing says how long to train."""
        folders = given.get("digits") or given.get("garments")
        for_scenes = FOR_SCENES if folders else DEFAULTS
        defaults = {"epochs": 10.0} if given.get("data") else for_scenes
        return {**without_durations(defaults, given), **given}


@dataclass(frozen=True, kw_only=True)
class CaptionEvaluationSettings(EvaluationSettings):
    """The pictures that a captioner is measured on, and how it writes."""

    title: ClassVar[str] = "Pictures"

    images: str | None = setting(
        None, "Folder of the pictures that the data names; by default the folder of the data."
    )
    digits: str | None = setting(None, "Folder of MNIST's idx files, for scenes with its test digits.")
    garments: str | None = setting(
        None, "Folder of Fashion-MNIST's idx files, for scenes with its test garments."
    )
    embedded_seed: int = setting(0, "Seed of the composed scenes.")
    beams: int = setting(1, "Hypotheses in the beam search, 1 for greedy search.")

    def __post_init__(self):
        super().__post_init__()
        _check_images(self)
        for name in ("digits", "garments"):
            if self.data and getattr(self, name) is not None:
                raise ArgumentError(name, f"of no use with {option('data')}", "leave one of them out")
        if self.beams < 1:
            raise ArgumentError("beams", f"expected 1 or more, got {self.beams}")


def _check_images(settings: CaptionedPictures | CaptionEvaluationSettings) -> None:
    """Reject a folder of pictures without data, and data that is no file without such a folder."""
    if settings.images is not None and not settings.data:
        raise ArgumentError("images", f"of no use without {option('data')}", "leave it out")
    if (
        settings.images is None
        and settings.data
        and (settings.data == "-" or settings.data.startswith("hf:"))
    ):
        problem = f"not given, and {option('data', settings.data)} has no folder"
        raise ArgumentError("images", problem, "name the folder of the pictures")
