"""Composed scenes in files, which are pictures, a table of captions, and the places of the objects."""

from __future__ import annotations

import json
import os
from pathlib import Path

from regard.errors import ArgumentError, FileError, MissingExtraError
from regard.files import make_folder, write_atomically
from regard.images.scenes import Scenes

__all__ = ["write_scenes"]


def write_scenes(
    scenes: Scenes, folder: str | os.PathLike, count: int, *, first: int = 0, language: str = "en"
) -> None:
    """Write ``count`` scenes into a folder that is empty or does not exist, from number ``first`` on.

    The folder then has a PNG file for each scene, ``captions.tsv`` with the name of each file and its caption, and
    ``objects.jsonl`` with the word and the box (left, top, right, bottom) of each object.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("pillow", "images", "writing pictures") from error
    if count < 1:
        raise ArgumentError("count", f"expected 1 or more, got {count}")
    folder = Path(folder)
    if folder.is_dir() and any(folder.iterdir()):
        raise FileError(f"{folder} is not empty: name a new folder", argument="out")
    make_folder(folder)
    captions, objects = [], []
    for number in range(first, first + count):
        scene, name = scenes[number], f"scene-{number:05}.png"
        image = Image.fromarray(scenes.pixels(scene))
        write_atomically(folder / name, lambda part, image=image: image.save(part, format="PNG"))
        captions.append(f"{name}\t{scene.caption(language)}\n")
        boxes = [{"word": one.word, "box": list(one.box)} for one in scene.objects]
        objects.append(json.dumps({"file": name, "objects": boxes}) + "\n")
    # The table is last, so that it never names a file that is missing.
    for name, lines in (("objects.jsonl", objects), ("captions.tsv", captions)):
        text = "".join(lines)
        write_atomically(folder / name, lambda part, text=text: part.write_text(text, encoding="utf-8"))
