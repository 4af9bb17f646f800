"""The captioned pictures that a captioner is trained and validated on, from files or as composed scenes."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import FileError, RegardError
from regard.files import make_folder, remove_leftovers
from regard.images import read_image, resize_images
from regard.images.resizing import StretchedPictures
from regard.images.scene_captions import checked_words
from regard.images.scene_objects import SPLITS, ObjectPictures
from regard.images.scenes import Box, Scenes
from regard.tasks.caption.settings import CaptionSettings
from regard.tasks.data_files import content_hash
from regard.tasks.pairs import Pair, PairSource, nothing_left
from regard.tasks.vocabularies import learn_vocabulary
from regard.text import Framing, PairData, Skipped, Vocabulary, load_vocabulary
from regard.text.cache import fingerprint_of
from regard.training.progress import Counted

__all__ = [
    "CaptionBatch",
    "CaptionData",
    "CaptionRows",
    "CaptionedPictures",
    "PictureReader",
    "SceneSource",
    "prepare",
    "run_files",
]

# The start of the name of a scene. Files have absolute paths, so no file has such a name.
_SCENE = "scene "
# The ids of a scene in the cache: its split, and its number in two parts. A picture has an id for each of its bytes.
_SCENE_IDS = 3
_ID_BASE = 2**16


class SceneSource:
    """Composed scenes by name, whose object pictures are read when they are first needed.

    >>> scenes = SceneSource(words=("seven", "two"))
    >>> scenes.rows("valid", 1).__next__()[0]
    'scene valid 0'
    """

    def __init__(
        self,
        digits: str | None = None,
        garments: str | None = None,
        *,
        words: Sequence[str] | None = None,
        seed: int = 0,
        size: int = 64,
        language: str = "en",
    ):
        self.folders = (digits, garments)
        self.words = checked_words(None) if words is None else tuple(words)
        self.seed, self.size, self.language = seed, size, language
        self.scenes = functools.cache(self._scenes)

    @classmethod
    def of(cls, settings: CaptionSettings) -> SceneSource:
        """Return the scenes of a training run."""
        return cls(
            settings.digits,
            settings.garments,
            words=checked_words(settings.words),
            seed=settings.embedded_seed,
            size=settings.image_height,
            language=settings.language,
        )

    def _scenes(self, split: str) -> Scenes:
        pictures = ObjectPictures.read(*self.folders, split=split, words=self.words)
        return Scenes(pictures, seed=self.seed, size=self.size)

    def rows(self, split: str, count: int) -> Iterator[Pair]:
        """Yield the names and captions of the first scenes of a split."""
        scenes = self.scenes(split)
        for number in range(count):
            yield f"{_SCENE}{split} {number}", scenes[number].caption(self.language)

    def boxes(self, name: str) -> list[Box]:
        """Return the boxes of the objects of the scene with a name, in the order of its caption."""
        split, number = name.removeprefix(_SCENE).split()
        return [one.box for one in self.scenes(split)[int(number)].objects]

    def pixels(self, split: str, number: int) -> np.ndarray:
        """Return the picture of a scene, ``(size,size)`` bytes."""
        scenes = self.scenes(split)
        return scenes.pixels(scenes[number])

    def identity(self) -> list[object]:
        """Return values that identify the scenes."""
        folders = [None if folder is None else content_hash(Path(folder)) for folder in self.folders]
        return [folders, list(self.words), self.seed, self.size, self.language]


class PictureReader:
    """Reads pictures in the size and the channels of a model, and encodes them as ids for a cache.

    It takes the place of the vocabulary of the source in :class:`CaptionData`.
    """

    framing = Framing(None, Vocabulary.eos, Vocabulary.pad)

    def __init__(
        self,
        height: int,
        width: int,
        channels: int,
        scenes: SceneSource | None = None,
        background: Sequence[int] | None = None,
    ):
        self.shape = (height, width, channels)
        self.scenes, self.background = scenes, background
        self.stretched = StretchedPictures((height, width))  # of the pictures that were encoded

    def __len__(self) -> int:
        """Return the number of different ids."""
        return _ID_BASE

    @property
    def fingerprint(self) -> str:
        """A hash of the size of the pictures and of the scenes."""
        return fingerprint_of(list(self.shape), self.scenes.identity() if self.scenes else None)

    @property
    def numbers(self) -> int:
        """The number of bytes of a picture."""
        return int(np.prod(self.shape))

    def read(self, source: Any, argument: str = "data") -> np.ndarray:
        """Return a picture as ``(h,w,c)`` bytes, from a file, a Pillow image, an array or the name of a scene."""
        return self.read_with_size(source, argument)[0]

    def read_with_size(self, source: Any, argument: str) -> tuple[np.ndarray, tuple[int, int]]:
        """Return a picture as ``(h,w,c)`` bytes, and the (height, width) that it had before it was resized."""
        height, width, channels = self.shape
        if self.scenes is not None and isinstance(source, str) and source.startswith(_SCENE):
            split, number = source.removeprefix(_SCENE).split()
            return self._scene(split, int(number)), (height, width)
        image = read_image(source, channels=channels, background=self.background, argument=argument)
        return resize_images(image, (height, width)), image.shape[:2]

    def _scene(self, split: str, number: int) -> np.ndarray:
        assert self.scenes is not None  # those who name scenes have some
        pixels = self.scenes.pixels(split, number)  # (h,w)
        return np.repeat(pixels[..., None], self.shape[2], axis=2)

    def encode_batch(self, names: Sequence[str]) -> list[Sequence[int]]:
        """Return the ids of pictures by their names, the bytes of files and the numbers of scenes."""
        return [self._encoded(name) for name in names]

    def _encoded(self, name: str) -> Sequence[int]:
        if not name.startswith(_SCENE):
            picture, size = self.read_with_size(name, "data")
            self.stretched.count(name, size)
            return picture.tobytes()
        split, number = name.removeprefix(_SCENE).split()
        return [SPLITS.index(split), *divmod(int(number), _ID_BASE)]

    def decoded(self, ids: np.ndarray) -> np.ndarray:
        """Return the picture ``(h,w,c)`` of the ids that :meth:`encode_batch` returned."""
        if len(ids) == _SCENE_IDS:
            split, high, low = (int(number) for number in ids)
            return self._scene(SPLITS[split], high * _ID_BASE + low)
        return ids.astype(np.uint8).reshape(self.shape)


@dataclass(frozen=True)
class CaptionBatch:
    """A batch of ``b`` pictures and their captions."""

    pixels: Tensor  # (b,c,h,w), bytes
    target_input: Tensor  # (b,t), bos, ids, padding
    target_output: Tensor  # (b,t), ids, eos, padding
    target_lengths: Tensor  # (b,), with eos

    @property
    def tokens(self) -> int:
        """The number of tokens of the captions with eos and without padding, over which the loss is averaged."""
        return int(self.target_lengths.sum())

    def __len__(self) -> int:
        return len(self.pixels)

    def to(self, device: torch.device | str) -> CaptionBatch:
        """Return the batch on a device."""
        return CaptionBatch(*(getattr(self, field.name).to(device) for field in dataclasses.fields(self)))


class CaptionData(PairData):
    """Pictures and encoded captions, in memory or memory-mapped from disk.

    ``reader`` decodes the pictures. It has to be set before the first batch.
    """

    reader: PictureReader

    def lengths(self) -> np.ndarray:
        """Return the numbers of tokens of the captions, (n, 1), with eos as in a batch."""
        return self.target.lengths()[:, None].astype(np.int32) + 1

    def batch(self, indices: Sequence[int] | np.ndarray) -> Any:
        """Return the pictures and captions at these indices as a padded batch."""
        indices = np.array(indices, dtype=np.int64)  # (b,)
        pictures = np.stack([self.reader.decoded(self.source[place]) for place in indices.tolist()])
        output, lengths = self.target.padded(indices, end=Vocabulary.eos)  # (b,t), (b,)
        target_input, _ = self.target.padded(indices, start=Vocabulary.bos)  # (b,t)
        pixels = torch.from_numpy(pictures).permute(0, 3, 1, 2)  # (b,c,h,w)
        return CaptionBatch(pixels, *map(torch.from_numpy, (target_input, output, lengths)))


@dataclass(frozen=True)
class CaptionRows(PairSource):
    """The files of pictures with their captions, and scenes, that a run trains on and validates on."""

    key_name = "picture"
    problems: dict[str, str] = dataclasses.field(
        default_factory=dict
    )  # of files by their paths, "" if there is none

    def read(self, name: str, skipped: Skipped | None = None, *, split: str | None = None) -> Iterator[Pair]:
        """Yield the absolute path of each picture of the data that the setting ``name`` names, and its caption."""
        for file, caption in super().read(name, skipped, split=split):
            yield self._path(file, name), " ".join(caption.split())

    def reading_of(self, name: str) -> dict[str, Any]:
        """Return a check of each row that reads its picture."""
        return {"max_words": None, "check": lambda file, _caption: self._problem(self._path(file, name))}

    def _path(self, file: str, name: str) -> str:
        s = self.settings
        place = self.valid_source if name == "valid" else getattr(s, name)
        folder = Path(s.images) if s.images else Path(place or "").parent
        return str((folder / file.strip()).absolute())

    def _problem(self, path: str) -> str:
        """Return why a file is no picture, or "". Each file is read once."""
        if path not in self.problems:
            self.problems[path] = picture_problem(path)
        return self.problems[path]

    def pictures(self) -> list[str]:
        """Return the files of the pictures of the data, each once."""
        if not self.settings.data:
            return []
        return list(dict.fromkeys(path for path, _ in self.read("data")))


def picture_problem(path: str) -> str:
    """Return why a file is no picture that can be read, or "" if it is one.

    There is no warning, for example about an animation, since the picture is read again when it is used.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            read_image(path)
    except FileError as error:
        return error.in_words()
    except RegardError:
        # Not a problem of this file, such as a missing package.
        raise
    return ""


