"""The pictures that a vision-language model was given together with token ids."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.capture.reading.picture_families import FAMILIES, NO_PLACES, PictureSpan, UnknownLayoutError
from regard.capture.reading.token_ids import TokenIds

__all__ = ["EncodedPictures", "PictureInputs", "encoded_pictures", "picture_inputs"]

_ENCODED = "mm_encoder_outputs"


@dataclass(frozen=True, eq=False)
class PictureInputs:
    """Token ids with the positions of picture tokens, and the pictures that these stand for, in order."""

    ids: Tensor  # (b,n)
    is_picture: Tensor  # (b,n) booleans
    is_word: Tensor  # (b,n) booleans
    spans: tuple[PictureSpan, ...] = ()
    # The reason why the picture tokens have no place, or None.
    unplaced: str | None = None


@dataclass(frozen=True)
class EncodedPictures:
    """Pictures that ``generate()`` encodes before the forward pass that is given the result."""

    result: weakref.ref[Any]
    spans: tuple[PictureSpan, ...]
    unplaced: str | None


def encoded_pictures(module: nn.Module, arguments: Mapping[str, Any], result: Any) -> EncodedPictures | None:
    """Return the pictures that a call of ``get_image_features`` has encoded."""
    features = getattr(result, "pooler_output", None)
    if not isinstance(arguments.get("pixel_values"), Tensor) or features is None:
        return None
    count = sum(x.shape[:-1].numel() for x in ([features] if isinstance(features, Tensor) else features))
    spans, unplaced = _spans(getattr(module, "config", None), arguments, count)
    return EncodedPictures(weakref.ref(result), tuple(spans), unplaced)


def picture_inputs(
    module: nn.Module,
    arguments: Mapping[str, Any],
    ids: Sequence[TokenIds],
    encoded: Sequence[EncodedPictures],
) -> PictureInputs | None:
    """Return the pictures among the arguments of a model, or None if there are none among its token ids.

    ``encoded`` are the pictures that were encoded before.
    """
    earlier = arguments.get(_ENCODED)
    image = earlier.get("image") if isinstance(earlier, Mapping) else None
    # Before the config is read, since most models are given no pictures and reading takes 50 microseconds.
    if image is None and not isinstance(arguments.get("pixel_values"), Tensor):
        return None
    config = getattr(module, "config", None)
    token = _picture_token(config)
    if token is None:
        return None
    values = next((x.values for x in ids if x.name.endswith("input_ids")), None)
    if values is None or not (count := int((values == token).sum())):
        return None
    if image is None:
        spans, unplaced = _spans(config, arguments, count)
    else:
        before = next((x for x in encoded if x.result() is image), None)
        spans = [] if before is None else before.spans
        unplaced = "the pictures were encoded before the capture" if before is None else before.unplaced
    mask = arguments.get("attention_mask")
    shown = torch.ones_like(values, dtype=torch.bool)  # (b,n)
    if isinstance(mask, Tensor) and mask.shape == values.shape:
        shown = mask.detach().cpu().bool()
    # A beam search repeats each sequence, but not the pictures that were encoded before.
    times = count // max(sum(span.tokens for span in spans), 1)
    if image is not None and times > 1 and len(values) % times == 0:
        values, shown = values[::times], shown[::times]
    is_picture = values == token  # (b,n)
    expected, count = sum(span.tokens for span in spans), int(is_picture.sum())
    if unplaced is None and expected != count:
        unplaced = f"{len(spans)} pictures have {expected} tokens, and the token ids have {count}"
    return PictureInputs(values, is_picture, shown & ~is_picture, tuple(spans), unplaced)


def _picture_token(config: Any) -> int | None:
    token = getattr(config, "image_token_id", None)
    token = getattr(config, "image_token_index", None) if token is None else token
    return token if isinstance(token, int) else None


def _spans(config: Any, arguments: Mapping[str, Any], count: int) -> tuple[Sequence[PictureSpan], str | None]:
    """Return the tokens of each picture, or the reason why they are unknown."""
    kind = str(getattr(config, "model_type", ""))
    if kind in NO_PLACES:
        return [], NO_PLACES[kind]
    read = FAMILIES.get(kind)
    if read is None:
        known = ", ".join(FAMILIES)
        return [], f"the arrangement of the picture tokens of {kind} is not known. These are known: {known}"
    try:
        return read(config, arguments, count), None
    # A config or an input of another form than that of the released models raises one of the other errors.
    except (UnknownLayoutError, AttributeError, TypeError, ValueError, IndexError, RuntimeError) as error:
        return [], f"the places of the picture tokens of {kind} are not known: {error}"
