"""Random sampling of sequences, token by token."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.decoding.constraints import Constraint, make_constraints
from regard.decoding.continuations import Allowed
from regard.decoding.hypotheses import Hypothesis
from regard.decoding.options import DecodingOptions
from regard.decoding.prompts import Prompts, begin
from regard.decoding.protocol import Decodable
from regard.decoding.repetition import penalised
from regard.errors import ArgumentError

__all__ = ["RandomNumbers", "draw", "sample"]


class _Draws:
    """The state of ``w = n_best`` sequences being sampled for each of ``n`` sentences.

    ``limits`` holds the largest number of tokens of each sentence.
    """

    def __init__(self, limits: list[int], options: DecodingOptions, device: torch.device):
        shape = (len(limits), options.n_best)
        self.length_penalty = options.length_penalty
        self.limit = torch.tensor(limits, device=device)[:, None]  # (n,1)
        self.going = torch.ones(shape, dtype=torch.bool, device=device)
        # Ended with the end-of-sentence token, not at the limit.
        self.ended = ~self.going
        self.lengths = torch.zeros(shape, dtype=torch.int64, device=device)  # without the end of sentence
        self.log_probability = torch.zeros(shape, device=device)
        self.written: list[Tensor] = []  # of (n,w)

    def add(self, tokens: Tensor, scores: Tensor, eos: int) -> None:
        """Append a token ``(n,w)`` with its log-probability ``scores (n,w)`` to every sequence that has not finished.

        A sequence finishes with ``eos``, at its limit, or before a token of probability 0.
        """
        # A sequence that no token may follow is cut off.
        self.going &= scores > -torch.inf
        self.written.append(tokens)
        self.log_probability = self.log_probability + scores.masked_fill(~self.going, 0.0)
        ends = self.going & (tokens == eos)
        self.ended |= ends
        self.going &= ~ends
        self.lengths += self.going
        self.going &= len(self.written) < self.limit

    def hypotheses(self, constraints: list[Constraint]) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, those of the highest score first."""
        rows = torch.stack(self.written, dim=-1).tolist() if self.written else [[] for _ in self.limit]
        sentences = []
        values = (self.lengths.tolist(), self.log_probability.tolist(), self.ended.tolist())
        for number, (sequences, lengths, scores, ended) in enumerate(zip(rows, *values, strict=True)):
            hypotheses = [
                Hypothesis(
                    tokens[:length] if end else _shortened(tokens[:length], number, constraints),
                    score,
                    self._normalised(score, length + end),
                    end,
                )
                for tokens, length, score, end in zip(sequences, lengths, scores, ended, strict=True)
            ]
            sentences.append(sorted(hypotheses, key=lambda hypothesis: -hypothesis.score))
        return sentences

    def _normalised(self, log_probability: float, length: int) -> float:
        """Return the score of a sequence, its log-probability divided by ``length ** length_penalty``."""
        return log_probability / max(length, 1) ** self.length_penalty


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
    token_bytes: Sequence[bytes] | None = None,
    sources: Sequence[Sequence[int]] | None = None,
    further: Sequence[Constraint] = (),
) -> list[list[Hypothesis]]:
    """Sample ``n_best`` sequences for each sentence, and return them with the highest score first.

    The score is that of beam search without a coverage penalty. It uses log-probabilities at temperature 1. Equal
    sequences may be drawn.

    The arguments are those of :func:`regard.decoding.decode`, with ``limits`` as the largest number of tokens of each
    sentence, with the end of sentence. The draws for a sentence depend on the seed and on its number in ``numbers`` (by
    default its index), not on the other sentences of the batch.
    """
    state, first = begin(model, memory, len(limits), bos, prompts)
    if options.n_best > 1 and limits:
        state.reorder(torch.arange(len(limits), device=first.device).repeat_interleave(options.n_best))
    tokens = first[:, -1:].expand(-1, options.n_best)  # (n,w)
    chance = RandomNumbers(options, range(len(limits)) if numbers is None else numbers, tokens.device)
    allowed = Allowed(eos, tuple(banned), options.min_length)
    known: dict[str, Any] = {"token_bytes": token_bytes, "sources": sources}
    known["prompted"] = prompts is not None
    constraints = [*make_constraints(options, first, eos=eos, banned=allowed.banned, **known), *further]
    draws = _Draws(limits, options, tokens.device)
    history, before = [tokens], first[:, None].expand(-1, options.n_best, -1)  # of (n,w), and (n,w,p)
    while bool(draws.going.any()):
        scores = model.output(model.step(tokens, state))  # (n,w,v)
        if options.repetition_penalty != 1:
            seen = torch.cat([before, torch.stack(history, dim=-1)], dim=-1)  # (n,w,p+t)
            scores = penalised(scores, seen, options.repetition_penalty)
        scores = allowed.log_probabilities(scores, len(draws.written))
        for constraint in constraints:
            constraint.block(scores, torch.stack(history, dim=-1), draws.limit[:, 0] - len(history))
        tokens = draw(scores, options, chance.next())
        draws.add(tokens, scores.gather(-1, tokens[..., None])[..., 0], eos)
        history.append(tokens)
        for constraint in constraints:
            constraint.follow(None, tokens)
    return draws.hypotheses(constraints)


