"""Pictures as arrays, sets of labelled pictures, and batches of them.

The names are imported on first use, so importing this package loads neither torch nor Pillow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard._lazy import lazily

if TYPE_CHECKING:
    from regard.images.augmentation import Augmentation
    from regard.images.batches import ImageBatch, ImageBatches, to_model_input
    from regard.images.digits import read_digits
    from regard.images.files import IMAGE_SUFFIXES, image_files
    from regard.images.idx import read_idx
    from regard.images.image_set import ImageSet
    from regard.images.reading import ImageHeader, read_header, read_image
    from regard.images.resizing import resize_images
    from regard.images.sources import read_image_set

_HOMES: dict[str, list[str]] = {
    "augmentation": ["Augmentation"],
    "batches": ["ImageBatch", "ImageBatches", "to_model_input"],
    "digits": ["read_digits"],
    "files": ["IMAGE_SUFFIXES", "image_files"],
    "idx": ["read_idx"],
    "image_set": ["ImageSet"],
    "reading": ["ImageHeader", "read_header", "read_image"],
    "resizing": ["resize_images"],
    "sources": ["read_image_set"],
}

__all__ = [
    "IMAGE_SUFFIXES",
    "Augmentation",
    "ImageBatch",
    "ImageBatches",
    "ImageHeader",
    "ImageSet",
    "image_files",
    "read_digits",
    "read_header",
    "read_idx",
    "read_image",
    "read_image_set",
    "resize_images",
    "to_model_input",
]

__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
