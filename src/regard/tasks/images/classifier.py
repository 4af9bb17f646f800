"""A classifier of pictures, which is a model with the names of its classes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from regard.errors import DtypeError, RegardError
from regard.images import read_image, resize_images, to_model_input
from regard.images.reading import on_ground
from regard.maps import Record
from regard.models.config import check_positive
from regard.shapes import whole_number
from regard.tasks.bundle import Bundle, BundledPredictor
from regard.tasks.images.looking import grid_maps, map_record
from regard.text import ClassLabels, Vocabulary
from regard.training.batch_progress import with_progress

if TYPE_CHECKING:
    from regard.capture import Recording

__all__ = ["ImageClassification", "ImageClassifier", "PictureWeights"]

BATCH = 64  # pictures that are classified together
# Training pictures whose mean is below this are light objects on black. Photos have a mean near 0.45.
_DARK = 1 / 3
# The models with attention.
_ATTENDING = ("vision_transformer", "swin")


@dataclass(frozen=True)
class ImageClassification:
    """The class of a picture, with the probability of each class.

    ``source`` is the path of the picture, or its place among the pictures. ``size`` is its height and width, and
    ``image`` the picture as the model read it, (h,w,c). ``inverted`` says that its light and dark were exchanged.

    >>> found = ImageClassification("a.png", "seven", {"seven": 0.9, "one": 0.1}, (28, 28), np.zeros((8, 8, 1)))
    >>> found.title, found.lines()
    ('a.png: seven 0.90', ['a.png\\tseven\\t0.900'])
    """

    source: str
    label: str
    probabilities: dict[str, float]
    size: tuple[int, int]
    image: np.ndarray = field(repr=False, compare=False)
    given: Any = field(default=None, repr=False, compare=False)  # the path or the pixels that were given
    inverted: bool = False

    @property
    def sure(self) -> float:
        """The probability of the class."""
        return self.probabilities[self.label]

    @property
    def title(self) -> str:
        """The name of the picture without its folder, with its class and the probability of it."""
        return f"{os.path.basename(self.source)}: {self.label} {self.sure:.2f}"

    def lines(self, *, scores: bool = False) -> list[str]:
        """Return the picture, its class and the probability of it, or all classes with their probabilities."""
        shown = self.probabilities.items() if scores else [(self.label, self.sure)]
        return [f"{self.source}\t{label}\t{share:.3f}" for label, share in shown]

    def to_json(self, attention: Sequence[PictureWeights] | None = None) -> dict[str, Any]:
        """Return the picture, its class and all probabilities as a JSON object."""
        shares = {label: round(share, 4) for label, share in self.probabilities.items()}
        values: dict[str, Any] = {"source": self.source, "label": self.label, "probabilities": shares}
        return values if not attention else values | attention[0].to_json()


@dataclass(frozen=True)
class PictureWeights:
    """The attention of a model to the patches of a picture, in one row for each map.

    ``recording`` has these maps as its first record, and then all attention of the model. ``picture`` is the picture
    that they are drawn over, and ``title`` its name with its class.
    """

    row_words: list[str]
    weights: np.ndarray  # (maps,patches)
    grid: tuple[int, int]
    picture: np.ndarray = field(repr=False)  # (h,w,c)
    recording: Recording = field(repr=False)
    title: str = ""

    @property
    def column_words(self) -> list[str]:
        """The row and the column of each patch."""
        rows, columns = self.grid
        return [f"{row},{column}" for row in range(rows) for column in range(columns)]

    def to_json(self) -> dict[str, Any]:
        """Return the maps as a JSON object."""
        maps = self.weights.reshape(-1, *self.grid)
        shown = {name: np.round(one, 4).tolist() for name, one in zip(self.row_words, maps, strict=True)}
        return {"attention": shown}


class ImageClassifier(BundledPredictor):
    """A model with the names of its classes, which classifies pictures.

    ``ImageClassifier.load(folder)`` loads a trained model, and ``classify(pictures)`` returns the classes in order.
    ``extra`` are its further settings: the ``mean`` and the ``deviation`` of each channel of the training pictures, and
    the ``temperature`` that the logits are divided by. ``background`` is the colour at the edges of the training
    pictures, a byte for each channel, which transparent pictures are put on.
    """

    task: ClassVar[str] = "images"

    def __init__(self, model: Any, labels: ClassLabels, extra: dict[str, Any]):
        self.model, self.labels, self.extra = model, labels, extra

    def classify(
        self, pictures: Iterable[Any], *, batch_size: int | None = None
    ) -> list[ImageClassification]:
        """Classify pictures, and return the classifications in their order.

        A picture is a path, the bytes of a file, a Pillow image or an array ``(h,w)`` or ``(h,w,c)``. It is resized to
        the size that the model was trained on, and converted to grey or to colours as the model needs it. A picture
        without colours that is dark on light is inverted if the training pictures were light on dark, and the reverse.
        """
        given = _checked(pictures)
        size = BATCH if batch_size is None else whole_number("batch_size", batch_size, least=1)
        found: list[ImageClassification] = []
        chunks = [given[start : start + size] for start in range(0, len(given), size)]
        for some in with_progress(chunks, len(given), "pictures"):
            read = [
                read_image(one, channels=self.channels, background=self.background, argument="pictures")
                for one in some
            ]
            turned = [on_ground(image, self._ground) for image in read]
            images = np.stack([resize_images(image, self.size) for image, _ in turned])  # (b,h,w,c)
            parts = zip(some, read, turned, images, self.shares(images), strict=True)
            for source, before, (_, inverted), image, shares in parts:
                named = zip(self.labels.names, shares.tolist(), strict=True)
                by_label = dict(sorted(named, key=lambda item: -item[1]))
                name = os.fspath(source) if isinstance(source, str | os.PathLike) else ""
                shape = (before.shape[0], before.shape[1])
                found.append(
                    ImageClassification(
                        name or f"picture {len(found) + 1}",
                        next(iter(by_label)),
                        by_label,
                        shape,
                        image,
                        source if name else before,
                        inverted,
                    )
                )
        return found

    __call__ = classify

    @torch.no_grad()
    def logits(self, images: np.ndarray, *, batch_size: int = 256) -> Tensor:
        """Return the logits ``(n,classes)`` of pictures ``(n,h,w,c)`` of bytes, in the size of the model."""
        self.model.eval()
        starts = range(0, len(images), batch_size)
        parts = [self._run(images[start : start + batch_size]).float().cpu() for start in starts]
        return torch.cat(parts) if parts else torch.empty(0, len(self.labels))

    def shares(self, images: np.ndarray) -> Tensor:
        """Return the probabilities ``(n,classes)`` of pictures ``(n,h,w,c)`` of bytes, in the size of the model."""
        return (self.logits(images) / self.temperature).softmax(dim=-1)

    def _run(self, images: np.ndarray, records: list[Record] | None = None) -> Tensor:
        inputs = to_model_input(images, self.extra["mean"], self.extra["deviation"])  # (b,c,h,w)
        return self.model(inputs.to(self.device), records=records)  # (b,classes)

    @property
    def size(self) -> tuple[int, int]:
        """The height and the width of the pictures that the model reads."""
        return self.model.config.size

    @property
    def channels(self) -> int:
        """The number of channels that the model reads, 1 (grey) or 3."""
        return self.model.config.channels

    @property
    def background(self) -> list[int]:
        """The colour that transparent pictures are put on, a byte for each channel.

        For models of earlier versions it is black if their training pictures were dark, and otherwise white.
        """
        usual = 0 if sum(self.extra["mean"]) / self.channels < _DARK else 255
        return self.extra.get("background", [usual] * self.channels)

    @property
    def _ground(self) -> list[int] | None:
        """The colour at the edges of the training pictures, or None if it is not known."""
        known = "background" in self.extra or max(self.background) == 0
        return self.background if known else None

    @property
    def temperature(self) -> float:
        """The number that the logits are divided by, so that the probabilities are those of being right."""
        return float(self.extra.get("temperature", 1.0))

    @property
    def attends(self) -> bool:
        """Whether the model has attention."""
        return self.model.config.kind in _ATTENDING

    @torch.no_grad()
    def attention(self, prediction: ImageClassification) -> Recording:
        """Return all attention of the model for one picture, as :func:`regard.capture` records it."""
        from regard.capture import Recording

        records: list[Record] = []
        self.model.eval()
        self._run(prediction.image[None], records)
        pooled = {"query_tokens": [[prediction.label]]}
        return Recording([replace(one, **(pooled if one.kind == "cross" else {})) for one in records])

    def pictures(self, prediction: ImageClassification) -> list[np.ndarray]:
        """Return the picture that the attention of a prediction is drawn over, in its own size."""
        source = prediction.image if prediction.given is None else prediction.given
        return [read_image(source, background=self.background, argument="pictures")]

    def word_weights(self, prediction: ImageClassification) -> list[PictureWeights]:
        """Return where the model looks in a picture, and the rollout of its attention through all layers."""
        from regard.capture import Recording

        recording = self.attention(prediction)
        maps = grid_maps(recording.records)
        page = Recording([map_record(maps), *recording.records])
        (picture,) = self.pictures(prediction)
        return [PictureWeights(maps.names, maps.weights, maps.grid, picture, page, prediction.title)]

    def vocabularies(self) -> dict[str, Vocabulary]:
        """Return no vocabulary, since there are no texts."""
        return {}

    def saved_settings(self) -> dict[str, Any]:
        """Return the classes and the further settings of the model."""
        return {**self.extra, "labels": self.labels.names}

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Self:
        """Make a classifier from a saved model, or raise FileError if its settings do not fit together."""
        settings, network = bundle.settings, bundle.model()
        labels = ClassLabels.checked(settings, str(bundle.folder / "config.json"))
        if getattr(network.config, "classes", None) != len(labels):
            raise bundle.reject(f"classes is not {len(labels)}, as the labels beside it say")
        for name in ("mean", "deviation"):
            numbers = settings.get(name)
            wanted = getattr(network.config, "channels", 1)
            if not isinstance(numbers, list) or len(numbers) != wanted:
                raise bundle.reject(f"{name}: expected {wanted} numbers, one a channel, got {numbers!r}")
        bundle.check_background(getattr(network.config, "channels", 1))
        try:
            for number in [settings.get("temperature", 1.0), *settings["deviation"]]:
                check_positive("temperature and deviation", number)
        except RegardError as error:
            raise bundle.reject(str(error)) from None
        return cls(network, labels, settings)


def _checked(pictures: Iterable[Any]) -> list[Any]:
    """Return pictures as a list, or raise DtypeError if a single one is given."""
    if isinstance(pictures, str | bytes | os.PathLike) or not isinstance(pictures, Iterable):
        given = type(pictures).__name__
        raise DtypeError("pictures", f"expected a list of pictures, got one {given}", "put it in a list")
    if getattr(pictures, "ndim", 4) == 2:
        raise DtypeError("pictures", "expected a list of pictures, got one array (h,w)", "put it in a list")
    return list(pictures)
