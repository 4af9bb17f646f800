"""Writing by chance: each token is drawn by its probability."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.decoding.options import DecodingOptions
from regard.decoding.protocol import Decodable

__all__ = ["sample"]


@torch.no_grad()
def sample(
    model: Decodable,
    memory: Any,
    limits: list[int],
    options: DecodingOptions,
    *,
    bos: int,
    eos: int,
    banned: tuple[int, ...] = (),
) -> list[list[tuple[list[int], float]]]:
    """``n_best`` draws for each sentence: tokens, and the log-probability under the model at its own temperature."""
    device = torch.device("cpu") if memory is None else memory.states.device
    chance = torch.Generator(device).manual_seed(options.seed)
    shape = (len(limits), options.n_best)
    tokens = torch.full(shape, bos, dtype=torch.int64, device=device)
    ended = torch.zeros(shape, dtype=torch.bool, device=device)
    log_probability = torch.zeros(shape, device=device)
    written: list[Tensor] = []
    state = model.start(memory)
    _spread(state, *shape, device)
    limit = torch.tensor(limits, device=device)[:, None]
    while not bool(ended.all()):
        scores = model.output(model.step(tokens, state)).float()  # (b,w,v)
        scores[..., list(banned)] = -torch.inf
        if len(written) < options.min_length:
            scores[..., eos] = -torch.inf
        tokens = _draw(scores, options, chance).masked_fill(ended, eos)
        step = scores.log_softmax(dim=-1).gather(-1, tokens[..., None])[..., 0]
        log_probability += step.masked_fill(ended, 0.0)
        written.append(tokens)
        ended |= (tokens == eos) | (len(written) >= limit)
    rows = torch.stack(written, dim=-1).tolist()
    lists = [[_until(row, eos, limits[b]) for row in several] for b, several in enumerate(rows)]
    return [list(zip(*both, strict=True)) for both in zip(lists, log_probability.tolist(), strict=True)]


def _spread(state: Any, sentences: int, draws: int, device: torch.device) -> None:
    """One row for each draw of each sentence."""
    if draws > 1:
        state.reorder(torch.arange(sentences, device=device).repeat_interleave(draws))


def _draw(scores: Tensor, options: DecodingOptions, chance: torch.Generator) -> Tensor:
    """A token for each row of ``(b,w,v)``."""
    scores = scores / options.temperature
    if options.top_k:
        least = scores.topk(min(options.top_k, scores.shape[-1]), dim=-1).values[..., -1:]
        scores = scores.masked_fill(scores < least, -torch.inf)
    if options.top_p < 1:
        scores = _nucleus(scores, options.top_p)
    return torch.multinomial(scores.softmax(dim=-1).flatten(0, 1), 1, generator=chance).view(scores.shape[:2])


def _nucleus(scores: Tensor, share: float) -> Tensor:
    """Only the likeliest tokens that together have ``share`` of the probability; always the likeliest one."""
    ordered, places = scores.sort(dim=-1, descending=True)
    before = ordered.softmax(dim=-1).cumsum(dim=-1) - ordered.softmax(dim=-1)
    ordered = ordered.masked_fill(before >= share, -torch.inf)
    return torch.full_like(scores, -torch.inf).scatter(-1, places, ordered)


def _until(tokens: list[int], eos: int, limit: int) -> list[int]:
    tokens = tokens[:limit]
    return tokens[: tokens.index(eos)] if eos in tokens else tokens
