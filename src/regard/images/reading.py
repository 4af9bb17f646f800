"""Reading a picture from a file, bytes, a Pillow image or an array into an array of bytes."""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import ArgumentError, DtypeError, FileError, MissingExtraError, RegardError, ShapeError

__all__ = [
    "MAX_PIXELS",
    "ImageHeader",
    "as_bytes",
    "by_width",
    "in_pixels",
    "on_ground",
    "read_header",
    "read_image",
]

# A picture of more pixels is refused before it is decoded, since a small file may claim any size.
MAX_PIXELS = 64_000_000
# The formats that are tried. Others of Pillow's start programs (EPS) or are containers of many files.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
# Modes of Pillow without colour.
_GREY = {"1", "L", "LA", "La", "I", "F", "I;16", "I;16B", "I;16L", "I;16N"}
# Formats whose integers of more than 8 bits have 16, even where Pillow has them as 32.
_SIXTEEN_BITS = ("PNG", "PPM")
_ORIENTATION = 0x0112  # the tag of EXIF
_CHANNELS = (None, 1, 3)
# The weights of red, green and blue in grey of ITU-R BT.601, as in Pillow.
_LUMA = np.array([0.299, 0.587, 0.114])
# A ground is dark below the first and light from the second on. A picture is on the other one if this share of the
# pixels at its edges is.
_DARK, _LIGHT, _AT_EDGES = 64, 192, 0.9
_CONTRAST = 32  # between the ground of a picture and what is on it, at least


@dataclass(frozen=True)
class ImageHeader:
    """The size of a picture after its EXIF rotation, and whether it has no colours."""

    height: int
    width: int
    grey: bool


def read_image(
    source: Any,
    *,
    channels: int | None = None,
    background: Sequence[int] | None = None,
    max_pixels: int = MAX_PIXELS,
    argument: str = "source",
) -> np.ndarray:
    """Return a picture as an array ``(h,w,c)`` of bytes, with 1 channel (grey) or 3 (red, green, blue).

    ``source`` is a path, the bytes of a file, a Pillow image, or an array or tensor ``(h,w)`` or ``(h,w,c)``. By
    default a picture without colours has 1 channel, and ``channels`` converts it to 1 or 3. The EXIF rotation is
    applied, and 16 bits are scaled to 8. Transparent pixels are put on ``background``, a byte for grey or for each of
    red, green and blue, by default white. Of an animation or a document with pages, the first frame is read, with a
    warning.

    Raises FileError if the source is no picture, is truncated or has more than ``max_pixels`` pixels, with ``argument``
    as the name of its argument, and MissingExtraError without Pillow.

    >>> read_image(np.array([[0, 65535], [257, 514]], dtype=np.uint16))[..., 0]
    array([[  0, 255],
           [  1,   2]], dtype=uint8)
    """
    if channels not in _CHANNELS:
        raise ArgumentError("channels", f"expected 1, 3 or None, got {channels!r}")
    array = _array_of(source)
    if array is not None:
        pixels = as_bytes(_with_channels_last(array, argument), argument)
        return _converted(pixels, channels, background)
    with _opened(source, argument, max_pixels) as image:
        _warn_of_frames(image, _name_of(source))
        sixteen_bits = image.format in _SIXTEEN_BITS
        pixels = _pixels_of(_rotated(image), channels, sixteen_bits, _name_of(source), argument)
    return _converted(pixels, channels, background)


def read_header(source: Any, *, max_pixels: int = MAX_PIXELS, argument: str = "source") -> ImageHeader:
    """Return the size of a picture without decoding it.

    The arguments are those of :func:`read_image`.

    >>> read_header(np.zeros((3, 5), dtype=np.uint8))
    ImageHeader(height=3, width=5, grey=True)
    """
    array = _array_of(source)
    if array is not None:
        height, width, channels = _with_channels_last(array, argument).shape
        return ImageHeader(height, width, channels < 3)
    with _opened(source, argument, max_pixels) as image:
        width, height = image.size
        # A broken EXIF block says nothing about a rotation.
        with contextlib.suppress(Exception):
            if image.getexif().get(_ORIENTATION, 1) in (5, 6, 7, 8):
                width, height = height, width
        return ImageHeader(height, width, image.mode in _GREY)


