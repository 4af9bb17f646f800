"""Put pictures at random places of larger canvases, as ``regard train glimpse --mode translated`` does.

The pictures have one size and are read as grey. Their places depend on ``--seed`` and on the order of the files. This
writes the pictures that ``regard glimpse --examples`` reads, from digits that were drawn for Regard::

    python examples/pictures_on_canvases.py src/regard/weights/mnist/examples/*.png \\
        --out src/regard/weights/digits-in-glimpses/examples
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

from regard.errors import RegardError, ShapeError
from regard.images import ImageSet, read_image
from regard.tasks.glimpse import Canvas


def on_canvases(paths: list[Path], canvas: Canvas, seed: int) -> np.ndarray:
    """Return the pictures of some files on their canvases, ``(n,h,w,1)``."""
    read = [read_image(path, channels=1) for path in paths]
    if len({picture.shape for picture in read}) > 1:
        raise ShapeError("pictures", "expected pictures of one size", "resize them first")
    pictures = np.stack(read)  # (n,h,w,1)
    background = ImageSet.of(pictures, np.arange(len(paths))).background()
    return canvas(pictures, np.random.default_rng(seed), background=background, mean=[0.0])


def main() -> None:
    parser = argparse.ArgumentParser(description="Put pictures at random places of larger canvases.")
    parser.add_argument("pictures", nargs="+", type=Path, help="files of pictures of one size")
    parser.add_argument("--out", type=Path, required=True, help="folder of the new pictures")
    parser.add_argument("--canvas", type=int, default=60, help="pixels in each direction")
    parser.add_argument("--mode", choices=("translated", "cluttered"), default="translated")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    canvas = Canvas(mode=options.mode, canvas=options.canvas)
    try:
        placed = on_canvases(options.pictures, canvas, options.seed)
    except RegardError as error:
        parser.error(str(error))
    options.out.mkdir(parents=True, exist_ok=True)
    for path, pixels in zip(options.pictures, placed, strict=True):
        Image.fromarray(pixels[..., 0]).save(options.out / f"{path.stem}.png")


if __name__ == "__main__":
    main()
