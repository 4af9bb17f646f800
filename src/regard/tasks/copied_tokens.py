"""The origin of each token that a model with a copy mechanism wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.copying import CopyStates
from regard.errors import ArgumentError
from regard.text import Vocabulary, pad_sequences

__all__ = ["TokenOrigin", "token_origins"]


@dataclass(frozen=True)
class TokenOrigin:
    """How much of the probability of a written token came from copying, and from where.

    ``copied`` is the share of ``probability`` that came from copying, from 0 (generated) to 1. ``position`` is the
    index of the source token that most of that share was copied from, or None if the token is not in the source. The
    index after the last source token is that of the end of the text.
    """

    probability: float
    copied: float
    position: int | None


@torch.no_grad()
def token_origins(
    model: Any, vocabulary: Vocabulary, sources: Sequence[list[int]], targets: Sequence[list[int]]
) -> list[list[TokenOrigin]]:
    """Return the origin of each token of ``targets``, which the model wrote for ``sources``.

    ``model`` is a Transformer or a Seq2Seq with ``copy=True``. Sources and targets are token ids of ``vocabulary``,
    without special tokens.

    >>> from regard.models import Transformer, TransformerConfig
    >>> from regard.text import ByteVocabulary
    >>> vocabulary = ByteVocabulary()
    >>> config = TransformerConfig(source_size=259, target_size=259, width=8, heads=2, copy=True)
    >>> source, target = vocabulary.encode("Ana"), vocabulary.encode("nu")
    >>> (origins,) = token_origins(Transformer(config), vocabulary, [source], [target])
    >>> [origin.position for origin in origins]
    [1, None]
    """
    device = next(model.parameters()).device
    source, lengths = pad_sequences(sources, end=vocabulary.eos)
    inputs, _ = pad_sequences(targets, start=vocabulary.bos)
    written, _ = pad_sequences(targets, end=vocabulary.eos)
    model.eval()
    states = model.hidden(source.to(device), inputs.to(device), lengths.to(device))
    if not isinstance(states, CopyStates):
        fix = "use a model that was trained with copy=True"
        raise ArgumentError("model", "it has no copy mechanism", fix)
    rows = _origins(states, model.output(states), written.to(device))
    return [row[: len(target)] for row, target in zip(rows, targets, strict=True)]


def _origins(states: CopyStates, log_probabilities: Tensor, written: Tensor) -> list[list[TokenOrigin]]:
    """Return the origins of the tokens ``written (b,t)``, for the results ``(b,t,v)`` of the output layer."""
    probability = log_probabilities.gather(-1, written[..., None])[..., 0].exp()  # (b,t)
    here = states.source[:, None] == written[..., None]  # (b,t,s)
    weights = states.weights.to(probability.dtype).masked_fill(~here, 0.0)  # (b,t,s)
    copied = torch.sigmoid(-states.gate.to(probability.dtype)) * weights.sum(dim=-1)  # (b,t)
    share = (copied / probability.clamp(min=torch.finfo(probability.dtype).tiny)).clamp(max=1.0)
    places = weights.argmax(dim=-1).masked_fill(weights.sum(dim=-1) == 0, -1)  # (b,t)
    return [
        [TokenOrigin(p, c, None if place < 0 else place) for p, c, place in zip(*row, strict=True)]
        for row in zip(probability.tolist(), share.tolist(), places.tolist(), strict=True)
    ]