@dataclass(frozen=True)
class CaptionedPictures:
    """The encoded training pictures, the validation rows, the vocabulary and the reader of pictures."""

    train: CaptionData
    valid: list[Pair]
    vocabulary: Vocabulary
    reader: PictureReader


def prepare(
    settings: CaptionSettings, folder: Path, *, learn: bool = False, show: bool = False
) -> CaptionedPictures:
    """Read the pictures and captions, and encode them into the cache of ``folder``."""
    make_folder(folder)
    remove_leftovers(folder / "cache")
    scenes = SceneSource.of(settings) if settings.embedded_count else None
    rows = CaptionRows(
        settings, settings.validate_pictures, scenes.rows if scenes else None, settings.embedded_count
    )
    valid = rows.validation()
    (vocabulary_file,) = run_files(folder)
    if learn or not vocabulary_file.is_file():
        learn_vocabulary(settings, rows.training(), (1,), seed=settings.seed, show=show).save(vocabulary_file)
    vocabulary, skipped = load_vocabulary(vocabulary_file), Skipped()
    reader = PictureReader(settings.image_height, settings.image_width, settings.channels, scenes)
    train = CaptionData.build_or_open(
        lambda: Counted(rows.training(skipped), "pictures encoded", wanted=show),
        reader,  # type: ignore[arg-type]
        vocabulary,
        folder / "cache",
        files=[*rows.files(), *rows.pictures()],
        identity=rows.identity(),
        max_tokens=max(_SCENE_IDS, reader.numbers),
        max_target_tokens=settings.max_caption,
        skipped=skipped,
    )
    if len(train) == 0:
        raise nothing_left(settings.data, train.skipped)
    reader.stretched.warn(1)
    train.reader = reader
    return CaptionedPictures(train, valid, vocabulary, reader)


def run_files(folder: Path) -> list[Path]:
    """Return the file of the vocabulary of a run."""
    return [folder / "tokenizer.json"]
