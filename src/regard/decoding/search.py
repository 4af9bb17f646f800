"""Beam search over many sentences at once; with one beam it is greedy.

Each sentence has ``w`` hypotheses. At every step each hypothesis is continued with every token, and the best ``2 w``
continuations are looked at: those that end the sentence are finished hypotheses, the best ``w`` of the others go on.
A sentence is done when ``w`` hypotheses are finished, or when none that goes on can still become one of the best; it
then leaves the batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.decoding.options import DecodingOptions
from regard.decoding.protocol import Decodable, DecodingState
from regard.decoding.sampling import sample
from regard.decoding.selection import log_probabilities, top_continuations

__all__ = ["Hypothesis", "beam_search", "decode"]

_NEVER = -math.inf


@dataclass(frozen=True)
class Hypothesis:
    """A finished sequence: its tokens without bos and eos, its log-probability, and the score it is ranked by."""

    tokens: list[int]
    log_probability: float
    score: float


@dataclass
class _Beams:
    """The hypotheses that go on: ``n`` sentences, ``w`` hypotheses of each, ``t`` tokens so far."""

    sentences: Tensor  # (n,): which sentences these are
    tokens: Tensor  # (n,w,t)
    scores: Tensor  # (n,w): log-probabilities
    coverage: Tensor | None = None  # (n,w,s): how much each source token was attended to

    def keep(self, which: Tensor) -> None:
        self.sentences, self.tokens, self.scores = (
            self.sentences[which],
            self.tokens[which],
            self.scores[which],
        )
        self.coverage = None if self.coverage is None else self.coverage[which]


@dataclass
class _Finished:
    """The finished hypotheses of one sentence, and how many are wanted."""

    wanted: int
    found: list[Hypothesis] = field(default_factory=list)

    def worst(self) -> float:
        """The score that another hypothesis has to beat."""
        if len(self.found) < self.wanted:
            return _NEVER
        return sorted(one.score for one in self.found)[-self.wanted]

    def best(self) -> list[Hypothesis]:
        return sorted(self.found, key=lambda one: -one.score)[: self.wanted]


@torch.no_grad()
def decode(
    model: Decodable,
    memory: Any,
    source_lengths: list[int],
    options: DecodingOptions,
    *,
    bos: int,
    eos: int,
    banned: tuple[int, ...] = (),
) -> list[list[Hypothesis]]:
    """For each sentence of ``memory`` its ``n_best`` hypotheses, best first; ``banned`` tokens are never written."""
    limits = [options.limit(length) for length in source_lengths]
    if options.sample:
        rows = sample(model, memory, limits, options, bos=bos, eos=eos, banned=banned)
        ranked = [[Hypothesis(tokens, score, score) for tokens, score in row] for row in rows]
        return [sorted(row, key=lambda one: -one.score) for row in ranked]
    return beam_search(model, memory, limits, options, bos=bos, eos=eos, banned=banned)


@torch.no_grad()
def beam_search(
    model: Decodable,
    memory: Any,
    limits: list[int],
    options: DecodingOptions,
    *,
    bos: int,
    eos: int,
    banned: tuple[int, ...] = (),
) -> list[list[Hypothesis]]:
    """The best hypotheses of each sentence; ``limits`` says how many tokens each may have at most."""
    search = _Search(model, memory, limits, options, bos, eos, banned)
    while search.going_on():
        search.advance()
    return [finished.best() for finished in search.finished]


class _Search:
    """One batch on its way through a beam search."""

    def __init__(
        self,
        model: Decodable,
        memory: Any,
        limits: list[int],
        options: DecodingOptions,
        bos: int,
        eos: int,
        banned: tuple[int, ...],
    ):
        self.model, self.options, self.eos, self.banned, self.limits = (
            model,
            options,
            eos,
            list(banned),
            limits,
        )
        self.finished = [_Finished(options.n_best) for _ in limits]
        self.state: DecodingState = model.start(memory)
        device = _device_of(memory)
        count = len(limits)
        self.beams = _Beams(  # one hypothesis each: the empty one
            torch.arange(count, device=device),
            torch.full((count, 1, 1), bos, dtype=torch.int64, device=device),
            torch.zeros(count, 1, device=device),
        )

    def going_on(self) -> bool:
        return len(self.beams.sentences) > 0

    def advance(self) -> None:
        """Write one more token of every hypothesis."""
        beams, options = self.beams, self.options
        scores = self._next_scores()  # (n,w,v)
        values, parents, tokens = top_continuations(scores, 2 * options.beams)  # (n,2w), best first
        length = beams.tokens.shape[2]  # tokens written, this one included: bos is not counted, this is
        ends = (tokens == self.eos) & (values > _NEVER)
        self._finish(values, parents, ends, length)
        self._go_on(values.masked_fill(ends, _NEVER), parents, tokens)
        self._drop_done(length)

    def _next_scores(self) -> Tensor:
        """Log-probabilities of all hypotheses with each next token added, ``(n,w,v)``."""
        beams = self.beams
        seen: list | None = [] if self.options.coverage_penalty else None
        hidden = self.model.step(beams.tokens[:, :, -1], self.state, seen=seen)  # (n,w,m)
        if seen:
            looked = seen[-1].weights.mean(dim=1)  # (n,w,s), the last cross attention over all its heads
            beams.coverage = looked if beams.coverage is None else beams.coverage + looked
        scores = log_probabilities(self.model.output(hidden))
        scores[..., self.banned] = _NEVER
        if beams.tokens.shape[2] <= self.options.min_length:
            scores[..., self.eos] = _NEVER
        return scores.add_(beams.scores[..., None])

    def _finish(self, values: Tensor, parents: Tensor, ends: Tensor, length: int) -> None:
        """Take down the hypotheses that have ended and are among the best ``w`` continuations."""
        ends = ends[:, : self.options.beams]
        for row, place in ends.nonzero().tolist():
            parent = int(parents[row, place])
            self._take_down(row, parent, float(values[row, place]), length)

    def _take_down(self, row: int, parent: int, log_probability: float, length: int) -> None:
        beams = self.beams
        score = log_probability / length**self.options.length_penalty
        if beams.coverage is not None:
            score += self.options.coverage_penalty * _coverage(beams.coverage[row, parent])
        tokens = beams.tokens[row, parent, 1:].tolist()
        self.finished[int(beams.sentences[row])].found.append(Hypothesis(tokens, log_probability, score))

    def _go_on(self, values: Tensor, parents: Tensor, tokens: Tensor) -> None:
        """Continue with the best ``w`` hypotheses that have not ended."""
        beams = self.beams
        values, places = values.topk(min(self.options.beams, values.shape[1]), dim=1)  # (n,w)
        parents, tokens = parents.gather(1, places), tokens.gather(1, places)
        rows = torch.arange(len(parents), device=parents.device)[:, None] * beams.scores.shape[1] + parents
        if not _in_order(rows, beams.scores.numel()):
            self.state.reorder(rows.flatten())
        written = beams.tokens.flatten(0, 1)[rows]  # (n,w,t)
        beams.tokens = torch.cat([written, tokens[..., None]], dim=2)
        beams.scores = values
        if beams.coverage is not None:
            beams.coverage = beams.coverage.flatten(0, 1)[rows]

    def _drop_done(self, length: int) -> None:
        """Let sentences that are done leave the batch, several at a time: leaving copies what stays."""
        beams = self.beams
        best = beams.scores[:, 0].tolist()
        places = beams.sentences.tolist()
        done = [self._is_done(place, score, length) for place, score in zip(places, best, strict=True)]
        for row, place in enumerate(places):
            if done[row] and not self.finished[place].found:  # cut off at its limit
                self._take_down(row, 0, best[row], length)
        self._mark_done([row for row, is_done in enumerate(done) if is_done])

    def _mark_done(self, rows: list[int]) -> None:
        beams = self.beams
        beams.scores[rows] = _NEVER  # finds nothing more
        going = (beams.scores[:, 0] > _NEVER).nonzero()[:, 0]
        if len(going) == 0 or len(going) <= 0.85 * len(beams.sentences):
            self.state.keep(going, beams.scores.shape[1])
            beams.keep(going)

    def _is_done(self, sentence: int, best: float, length: int) -> bool:
        finished = self.finished[sentence]
        limit = self.limits[sentence]
        if best == _NEVER or length >= limit or len(finished.found) >= self.options.beams:
            return True
        # The most that a hypothesis can still reach: certain of all further tokens, at the length that suits it best.
        reachable = best / limit**self.options.length_penalty
        return reachable <= finished.worst()


def _coverage(attended: Tensor) -> float:
    """0 where every source token was attended to at least once in all; the less it was, the lower."""
    return float(attended.clamp(min=1e-6, max=1.0).log().sum())


def _in_order(rows: Tensor, count: int) -> bool:
    """Whether every hypothesis goes on from its own row."""
    return rows.numel() == count and bool((rows.flatten() == torch.arange(count, device=rows.device)).all())


def _device_of(memory: Any) -> torch.device:
    return torch.device("cpu") if memory is None else memory.states.device