def as_bytes(pixels: np.ndarray, argument: str = "images") -> np.ndarray:
    """Return pixels of any shape and number type as bytes.

    16-bit integers are divided by 257. Floats are from 0 to 1, or from 0 to 255. Other numbers raise an error.

    >>> as_bytes(np.array([0.0, 0.5, 1.0]))
    array([  0, 128, 255], dtype=uint8)
    """
    if pixels.dtype == np.uint8:
        return pixels
    if pixels.dtype == np.bool_:
        return pixels.astype(np.uint8) * 255
    if not (np.issubdtype(pixels.dtype, np.integer) or np.issubdtype(pixels.dtype, np.floating)):
        raise DtypeError(argument, f"expected numbers, got the dtype {pixels.dtype}")
    low, high = (float(pixels.min()), float(pixels.max())) if pixels.size else (0.0, 0.0)
    if pixels.dtype == np.uint16:
        return ((pixels.astype(np.uint32) + 128) // 257).astype(np.uint8)
    if not (low >= 0 and high <= 255):  # also if one is nan
        expected = "from 0 to 255" if np.issubdtype(pixels.dtype, np.integer) else "from 0 to 1 or to 255"
        raise ArgumentError(argument, f"expected pixels {expected}, got from {low:g} to {high:g}")
    if np.issubdtype(pixels.dtype, np.floating):
        pixels = np.rint(pixels * 255.0 if high <= 1 else pixels)
    return pixels.astype(np.uint8)


def on_background(pixels: np.ndarray, background: Sequence[int] | None = None) -> np.ndarray:
    """Return pixels ``(…,2)`` or ``(…,4)`` whose last channel is the opacity on a background, without that channel.

    ``background`` has a byte for grey or for each of red, green and blue. By default it is white.

    >>> on_background(np.array([[200, 255], [200, 0]], dtype=np.uint8), [10]).ravel()
    array([200,  10], dtype=uint8)
    """
    alpha = pixels[..., -1:].astype(np.uint32)  # (...,1)
    colors = pixels[..., :-1].astype(np.uint32)  # (...,c)
    behind = np.array([255] if background is None else background, dtype=np.uint32)  # (1,) or (3,)
    if len(behind) == 3 and colors.shape[-1] == 1:
        behind = np.rint(behind @ _LUMA).astype(np.uint32)[None]  # (1,)
    return ((colors * alpha + behind * (255 - alpha) + 127) // 255).astype(np.uint8)  # (...,c)


def on_ground(picture: np.ndarray, background: Sequence[int] | None) -> tuple[np.ndarray, bool]:
    """Return a picture ``(h,w,c)`` of bytes on the ground that a model was trained on, and whether it was inverted.

    ``background`` is the colour at the edges of the training pictures, a byte for each channel, or None if it is not
    known. A picture without colours is inverted if that is nearly black or white, and at least nine tenths of the
    pixels at the edges of the picture are nearer to the other one. A picture of one colour has no ground.

    >>> digit = np.full((28, 28, 1), 255, dtype=np.uint8)
    >>> digit[10:18, 13:15] = 0
    >>> turned, inverted = on_ground(digit, [0])
    >>> inverted, turned[0, 0].item(), on_ground(turned, [0])[1]
    (True, 0, False)
    """
    if background is None or not (np.max(background) < _DARK or np.min(background) >= _LIGHT):
        return picture, False
    edges = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])  # (pixels,c)
    other = edges.mean(axis=1) >= 128 if np.max(background) < _DARK else edges.mean(axis=1) < 128  # (pixels,)
    grey = (picture == picture[..., :1]).all() and np.ptp(picture) >= _CONTRAST
    return (255 - picture, True) if grey and other.mean() >= _AT_EDGES else (picture, False)


def by_width(size: tuple[int, int]) -> str:
    """Return a (height, width) as text, the width first.

    >>> by_width((3, 5)), in_pixels((3, 5)), in_pixels((8, 8))
    ('5×3', '5×3 pixels (width × height)', '8×8 pixels')
    """
    return f"{size[1]}×{size[0]}"


def in_pixels(size: tuple[int, int]) -> str:
    """Return a (height, width) as text, which says which of the two comes first unless they are equal."""
    return f"{by_width(size)} pixels{'' if size[0] == size[1] else ' (width × height)'}"


def _array_of(source: Any) -> np.ndarray | None:
    """Return an array or a tensor as an array, and None for anything else."""
    if hasattr(source, "detach"):
        source = source.detach().cpu().numpy()
    return source if isinstance(source, np.ndarray) else None


def _with_channels_last(array: np.ndarray, argument: str) -> np.ndarray:
    """Return an array of one picture as ``(h,w,c)``."""
    shape = array.shape
    if array.ndim == 2:
        array = array[..., None]  # (h,w,1)
    if array.ndim != 3 or array.shape[2] not in (1, 2, 3, 4) or 0 in array.shape:
        fix = "put the channels last with transpose(1, 2, 0)" if shape[:1] in ((1,), (3,), (4,)) else ""
        raise ShapeError(
            argument, f"expected (h,w) or (h,w,c) with 1 to 4 channels, got {_shape_text(shape)}", fix
        )
    return array


def _shape_text(shape: tuple[int, ...]) -> str:
    return f"({','.join(map(str, shape))})"


def _converted(pixels: np.ndarray, channels: int | None, background: Sequence[int] | None) -> np.ndarray:
    """Return pixels ``(h,w,c)`` without opacity, with the given number of channels."""
    if pixels.shape[-1] in (2, 4):
        pixels = on_background(pixels, background)
    if channels == 3 and pixels.shape[-1] == 1:
        pixels = np.repeat(pixels, 3, axis=-1)
    if channels == 1 and pixels.shape[-1] == 3:
        luma = pixels.astype(np.float64) @ _LUMA  # (h,w)
        pixels = np.rint(luma).astype(np.uint8)[..., None]
    return np.require(pixels, requirements=["C", "W"])  # Pillow's memory cannot be written


