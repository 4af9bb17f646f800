"""A classifier that reads pictures in glimpses, which is a model with its labels and its canvas."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from regard.errors import ArgumentError, DtypeError
from regard.images import read_image, resize_images, to_model_input
from regard.images.reading import in_pixels, on_ground
from regard.images.resizing import StretchedPictures
from regard.maps import AttentionMap, Record
from regard.models import GlimpseModel
from regard.models.glimpse import Generators
from regard.models.retina import corners_of_glimpses, glimpses_at, summed_areas
from regard.shapes import whole_number
from regard.tasks.bundle import Bundle, BundledPredictor
from regard.tasks.glimpse.canvas import Canvas
from regard.tasks.glimpse.settings import MODES
from regard.text import Vocabulary

if TYPE_CHECKING:
    from regard.capture import Recording
    from regard.plots.glimpses import GlimpseFrame

__all__ = ["GlimpseClassifier", "PictureGlimpses", "PictureWeights"]

BATCH = 256  # pictures that are classified together
SHOWN = 3  # labels that are shown after each glimpse


class Run(NamedTuple):
    """The answers of a model to a batch, and where it looked."""

    # Log probabilities after each glimpse, with t = 1 for a model without glimpses.
    logs: Tensor  # (b,t,classes)
    places: Tensor | None  # (b,t,2), of the first sample


@dataclass(frozen=True)
class PictureGlimpses:
    """The label of a picture, and the glimpses that led to it.

    ``places`` are the rows and columns of the centres of the glimpses, in pixels. ``steps`` has the probabilities of
    the labels after each glimpse. ``picture (h,w,c)`` are the pixels that the model saw.
    """

    source: str
    label: str
    probabilities: dict[str, float]
    places: list[tuple[float, float]]
    steps: list[dict[str, float]]
    picture: np.ndarray = field(repr=False, compare=False)
    changed: str = ""  # what was done to fit the picture to the model

    @property
    def sure(self) -> float:
        """The probability of the label."""
        return self.probabilities[self.label]

    def lines(self, *, scores: bool = False) -> list[str]:
        """Return the picture, its label and the probability of it, or all labels with their probabilities."""
        shown = self.probabilities.items() if scores else [(self.label, self.sure)]
        return [f"{self.source}\t{label}\t{share:.3f}" for label, share in shown]

    def path_lines(self) -> list[str]:
        """Return a line for each glimpse, with its place and the answer after it."""
        lines = []
        for number, (place, step) in enumerate(zip(self.places, self.steps, strict=True), start=1):
            label, share = next(iter(step.items()))
            lines.append(f"glimpse {number}: row {place[0]:.0f}, column {place[1]:.0f}: {label} {share:.3f}")
        return lines

    def to_json(self, attention: Any = None) -> dict[str, Any]:
        """Return the label, all probabilities and, if ``attention`` is given, the glimpses as a JSON object."""
        shares = {label: round(share, 4) for label, share in self.probabilities.items()}
        values: dict[str, Any] = {"source": self.source, "label": self.label, "probabilities": shares}
        if attention:
            values["glimpses"] = [
                {"row": round(row, 2), "column": round(column, 2)} | _first(step)
                for (row, column), step in zip(self.places, self.steps, strict=True)
            ]
        return values


def _first(step: dict[str, float]) -> dict[str, Any]:
    label, share = next(iter(step.items()))
    return {"label": label, "probability": round(share, 4)}


@dataclass(frozen=True)
class PictureWeights:
    """The pixels that each glimpse covers, as weights ``(glimpses, pixels)`` whose rows sum to 1."""

    row_words: list[str]
    column_words: list[str]
    weights: np.ndarray
    grid: tuple[int, int]
    picture: np.ndarray

    def to_json(self) -> dict[str, Any]:
        """Return the weights as a JSON object."""
        rows = [[round(float(weight), 6) for weight in row] for row in self.weights]
        return {"glimpses": self.row_words, "grid": list(self.grid), "attention": rows}


class GlimpseClassifier(BundledPredictor):
    """A model that reads pictures in glimpses, with its labels.

    ``GlimpseClassifier.load(folder)`` loads a trained model, and ``glimpse(pictures)`` returns the labels in order.
    ``extra`` are its further settings: the ``mode`` of its training pictures, the canvas they were on, and the
    ``size`` of the pictures that it reads.
    """

    task: ClassVar[str] = "glimpse"

    def __init__(self, model: Any, labels: Sequence[str], extra: dict[str, Any]):
        self.model, self.labels, self.extra = model, list(labels), extra
        self.canvas = self.canvas_in(extra.get("mode", "plain"))

    def canvas_in(self, mode: str) -> Canvas:
        """Return the canvas of the training in another mode, such as "plain"."""
        names = ("canvas", "clutter", "clutter_size")
        return Canvas(mode=mode, **{name: self.extra[name] for name in names if name in self.extra})

    @property
    def size(self) -> tuple[int, int]:
        """The rows and columns of the pictures that the model reads."""
        rows, columns = self.extra["size"]
        return rows, columns

    @property
    def channels(self) -> int:
        """The channels of the pictures that the model reads."""
        return self.model.config.channels

    @property
    def attends(self) -> bool:
        """Whether the model looks at pictures in glimpses."""
        return isinstance(self.model, GlimpseModel)

    @property
    def draws_places(self) -> bool:
        """Whether the model draws places at random even with one sample."""
        config = self.model.config
        return self.attends and "random" in (config.policy, config.first)

    def glimpse(
        self,
        pictures: Iterable[Any],
        *,
        samples: int = 1,
        seed: int = 0,
        first: int = 0,
        batch_size: int | None = None,
    ) -> list[PictureGlimpses]:
        """Classify pictures, and return the labels with the glimpses in order.

        A picture is a file, an array ``(h,w)`` or ``(h,w,c)``, or a Pillow image. With one sample, the model looks at
        the places that it finds best. With more, places are drawn around them, and the probabilities are means. The
        places that are returned are then those of the first sample. The draws for a picture depend on ``seed`` and on
        its number, where ``first`` is the number of the first picture.
        """
        samples = whole_number("samples", samples, least=1)
        size = BATCH if batch_size is None else whole_number("batch_size", batch_size, least=1)
        seed, first = whole_number("seed", seed, least=0), whole_number("first", first, least=0)
        if isinstance(pictures, str | bytes | os.PathLike) or not isinstance(pictures, Iterable):
            raise DtypeError(
                "pictures", f"expected a list of pictures, got {pictures!r:.60}", "put it in a list"
            )
        found: list[PictureGlimpses] = []
        names_and_pictures = [self._read(one, number) for number, one in enumerate(pictures, start=first)]
        for start in range(0, len(names_and_pictures), size):
            some = names_and_pictures[start : start + size]
            inputs = to_model_input(
                np.stack([picture for _, picture, _ in some]), [0.0] * self.channels, [1.0] * self.channels
            )
            chances = [_generator(seed, first + start + place) for place in range(len(some))]
            run = self.run(inputs, samples=samples, generator=chances)
            for place, (name, picture, changed) in enumerate(some):
                at = None if run.places is None else run.places[place]
                found.append(self._prediction(name, picture, changed, run.logs[place], at))
        return found

    __call__ = glimpse

    @torch.no_grad()
    def run(self, images: Tensor, *, samples: int = 1, generator: Generators = None) -> Run:
        """Return the answers to ``images (b,c,h,w)`` with pixels from 0 to 1.

        ``generator`` is as for :class:`~regard.models.GlimpseModel`.
        """
        self.model.eval()
        images = images.to(self.device)
        if not self.attends:
            return Run(self.model(images).float().log_softmax(dim=-1)[:, None], None)
        steps = self.model(images, samples=samples, greedy=samples == 1, generator=generator)
        return Run(steps.log_probabilities_of_classes(), steps.places[:, 0])

    def _read(self, source: Any, number: int) -> tuple[str, np.ndarray, str]:
        """Return the name of a picture, its pixels in the size of the model, and what was done to it."""
        name = os.fspath(source) if isinstance(source, str | os.PathLike) else f"picture {number + 1}"
        known = {"channels": self.channels, "background": self._background}
        picture, inverted = on_ground(
            read_image(source, **known, argument="pictures"), self.extra.get("background")
        )
        height, width = picture.shape[:2]
        done = ["inverted to be on the ground of the training pictures"] if inverted else []
        if (height, width) == self.size:
            pass
        elif self.canvas.mode != "plain" and max(height, width) <= self.canvas.canvas:
            picture = self.canvas.centred(picture, self._background)
            done.append(f"put on {in_pixels(self.size)}")
        else:
            stretched = StretchedPictures(self.size).count(str(name), (height, width))
            picture = resize_images(picture, self.size)
            done.append(f"resized to {in_pixels(self.size)}{', which stretches it' if stretched else ''}")
        return str(name), picture, ", and ".join(done)

    @property
    def _background(self) -> list[int]:
        return self.extra.get("background", [0] * self.channels)

    def _prediction(
        self, name: str, picture: np.ndarray, changed: str, logs: Tensor, places: Tensor | None
    ) -> PictureGlimpses:
        steps = []
        for row in logs.double().exp().tolist():
            by_label = sorted(zip(self.labels, row, strict=True), key=lambda item: -item[1])
            steps.append(dict(by_label))
        rows, columns = self.size
        centres = [] if places is None else ((places.double() + 1) / 2).tolist()
        at = [(row * rows, column * columns) for row, column in centres]
        last = steps[-1]
        return PictureGlimpses(name, next(iter(last)), last, at, steps if at else [], picture, changed)

    # -- what the model looked at

    def frames(self, prediction: PictureGlimpses) -> list[GlimpseFrame]:
        """Return the squares, the views and the answers of each glimpse, which :mod:`regard.plots` draws."""
        from regard.plots.glimpses import GlimpseFrame

        squares, seen = self._squares(prediction), self._seen(prediction)
        frames = []
        for square, views, step in zip(squares, seen, prediction.steps, strict=True):
            frames.append(GlimpseFrame(square, views, list(step.items())[:SHOWN]))
        return frames

    def _places(self, prediction: PictureGlimpses) -> Tensor:
        """Return the places of the glimpses from -1 to 1, ``(1,t,2)``."""
        if not self.attends:
            raise ArgumentError("prediction", "this model has no glimpses: it sees the whole picture")
        sizes = torch.tensor(self.size, dtype=torch.float64)
        return (torch.tensor(prediction.places, dtype=torch.float64) / sizes * 2 - 1)[None]

    def _squares(self, prediction: PictureGlimpses) -> list[list[tuple[int, int, int]]]:
        """Return the first row, the first column and the side of each scale of each glimpse."""
        places, config = self._places(prediction)[0], self.model.config
        sizes = {"size": config.glimpse_size, "scales": config.scales}
        top, left = corners_of_glimpses(places, *self.size, **sizes)  # (t,scales)
        sides = [config.glimpse_size * 2**scale for scale in range(config.scales)]
        return [list(zip(*row, sides, strict=True)) for row in zip(top.tolist(), left.tolist(), strict=True)]

    def _seen(self, prediction: PictureGlimpses) -> np.ndarray:
        """Return what each glimpse showed, ``(t,scales,size,size,c)`` with numbers from 0 to 1."""
        config = self.model.config
        image = to_model_input(prediction.picture[None], [0.0] * self.channels, [1.0] * self.channels)
        places = self._places(prediction)
        seen = glimpses_at(summed_areas(image), places, size=config.glimpse_size, scales=config.scales)
        return seen[0].permute(0, 1, 3, 4, 2).clamp(0, 1).numpy()

    def attention(self, prediction: PictureGlimpses) -> Recording:
        """Return the glimpses as a recording, in which each glimpse attends to the pixels that it covers.

        The weight of a glimpse is divided equally among its scales, and that of a scale among its pixels.
        """
        from regard.capture import Recording

        rows, columns = self.size
        squares = self._squares(prediction)
        weights = torch.zeros(1, 1, len(squares), rows, columns)
        for number, scales in enumerate(squares):
            for top, left, side in scales:
                inside = weights[0, 0, number, max(top, 0) : top + side, max(left, 0) : left + side]
                inside += 1 / (len(scales) * max(1, inside.numel()))
        record = Record(
            name="retina",
            layer=None,
            kind="cross",
            map=AttentionMap.from_weights(weights.flatten(3)),
            query_tokens=[self._names(prediction)],
            key_grid=(rows, columns),
        )
        return Recording([record])

    def word_weights(self, prediction: PictureGlimpses) -> list[PictureWeights]:
        """Return the weights of :meth:`attention` with names for the glimpses and the pixels."""
        rows, columns = self.size
        weights = self.attention(prediction)[0].map.weights()[0, 0].double().numpy()  # (t,pixels)
        pixels = [f"{row},{column}" for row in range(rows) for column in range(columns)]
        names = self._names(prediction)
        return [PictureWeights(names, pixels, weights, (rows, columns), prediction.picture)]

    def _names(self, prediction: PictureGlimpses) -> list[str]:
        return [f"{number}: {next(iter(step))}" for number, step in enumerate(prediction.steps, start=1)]

    # -- folders

    def vocabularies(self) -> dict[str, Vocabulary]:
        """Return nothing, since pictures have no vocabulary."""
        return {}

    def saved_settings(self) -> dict[str, Any]:
        """Return the labels and the further settings of the model."""
        return {**self.extra, "labels": self.labels}

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Self:
        """Make a classifier from a saved model, or raise FileError if its settings do not fit together."""
        settings, network = bundle.settings, bundle.model()
        labels, size = settings.get("labels"), settings.get("size")
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise bundle.reject(f"labels: expected a list of names, got {labels!r:.60}")
        if network.config.classes != len(labels):
            raise bundle.reject(f"classes is not {len(labels)}, as the labels beside it say")
        if (
            not isinstance(size, list)
            or len(size) != 2
            or not all(isinstance(one, int) and one > 0 for one in size)
        ):
            raise bundle.reject(f"size: expected the rows and columns of pictures, got {size!r:.60}")
        if settings.get("mode", "plain") not in MODES:
            raise bundle.reject(f"mode: expected one of {', '.join(MODES)}, got {settings['mode']!r:.60}")
        bundle.check_background(network.config.channels)
        return cls(network, labels, settings)


def _generator(seed: int, number: int) -> torch.Generator:
    """Return the random numbers of the picture with a number."""
    (state,) = np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state))
