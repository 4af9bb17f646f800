"""A captioner, which is a network with its vocabulary that describes pictures in words."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch

from regard.analysis import join_words, word_spans
from regard.decoding import DecodingOptions, Hypothesis, decode
from regard.errors import ArgumentError, DtypeError
from regard.images.reading import on_ground
from regard.maps import Record
from regard.models import CaptionNetwork
from regard.shapes import whole_number
from regard.tasks.bundle import Bundle
from regard.tasks.caption.data import PictureReader
from regard.tasks.text_generation import TextGenerator, options_with
from regard.text import Vocabulary, pad_sequences
from regard.training.batch_progress import with_progress

if TYPE_CHECKING:
    from regard.capture import Recording

__all__ = ["Caption", "CaptionWeights", "Captioner"]

BATCH = 64  # pictures that are captioned together
# The largest number of tokens of a caption, if the model does not say how many it was trained on.
LONGEST = 60
# The name of the step that ends a caption, among its words.
END = "[end]"


@dataclass(frozen=True)
class Caption:
    """The caption of a picture, and its alternatives if more than one was asked for.

    ``pixels`` is the picture as the model read it. A score is the log-probability of a caption divided by its number of
    tokens (to the power of ``length_penalty``).
    """

    source: str  # the file of the picture, or "" if it is none
    text: str
    score: float
    target_ids: list[int]
    pixels: np.ndarray = field(repr=False, compare=False)  # (h,w,c) bytes
    alternatives: tuple[tuple[str, float], ...] = ()  # the next best captions, each with its score
    ended: bool = True  # False if the caption was cut off at the largest length
    size: tuple[int, int] = (0, 0)  # the height and width of the picture before it was resized
    inverted: bool = False  # True if light and dark were exchanged, to be as in the training pictures

    @property
    def title(self) -> str:
        """The name of the picture without its folder, if it is a file, with its caption."""
        return f"{os.path.basename(self.source)}: {self.text}" if self.source else self.text

    def lines(self, *, scores: bool = False) -> list[str]:
        """Return the caption and its alternatives, with their scores if asked."""
        texts = [(self.text, self.score), *self.alternatives]
        return [f"{text}\t{score:.3f}" if scores else text for text, score in texts]

    def to_json(self, attention: Sequence[CaptionWeights] | None = None) -> dict[str, Any]:
        """Return the caption as a JSON object, with the attention of each word if given."""
        values: dict[str, Any] = {"source": self.source, "caption": self.text, "score": round(self.score, 4)}
        values["cut_off"] = not self.ended
        if self.alternatives:
            others = [{"caption": text, "score": round(score, 4)} for text, score in self.alternatives]
            values["alternatives"] = others
        return values if not attention else values | attention[0].to_json()


@dataclass(frozen=True)
class CaptionWeights:
    """The attention of each word of a caption to the cells of the grid over its picture."""

    row_words: list[str]
    grid: tuple[int, int]  # rows and columns of cells
    weights: np.ndarray  # (words,cells)
    picture: np.ndarray = field(repr=False)  # (h,w,c) bytes
    recording: Recording | None = field(default=None, repr=False)
    title: str = ""

    @property
    def column_words(self) -> list[str]:
        """The row and the column of each cell."""
        rows, columns = self.grid
        return [f"{row},{column}" for row in range(rows) for column in range(columns)]

    def to_json(self) -> dict[str, Any]:
        """Return the words, the grid and the weights as a JSON object."""
        rows = [[round(float(weight), 4) for weight in row] for row in self.weights]
        return {"words": self.row_words, "grid": list(self.grid), "attention": rows}


class Captioner(TextGenerator):
    """A network with its vocabulary, which describes pictures.

    ``Captioner.load(folder)`` loads a trained model, and ``caption(pictures)`` returns the captions in order.
    ``extra`` are further settings: ``max_caption``, the ``language`` and ``words`` of the scenes of the training, and
    the ``background`` that transparent pictures are put on, a byte for each channel.
    """

    task: ClassVar[str] = "caption"

    def __init__(self, model: Any, vocabulary: Vocabulary, extra: dict[str, Any] | None = None):
        self.model, self.target = model, vocabulary
        self.extra = extra or {}
        config = model.config
        usual = 0 if "words" in self.extra else 255  # the background of scenes is black
        self.reader = PictureReader(
            config.image_height,
            config.image_width,
            config.channels,
            background=self.extra.get("background", [usual] * config.channels),
        )

    @property
    def longest(self) -> int:
        """The number of tokens of the longest caption in the training, with the end."""
        return int(self.extra.get("max_caption", LONGEST)) + 1

    @torch.no_grad()
    def caption(
        self,
        pictures: Iterable[Any],
        options: DecodingOptions | None = None,
        *,
        first: int = 0,
        batch_size: int | None = None,
        **settings: Any,
    ) -> list[Caption]:
        """Describe pictures, and return the captions in their order.

        A picture is a file, the bytes of a file, a Pillow image, or an array ``(h,w)`` or ``(h,w,c)``. It is resized to
        the size that the model was trained on. ``settings`` are those of :class:`regard.decoding.DecodingOptions`, such
        as ``beams=1``, and replace those of ``options``. ``first`` is the number of the first picture, for sampling.
        """
        sources = _checked_pictures(pictures)
        options = self._limited(options_with(options, settings, verb="caption"))
        size = BATCH if batch_size is None else whole_number("batch_size", batch_size, least=1)
        self.model.eval()
        found: list[Caption] = []
        chunks = [sources[start : start + size] for start in range(0, len(sources), size)]
        for some in with_progress(chunks, len(sources)):
            read = [self._read(source) for source in some]
            pixels = np.stack([picture for picture, *_ in read])  # (b,h,w,c)
            memory = self.model.encode(self._input(pixels))
            numbers = [first + len(found) + place for place in range(len(some))]
            several = self._hypotheses(memory, numbers, options)
            found += [self._made(*parts) for parts in zip(some, read, several, strict=True)]
        return found

    __call__ = caption

    def _hypotheses(
        self, memory: Any, numbers: list[int], options: DecodingOptions
    ) -> list[list[Hypothesis]]:
        target = self.target
        special: dict[str, Any] = {"bos": target.bos, "eos": target.eos, "banned": (target.pad, target.bos)}
        lengths = [1] * len(numbers)  # the largest length does not depend on the picture
        return decode(
            self.model, memory, lengths, options, numbers=numbers, token_bytes=target.token_bytes, **special
        )

    def _input(self, pixels: np.ndarray) -> torch.Tensor:
        """Return pictures ``(b,h,w,c)`` of bytes as the input of the network, ``(b,c,h,w)``."""
        return torch.from_numpy(pixels).to(self.device).permute(0, 3, 1, 2).float() / 255

    def _limited(self, options: DecodingOptions) -> DecodingOptions:
        """Return the options with the largest length of the training, if they have none."""
        if options.max_length is not None:
            return options
        return replace(options, max_length=max(self.longest, options.min_length + 1))

    def _read(self, source: Any) -> tuple[np.ndarray, tuple[int, int], bool]:
        """Return a picture as the model reads it, the (height, width) of its file, and whether it was inverted."""
        picture, size = self.reader.read_with_size(source, "pictures")
        scenes = [0] if "words" in self.extra else None
        picture, inverted = on_ground(picture, self.extra.get("background", scenes))
        return picture, size, inverted

    def _made(
        self,
        source: Any,
        read: tuple[np.ndarray, tuple[int, int], bool],
        hypotheses: list[Hypothesis],
    ) -> Caption:
        written = [(self.target.decode(one.tokens), one.score) for one in hypotheses]
        name = os.fspath(source) if isinstance(source, str | os.PathLike) else ""
        best, (pixels, size, inverted) = hypotheses[0], read
        others = tuple(written[1:])
        values = {"ended": best.ended, "size": size, "inverted": inverted}
        return Caption(name, *written[0], best.tokens, pixels, others, **values)

    def is_exact(self, prediction: Caption, caption: str) -> bool:
        """Return whether a caption is exactly the right one, without regard to case if the vocabulary has none."""
        return prediction.text == (caption.lower() if self.target.lowercase else caption)

    # Attention

    @torch.no_grad()
    def weights_of(self, predictions: Sequence[Caption]) -> list[np.ndarray]:
        """Return the attention of each token of some captions and of their ends to the cells, ``(tokens,cells)``."""
        found: list[np.ndarray] = []
        for start in range(0, len(predictions), BATCH):
            some = predictions[start : start + BATCH]
            weights = self._records(some)[0].map.weights()[:, 0].float().cpu().numpy()  # (b,t,k)
            found += [weights[place, : len(one.target_ids) + 1] for place, one in enumerate(some)]
        return found

    @torch.no_grad()
    def _records(self, predictions: Sequence[Caption]) -> list[Record]:  # type: ignore[override]
        """Return the records of the attention, whose row i writes token i, or the end."""
        if not self.attends:
            raise ArgumentError("model", "it was trained without attention")
        target, _ = pad_sequences([one.target_ids for one in predictions], start=self.target.bos)
        pixels = self._input(np.stack([one.pixels for one in predictions]))
        records: list[Record] = []
        self.model.eval().hidden(pixels, target.to(self.device), records=records)
        return records

    def attention(self, prediction: Caption) -> Recording:
        """Return the attention of the model for one caption, as :func:`regard.capture` records it.

        Row i writes token i of the caption, or its end. The keys are the cells of the grid over the picture.
        """
        from regard.capture import Recording

        pieces = [piece.strip() or piece for piece in self.pieces_of(prediction.target_ids)]
        labelled = {"query_tokens": [[*pieces, END]], "key_grid": self.model.config.grid}
        return Recording([replace(record, **labelled) for record in self._records([prediction])])

    def pictures(self, prediction: Caption) -> list[np.ndarray]:
        """Return the picture of a caption, for the page of its attention."""
        return [prediction.pixels]

    def word_weights(self, prediction: Caption) -> list[CaptionWeights]:
        """Return the attention of each word of a caption to the cells, the mean over the tokens of the word."""
        (weights,) = self.weights_of([prediction])  # (tokens,cells)
        text, spans = prediction.text, self.spans_of(prediction.text, prediction.target_ids)
        words = join_words(word_spans(text), spans)
        rows, names = [], []
        for span in words:
            inside = tokens_in(spans, span)
            if inside:
                rows.append(weights[inside].mean(axis=0))
                names.append(text[span[0] : span[1]])
        if not rows:  # of an empty caption, the attention of its end
            rows, names = [weights[-1]], [END]
        recording, grid = self.attention(prediction), self.model.config.grid
        return [CaptionWeights(names, grid, np.stack(rows), prediction.pixels, recording, prediction.title)]

    # Files

    def vocabularies(self) -> dict[str, Vocabulary]:
        """Return the vocabulary to save."""
        return {"tokenizer": self.target}

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Self:
        """Make a captioner from a saved model, or raise FileError if its settings do not fit together."""
        settings, network = bundle.settings, bundle.model()
        vocabulary = bundle.vocabulary("tokenizer")
        if not isinstance(network, CaptionNetwork):
            raise bundle.reject(f"the model is a {type(network).__name__}, not a CaptionNetwork")
        if network.config.target_size != len(vocabulary):
            size = network.config.target_size
            raise bundle.reject(f"target_size is {size}, but the vocabulary has {len(vocabulary)} tokens")
        try:
            whole_number("max_caption", settings.get("max_caption", 1), least=1)
        except ArgumentError as error:
            raise bundle.reject(str(error)) from None
        bundle.check_background(network.config.channels)
        return cls(network, vocabulary, settings)


def tokens_in(spans: Sequence[tuple[int, int]], span: tuple[int, int]) -> list[int]:
    """Return the indices of the tokens whose characters overlap those of ``span``.

    >>> tokens_in([(0, 1), (2, 7), (7, 8)], (2, 8))
    [1, 2]
    """
    return [place for place, (start, end) in enumerate(spans) if start < span[1] and end > span[0]]


def _checked_pictures(pictures: Iterable[Any]) -> list[Any]:
    """Return the pictures as a list, or raise DtypeError if they are one picture."""
    if isinstance(pictures, str | bytes | os.PathLike) or not isinstance(pictures, Iterable):
        given = f"one {type(pictures).__name__}"
        raise DtypeError("pictures", f"expected a list of pictures, got {given}", "put it in a list")
    if getattr(pictures, "ndim", 4) < 3:
        raise DtypeError("pictures", "expected a list of pictures, got one array", "put it in a list")
    return list(pictures)
