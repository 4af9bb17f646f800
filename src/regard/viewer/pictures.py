"""Conversion of images (files, bytes, arrays, PIL images) to PNG, JPEG, WebP or GIF bytes for the page."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import ArgumentError, FileError

__all__ = ["as_pictures"]

_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


def as_pictures(images: object) -> list[tuple[str, bytes]]:
    """Encode one image or several as pairs of media type and bytes, such as ``("image/png", b"…")``.

    An image is the path or the bytes of a picture file, a PIL image, or an array of pixels (numbers from 0 to 1, or
    bytes). An array of four axes holds several images. None gives an empty list. Anything else raises an error that
    names the image.
    """
    if images is None:
        return []
    several = isinstance(images, Sequence) and not isinstance(images, str | bytes | bytearray)
    if not several and getattr(images, "ndim", 0) == 4:
        several = True
    found: Any = images if several else [images]
    return [_as_picture(image, f"images[{n}]") for n, image in enumerate(found)]


def _as_picture(image: Any, name: str) -> tuple[str, bytes]:
    if isinstance(image, str | os.PathLike):
        try:
            data = Path(image).read_bytes()
        except OSError as error:
            raise FileError(f"{name}: cannot read {image}: {error.strerror}") from error
        return _media_type(data, name), data
    if isinstance(image, bytes | bytearray):
        return _media_type(bytes(image), name), bytes(image)
    if hasattr(image, "save") and hasattr(image, "convert"):  # a PIL image
        return "image/png", _png_of_pillow(image, name)
    return "image/png", _png(_pixels(image, name))


def _png_of_pillow(image: Any, name: str) -> bytes:
    """Return a Pillow image as a PNG file of 8 bits, whose transparent pixels are put on white."""
    if image.mode.startswith("I") or image.mode == "F":
        return _png(_pixels(_eight_bits(image, name), name))
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        pixels = np.asarray(image.convert("RGBA")).astype(np.uint32)  # (rows, columns, 4)
        colors, alpha = pixels[..., :3], pixels[..., 3:]
        return _png(((colors * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8))
    held = io.BytesIO()
    image.convert("RGB").save(held, format="PNG")
    return held.getvalue()


def _eight_bits(image: Any, name: str) -> np.ndarray:
    """Return the grey pixels of a Pillow image with more than 8 bits as bytes, or as floats up to 1."""
    x = np.asarray(image)  # (rows, columns)
    low, high = x.min(), x.max()
    most = 255 if image.mode == "F" else 65535
    if not (low >= 0 and high <= most):  # also if one is nan
        problem = f"expected pixels from 0 to {most}, found numbers from {low:g} to {high:g}"
        raise ArgumentError(name, problem, "save the picture with 8 or 16 bits")
    if image.mode == "F":
        return x if high <= 1 else np.rint(x).astype(np.uint8)
    if image.mode == "I" and high <= 255:  # bytes in 32 bits
        return x.astype(np.uint8)
    return ((x.astype(np.uint32) + 128) // 257).astype(np.uint8)


def _media_type(data: bytes, name: str) -> str:
    for signature, kind in _SIGNATURES.items():
        if data.startswith(signature):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    raise FileError(f"{name}: expected a PNG, JPEG, WebP or GIF picture, found none of these in its bytes")


def _pixels(image: Any, name: str) -> np.ndarray:
    """Convert ``(rows, columns)``, ``(rows, columns, 3)`` or ``(3, rows, columns)`` to bytes ``(rows, columns, 3)``."""
    x = np.asarray(image.detach().cpu() if hasattr(image, "detach") else image)
    if x.ndim == 3 and x.shape[0] in (1, 3) and x.shape[2] not in (1, 3):
        x = np.moveaxis(x, 0, -1)
    if x.ndim == 2:
        x = x[..., None]
    if x.ndim != 3 or x.shape[2] not in (1, 3) or 0 in x.shape:
        raise ArgumentError(
            name,
            f"expected (rows, columns), (rows, columns, 3) or (3, rows, columns), got {np.shape(image)}",
        )
    if np.issubdtype(x.dtype, np.floating):
        if not np.isfinite(x).all() or x.min() < 0 or x.max() > 1:
            raise ArgumentError(
                name, "expected numbers between 0 and 1, or bytes", "undo the normalisation first"
            )
        x = np.rint(x * 255)
    elif x.min() < 0 or x.max() > 255:
        raise ArgumentError(name, f"expected bytes, found numbers from {x.min()} to {x.max()}")
    return np.broadcast_to(x, (*x.shape[:2], 3)).astype(np.uint8)


def _png(pixels: np.ndarray) -> bytes:
    """Return a PNG file of ``(rows, columns, 3)`` bytes, written with the standard library alone."""
    rows, cols, _ = pixels.shape
    lines = np.concatenate([np.zeros((rows, 1), np.uint8), pixels.reshape(rows, -1)], axis=1)  # filter 0
    header = struct.pack(">IIBBBBB", cols, rows, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body