def _shortened(tokens: list[int], sentence: int, constraints: list[Constraint]) -> list[int]:
    """Return the tokens of a sequence that was cut off, as the constraints allow it to end."""
    for constraint in constraints:
        tokens = constraint.shortened(tokens, sentence)
    return tokens


class RandomNumbers:
    """A source of random numbers with a separate generator for each sentence."""

    def __init__(self, options: DecodingOptions, numbers: Sequence[int], device: torch.device):
        self.draws, self.device = options.n_best, device
        self.streams = [
            torch.Generator().manual_seed(_sentence_seed(options.seed, number)) for number in numbers
        ]

    def next(self) -> Tensor:
        """Return a uniform random number in [0, 1) for each draw, ``(n,w)``."""
        drawn = [torch.rand(self.draws, generator=stream, dtype=torch.float64) for stream in self.streams]
        return torch.stack(drawn).to(self.device)


def _sentence_seed(seed: int, number: int) -> int:
    """Derive the seed of a sentence from the seed of the run and the sentence number, by hashing."""
    return int.from_bytes(hashlib.sha256(f"{seed} {number}".encode()).digest()[:8], "big") >> 1


def draw(scores: Tensor, options: DecodingOptions, chance: Tensor) -> Tensor:
    """Draw a token ``(n,w)`` from each row of log-probabilities ``scores (n,w,v)`` by inverse transform sampling.

    ``chance (n,w)`` holds the uniform random numbers. A row of only -inf gives an arbitrary token, and NaN raises
    ArgumentError.
    """
    most = scores.amax(dim=-1, keepdim=True)
    if bool(most.isnan().any()):
        raise ArgumentError("model", "its scores contain NaN")
    numbers = torch.finfo(scores.dtype)
    scores = (scores - most.clamp(min=numbers.min)) / max(options.temperature, numbers.tiny)
    scores = torch.where(most > -torch.inf, scores, 0.0)
    places = None
    if options.top_k or options.top_p < 1:
        count = min(options.top_k or scores.shape[-1], scores.shape[-1])
        scores, places = scores.topk(count, dim=-1)  # best first
        scores = _nucleus(scores, options.top_p)
    if options.min_p:
        # The score of the most likely token is 0.
        scores = scores.masked_fill(scores < math.log(options.min_p), -torch.inf)
    cumulative = scores.double().softmax(dim=-1).cumsum(dim=-1)  # (n,w,v)
    total = cumulative[..., -1:]
    reached = torch.minimum(chance[..., None] * total, torch.nextafter(total, torch.zeros_like(total)))
    drawn = torch.searchsorted(cumulative, reached, right=True)  # (n,w,1)
    return (drawn if places is None else places.gather(-1, drawn))[..., 0]


def _nucleus(ordered: Tensor, share: float) -> Tensor:
    """Return scores with all but the most likely tokens, whose probabilities sum to ``share`` (top-p), set to -inf.

    ``ordered`` holds log-probabilities ``(...,v)``, best first, which are renormalised for the sum. The smallest number
    of tokens that reaches ``share`` is kept, and at least one.

    >>> _nucleus(torch.tensor([0.5, 0.25, 0.125, 0.125]).log(), 0.75).exp()
    tensor([0.5000, 0.2500, 0.0000, 0.0000])
    """
    if share == 1:
        return ordered
    probabilities = ordered.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    before[..., 0] = 0.0
    return ordered.masked_fill(before >= share, -torch.inf)
