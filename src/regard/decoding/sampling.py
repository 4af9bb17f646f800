"""Writing by chance: each token is drawn by its probability."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.decoding.beginning import Prompts, begin
from regard.decoding.hypotheses import Hypothesis
from regard.decoding.options import DecodingOptions
from regard.decoding.protocol import Decodable
from regard.decoding.selection import Allowed
from regard.errors import ArgumentError

__all__ = ["sample"]


class _Draws:
    """``w`` draws for each of ``n`` sentences on their way."""

    def __init__(self, limits: list[int], draws: int, device: torch.device):
        shape = (len(limits), draws)
        self.limit = torch.tensor(limits, device=device)[:, None]  # (n,1)
        self.going = torch.ones(shape, dtype=torch.bool, device=device)
        self.ended = ~self.going  # came to their end, rather than to their limit
        self.lengths = torch.zeros(shape, dtype=torch.int64, device=device)  # without the end
        self.log_probability = torch.zeros(shape, device=device)
        self.written: list[Tensor] = []  # of (n,w)

    def add(self, tokens: Tensor, scores: Tensor, eos: int) -> None:
        """One more token ``(n,w)`` each, with its log-probability; what has ended stays as it was."""
        self.going &= scores > -torch.inf  # nothing may follow: cut off here
        self.written.append(tokens)
        self.log_probability = self.log_probability + scores.masked_fill(~self.going, 0.0)
        ends = self.going & (tokens == eos)
        self.ended |= ends
        self.going &= ~ends
        self.lengths += self.going
        self.going &= len(self.written) < self.limit

    def hypotheses(self) -> list[list[Hypothesis]]:
        """All of them, the likeliest of each sentence first."""
        rows = torch.stack(self.written, dim=-1).tolist() if self.written else [[] for _ in self.limit]
        found = []
        for several, lengths, scores, ended in zip(
            rows, self.lengths.tolist(), self.log_probability.tolist(), self.ended.tolist(), strict=True
        ):
            one_sentence = [
                Hypothesis(tokens[:length], score, score, end)
                for tokens, length, score, end in zip(several, lengths, scores, ended, strict=True)
            ]
            found.append(sorted(one_sentence, key=lambda one: -one.score))
        return found


@torch.no_grad()
def sample(
    model: Decodable,
    memory: Any,
    limits: list[int],
    options: DecodingOptions,
    *,
    bos: int,
    eos: int,
    banned: Sequence[int] = (),
    prompts: Prompts | None = None,
    numbers: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """``n_best`` draws for each sentence, ranked by their log-probability under the model at a temperature of 1.

    What is drawn for a sentence depends on the seed and on its number in ``numbers`` (by default its place), not on
    the sentences beside it.
    """
    state, tokens = begin(model, memory, len(limits), bos, prompts)
    if options.n_best > 1 and limits:
        state.reorder(torch.arange(len(limits), device=tokens.device).repeat_interleave(options.n_best))
    tokens = tokens.expand(-1, options.n_best)  # (n,w)
    chance = _Chance(options, range(len(limits)) if numbers is None else numbers, tokens.device)
    allowed = Allowed(eos, tuple(banned), options.min_length)
    draws = _Draws(limits, options.n_best, tokens.device)
    while bool(draws.going.any()):
        scores = model.output(model.step(tokens, state))  # (n,w,v)
        scores = allowed.log_probabilities(scores, len(draws.written))
        tokens = _draw(scores, options, chance.next())
        draws.add(tokens, scores.gather(-1, tokens[..., None])[..., 0], eos)
    return draws.hypotheses()


class _Chance:
    """Random numbers for each sentence, from a stream of its own."""

    def __init__(self, options: DecodingOptions, numbers: Sequence[int], device: torch.device):
        self.draws, self.device = options.n_best, device
        self.streams = [torch.Generator().manual_seed(_mixed(options.seed, number)) for number in numbers]

    def next(self) -> Tensor:
        """One number from 0 to below 1 for each draw, ``(n,w)``."""
        drawn = [torch.rand(self.draws, generator=one, dtype=torch.float64) for one in self.streams]
        return torch.stack(drawn).to(self.device)


def _mixed(seed: int, number: int) -> int:
    """A seed for each sentence, so far apart that no two streams are alike."""
    return int.from_bytes(hashlib.sha256(f"{seed} {number}".encode()).digest()[:8], "big") >> 1


def _draw(scores: Tensor, options: DecodingOptions, chance: Tensor) -> Tensor:
    """A token for each row of ``(n,w,v)`` by its number in ``chance (n,w)``; any token where none is possible."""
    most = scores.amax(dim=-1, keepdim=True)
    if bool(most.isnan().any()):
        raise ArgumentError("model", "its scores are not numbers (NaN)")
    numbers = torch.finfo(scores.dtype)
    scores = (scores - most.clamp(min=numbers.min)) / max(options.temperature, numbers.tiny)
    scores = torch.where(most > -torch.inf, scores, 0.0)
    places = None
    if options.top_k or options.top_p < 1:
        count = min(options.top_k or scores.shape[-1], scores.shape[-1])
        scores, places = scores.topk(count, dim=-1)  # best first
        scores = _nucleus(scores, options.top_p)
    heights = scores.double().softmax(dim=-1).cumsum(dim=-1)  # (n,w,v)
    total = heights[..., -1:]
    reached = torch.minimum(chance[..., None] * total, torch.nextafter(total, torch.zeros_like(total)))
    drawn = torch.searchsorted(heights, reached, right=True)  # (n,w,1): the first that is higher
    return (drawn if places is None else places.gather(-1, drawn))[..., 0]


def _nucleus(ordered: Tensor, share: float) -> Tensor:
    """Of scores ``(...,v)``, best first, only those that together have ``share`` of the probability.

    >>> _nucleus(torch.tensor([0.5, 0.25, 0.125, 0.125]).log(), 0.75).exp()
    tensor([0.5000, 0.2500, 0.0000, 0.0000])
    """
    if share == 1:
        return ordered
    probabilities = ordered.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    before[..., 0] = 0.0  # the likeliest always stays
    return ordered.masked_fill(before >= share, -torch.inf)