@contextlib.contextmanager
def _opened(source: Any, argument: str, max_pixels: int) -> Iterator[Any]:
    """Open a picture with Pillow, and turn the errors of opening and decoding into FileError."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise MissingExtraError("pillow", "images", "reading pictures") from error
    name = _name_of(source)
    bombs = (Image.DecompressionBombError, Image.DecompressionBombWarning)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            warnings.simplefilter("ignore", UserWarning)  # about damaged metadata
            image = source if isinstance(source, Image.Image) else _file_of(source, argument, Image)
            if image.size[0] * image.size[1] > max_pixels:
                raise Image.DecompressionBombError
        yield image
    except UnidentifiedImageError:
        raise FileError(f"{name} is no picture in {', '.join(FORMATS)}", argument=argument) from None
    except bombs:
        problem = f"{name} claims more than {max_pixels:,} pixels: make it smaller"
        raise FileError(problem, argument=argument) from None
    except (RegardError, Warning):
        raise
    except Exception as error:
        # The decoders of Pillow raise errors of any type on damaged files, such as struct.error and KeyError.
        told = str(error) if isinstance(error, OSError | ValueError | SyntaxError) else repr(error)
        problem = f"{name} is truncated or damaged: {told or type(error).__name__}"
        raise FileError(problem, argument=argument) from None


def _file_of(source: Any, argument: str, pillow: Any) -> Any:
    """Open a path or bytes with Pillow."""
    if isinstance(source, bytes | bytearray | memoryview):
        return pillow.open(io.BytesIO(source), formats=FORMATS)
    if not isinstance(source, str | os.PathLike):
        given = type(source).__name__
        problem = f"expected a path, bytes, a Pillow image or an array, got {given}"
        raise FileError(problem, argument=argument)
    path = Path(source)
    try:
        # Read at once, so that no file stays open, and a pipe can be read.
        content = path.read_bytes()
    except OSError as error:
        problem = f"no file {path}" if isinstance(error, FileNotFoundError) else f"{path}: {error.strerror}"
        raise FileError(problem, argument=argument) from None
    if not content:
        raise FileError(f"{path} is empty: expected a picture", argument=argument)
    return pillow.open(io.BytesIO(content), formats=FORMATS)


def _name_of(source: Any) -> str:
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return "the picture" if not isinstance(source, bytes) else f"the picture of {len(source):,} bytes"


def _warn_of_frames(image: Any, name: str) -> None:
    # A photo of a phone may hold a preview as its second frame (MPO), which is no animation.
    frames = getattr(image, "n_frames", 1)
    if frames > 1 and image.format != "MPO":
        warnings.warn(f"{name} has {frames} frames: the first one is used", stacklevel=4)


def _rotated(image: Any) -> Any:
    """Return an image that is rotated as its EXIF block says, decoded."""
    from PIL import ImageOps

    image.load()
    try:
        return ImageOps.exif_transpose(image)
    except Exception:
        # A broken EXIF block says nothing about a rotation.
        return image


def _pixels_of(image: Any, channels: int | None, sixteen_bits: bool, name: str, argument: str) -> np.ndarray:
    """Return the pixels of a decoded Pillow image, ``(h,w,c)``, with 1 to 4 channels."""
    if image.mode.startswith("I") or image.mode == "F":
        return _deep_pixels(image, sixteen_bits, name, argument)[..., None]
    transparent = image.has_transparency_data
    if image.mode in _GREY and channels != 3:
        mode = "LA" if transparent else "L"
    else:
        mode = "RGBA" if transparent else "RGB"
    try:
        pixels = np.asarray(image if image.mode == mode else image.convert(mode))
    except ValueError:
        problem = f"{name} has colours of the kind {image.mode}, which cannot be converted: save it as RGB"
        raise FileError(problem, argument=argument) from None
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _deep_pixels(image: Any, sixteen_bits: bool, name: str, argument: str) -> np.ndarray:
    """Return the pixels ``(h,w)`` of a grey image with more than 8 bits.

    Integers of 32 bits up to 255 are taken for bytes unless the file has ``sixteen_bits``. Those up to 65535 are taken
    for 16 bits.
    """
    pixels = np.asarray(image)  # (h,w)
    if image.mode.startswith("I") and pixels.size and pixels.min() >= 0 and pixels.max() <= 65535:
        are_bytes = image.mode == "I" and not sixteen_bits and pixels.max() <= 255
        return as_bytes(pixels.astype(np.uint8 if are_bytes else np.uint16), argument)
    try:
        return as_bytes(pixels, argument)
    except ArgumentError:
        low, high = pixels.min(), pixels.max()
        problem = f"{name} has pixels from {low:g} to {high:g}: save it with 8 or 16 bits a channel"
        raise FileError(problem, argument=argument) from None
