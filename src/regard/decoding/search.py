"""Beam search over many sentences at once; with one beam it is greedy.

Each sentence has ``w`` hypotheses. At every step each hypothesis is continued with every token, and the best ``2 w``
continuations are looked at: those of the first ``w`` that end the sentence are found, the best ``w`` of the others go
on. A sentence is done when ``w`` hypotheses are found, when none that goes on can still become one of the best, or at
its limit; it then leaves the batch. Where fewer were found than are wanted, hypotheses cut off at the limit fill up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.decoding.beginning import Prompts, begin
from regard.decoding.hypotheses import Found, Hypothesis
from regard.decoding.options import DecodingOptions
from regard.decoding.protocol import Decodable, DecodingState
from regard.decoding.sampling import sample
from regard.decoding.selection import Allowed, top_continuations
from regard.errors import ArgumentError

__all__ = ["beam_search", "decode"]

_NEVER = -math.inf
_LEAVE = 0.85  # the batch is cut down when no more than this share of it goes on: cutting copies what stays
_UNSEEN = (
    1e-6  # the least attention a source token counts with, so that one left out does not decide everything
)


@torch.no_grad()
def decode(
    model: Decodable,
    memory: Any,
    source_lengths: list[int],
    options: DecodingOptions,
    *,
    bos: int,
    eos: int,
    banned: Sequence[int] = (),
    prompts: Prompts | None = None,
    numbers: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """For each sentence of ``memory`` its ``n_best`` hypotheses, best first; ``banned`` tokens are never written.

    ``prompts (b,p)``, all of one length, are read in place of ``bos``, and writing goes on after them: the way to use
    a model that has no source, with ``memory=None`` and the prompts' lengths as ``source_lengths``. ``numbers`` say
    which sentence each is, for sampling (see there).
    """
    limits = [options.limit(length) for length in source_lengths]
    common: dict[str, Any] = {"bos": bos, "eos": eos, "banned": banned, "prompts": prompts}
    if options.sample:
        return sample(model, memory, limits, options, **common, numbers=numbers)
    return beam_search(model, memory, limits, options, **common)


@torch.no_grad()
def beam_search(
    model: Decodable,
    memory: Any,
    limits: list[int],
    options: DecodingOptions,
    *,
    bos: int,
    eos: int,
    banned: Sequence[int] = (),
    prompts: Prompts | None = None,
) -> list[list[Hypothesis]]:
    """The best hypotheses of each sentence; ``limits`` says how many tokens each may have at most, its end counted."""
    if not limits:
        return []
    state, first = begin(model, memory, len(limits), bos, prompts)
    allowed = Allowed(eos, tuple(banned), options.min_length)
    search = _Search(model, state, first, limits, options, allowed, getattr(memory, "lengths", None))
    while any(search.open):
        search.advance()
    return [found.best() for found in search.found]


class _Search:
    """One batch on its way through a beam search: ``n`` sentences, ``w`` hypotheses of each, ``t`` tokens so far."""

    def __init__(
        self,
        model: Decodable,
        state: DecodingState,
        first: Tensor,  # (n,1): what comes before the first token
        limits: list[int],
        options: DecodingOptions,
        allowed: Allowed,
        source_lengths: Tensor | None,
    ):
        self.model, self.state, self.options, self.allowed = model, state, options, allowed
        self.limits, self.source_lengths = limits, source_lengths
        self.found = [Found(options.n_best) for _ in limits]
        self.sentences = list(range(len(limits)))  # which sentence each row of the batch is
        self.open = [True] * len(limits)  # which rows still go on
        self.tokens = first[:, None]  # (n,w,1+t), at first the empty hypothesis alone
        self.scores = torch.zeros(first.shape, device=first.device)  # (n,w): log-probabilities
        self.coverage: Tensor | None = None  # (n,w,s): how much each source token was attended to

    def advance(self) -> None:
        """Write one more token of every hypothesis."""
        length = self.tokens.shape[2]  # of those that end or go on now, this token counted
        values, parents, tokens = top_continuations(
            self._next_scores(length), self.scores, 2 * self.options.beams
        )  # (n,2w), best first
        ends = tokens == self.allowed.eos
        self._take_ended(values, parents, ends, length)
        values, places = values.masked_fill(ends, _NEVER).topk(
            min(self.options.beams, values.shape[1]), dim=1
        )
        best = values[:, 0].tolist()
        closing = [
            row for row, score in enumerate(best) if self.open[row] and self._is_done(row, score, length)
        ]
        for row in closing:
            self.open[row] = False
            if best[row] == _NEVER and not self.found[self.sentences[row]].all:
                self._cut_off(row, length - 1)  # nothing may follow: it stays as it was
        self._go_on(values, parents.gather(1, places), tokens.gather(1, places))
        for row in closing:
            self._cut_off(row, length)
        if closing:
            self._leave(closing)

    def _next_scores(self, length: int) -> Tensor:
        """Log-probabilities of each next token after each hypothesis, ``(n,w,v)``."""
        seen: list | None = [] if self.options.coverage_penalty else None
        hidden = self.model.step(self.tokens[:, :, -1], self.state, seen=seen)  # (n,w,m)
        if seen is not None:
            looked = _attended(seen)
            self.coverage = looked if self.coverage is None else self.coverage + looked
        return self.allowed.log_probabilities(self.model.output(hidden), length - 1)

    def _take_ended(self, values: Tensor, parents: Tensor, ends: Tensor, length: int) -> None:
        """Take down what has ended among the best ``w`` continuations."""
        beams = self.options.beams
        rows, places = (ends & (values > _NEVER))[:, :beams].nonzero(as_tuple=True)
        if len(rows):
            self._take_down(rows, parents[rows, places], values[rows, places], length, ended=True)

    def _take_down(
        self, rows: Tensor, hypotheses: Tensor, log_probabilities: Tensor, length: int, *, ended: bool
    ) -> None:
        """Keep some of the hypotheses for good; all arguments are ``(x,)``."""
        tokens = self.tokens[rows, hypotheses, 1:].tolist()
        scores = log_probabilities / max(length, 1) ** self.options.length_penalty
        if self.coverage is not None:
            attended = self.coverage[rows, hypotheses]  # (x,s)
            scores = scores + self.options.coverage_penalty * self._covered(rows, attended)
        for row, *one in zip(rows.tolist(), tokens, log_probabilities.tolist(), scores.tolist(), strict=True):
            self.found[self.sentences[row]].all.append(Hypothesis(*one, ended=ended))

    def _covered(self, rows: Tensor, attended: Tensor) -> Tensor:
        """0 where every source token was attended to at least once in all; the less it was, the lower, ``(x,)``."""
        each = attended.clamp(min=_UNSEEN, max=1.0).log()  # (x,s)
        if self.source_lengths is not None:  # padding is never attended to
            lengths = self.source_lengths[[self.sentences[row] for row in rows.tolist()]]
            each = each.masked_fill(torch.arange(each.shape[1], device=each.device) >= lengths[:, None], 0.0)
        return each.sum(dim=1)

    def _is_done(self, row: int, best: float, length: int) -> bool:
        """Whether a sentence needs no more steps; ``best`` is the log-probability of the best that goes on."""
        if math.isnan(best):
            raise ArgumentError("model", "its scores are not numbers (NaN)")
        found, limit = self.found[self.sentences[row]], self.limits[self.sentences[row]]
        if best == _NEVER or length >= limit or len(found.all) >= self.options.beams:
            return True
        # The most that a hypothesis can still reach: certain of all further tokens, as long as may be, all covered.
        return best / limit**self.options.length_penalty <= found.to_beat()

    def _cut_off(self, row: int, length: int) -> None:
        """Fill up with hypotheses that have not ended, where too few have."""
        found = self.found[self.sentences[row]]
        missing = found.wanted - len(found.all)
        if missing <= 0:
            return
        (which,) = (self.scores[row, :missing] > _NEVER).nonzero(as_tuple=True)  # best first
        rows = torch.full_like(which, row)
        self._take_down(rows, which, self.scores[rows, which], length, ended=False)

    def _go_on(self, values: Tensor, parents: Tensor, tokens: Tensor) -> None:
        """Continue the hypotheses ``parents`` with ``tokens``, all ``(n,w)``."""
        n, w = self.scores.shape
        rows = torch.arange(n, device=parents.device)[:, None] * w + parents
        if any(self.open) and not _in_place(parents, w):
            self.state.reorder(rows.flatten())
        self.tokens = torch.cat([self.tokens.flatten(0, 1)[rows], tokens[..., None]], dim=2)
        self.scores = values
        if self.coverage is not None:
            self.coverage = self.coverage.flatten(0, 1)[rows]

    def _leave(self, rows: list[int]) -> None:
        """Let what is done leave the batch, several sentences at a time."""
        self.scores[rows] = _NEVER  # finds nothing more while it stays
        going = [row for row, is_open in enumerate(self.open) if is_open]
        if not going or len(going) > _LEAVE * len(self.open):
            return
        which = torch.tensor(going, device=self.scores.device)
        self.state.keep(which, self.scores.shape[1])
        self.tokens, self.scores = self.tokens[which], self.scores[which]
        self.coverage = None if self.coverage is None else self.coverage[which]
        self.sentences = [self.sentences[row] for row in going]
        self.open = [True] * len(going)


def _attended(seen: list) -> Tensor:
    """How much each source token is attended to, ``(n,w,s)``: the last cross attention, all its heads."""
    cross = [one for one in seen if one.kind == "cross"]
    if not cross:
        raise ArgumentError("coverage_penalty", "this model has no attention to a source", "leave it at 0")
    return cross[-1].weights.mean(dim=1)


def _in_place(parents: Tensor, before: int) -> bool:
    """Whether every hypothesis goes on from its own row."""
    if parents.shape[1] != before:
        return False
    return before == 1 or bool((parents == torch.arange(before, device=parents.device)).all())
