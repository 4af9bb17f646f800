"""Batched beam search, which is greedy decoding if there is one beam.

Each sentence has ``w`` hypotheses. At every step each hypothesis is continued with every token, and the best ``2 w``
continuations are considered. Those among the first ``w`` that end the sentence are finished. The best ``w`` of the
others continue. A sentence is done when ``w`` hypotheses are finished, when no open hypothesis can still become one of
the best, or at its length limit. It then leaves the batch. If too few likely hypotheses finished, hypotheses cut off at
the limit are added. Without early stopping, a sentence with ``w`` finished hypotheses goes on while an open one is
better. Without ``ended_first``, the best ``w`` hypotheses that are open at the limit are always added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.copying import COPY_ATTENTION
from regard.decoding.constraints import Constraint, make_constraints
from regard.decoding.continuations import Allowed, top_continuations
from regard.decoding.hypotheses import FinishedHypotheses, Hypothesis
from regard.decoding.options import DecodingOptions
from regard.decoding.prompts import Prompts, begin
from regard.decoding.protocol import Decodable, DecodingState
from regard.decoding.repetition import RepetitionPenalty
from regard.decoding.sampling import sample
from regard.errors import ArgumentError
from regard.maps import Record

__all__ = ["beam_search", "decode"]

_NEVER = -math.inf
# Finished sentences are removed once at most this share of the batch is open, because removing copies the rest.
_OPEN_SHARE = 0.85
# The least coverage of a source token, so that a single unattended token does not dominate the penalty.
_LEAST_COVERAGE = 1e-6


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
    token_bytes: Sequence[bytes] | None = None,
    sources: Sequence[Sequence[int]] | None = None,
    further: Sequence[Constraint] = (),
) -> list[list[Hypothesis]]:
    """Generate the ``n_best`` hypotheses of each sentence, best first, by beam search or sampling.

    ``memory`` is the encoder output of ``len(source_lengths)`` sentences. The source lengths in tokens only set the
    default of ``max_length``. ``bos`` and ``eos`` are the ids of the beginning and the end of a sentence, and the
    tokens with the ids ``banned`` are never generated. ``prompts (b,p)``, all of one length, replace ``bos``. For a
    model without a source, give prompts, ``memory=None``, and the lengths of the prompts as ``source_lengths``.
    ``numbers`` identify the sentences for :func:`regard.decoding.sample`. Beam search ignores them.

    ``token_bytes`` are the bytes of each token of a byte-level vocabulary, empty for special tokens. If they are given,
    the generated text is always valid UTF-8 and never contains U+FFFD. ``sources`` are the token ids of the sources, to
    which ``no_repeat`` compares the hypotheses. ``further`` are constraints on these sentences, such as
    :class:`regard.decoding.known_words.KnownWords`.

    The model should be in evaluation mode, which is not changed here. No gradients are computed.
    """
    limits = [options.limit(length) for length in source_lengths]
    common: dict[str, Any] = {"bos": bos, "eos": eos, "banned": banned, "prompts": prompts}
    common |= {"token_bytes": token_bytes, "sources": sources, "further": further}
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
    token_bytes: Sequence[bytes] | None = None,
    sources: Sequence[Sequence[int]] | None = None,
    further: Sequence[Constraint] = (),
) -> list[list[Hypothesis]]:
    """Return the ``n_best`` hypotheses of each sentence by beam search, best first.

    ``limits`` holds the largest number of tokens of each sentence, with the end of sentence. The other arguments are
    those of :func:`decode`. A sentence may have fewer hypotheses if fewer sequences are allowed.
    """
    if not limits:
        return []
    state, first = begin(model, memory, len(limits), bos, prompts)
    allowed = Allowed(eos, tuple(banned), options.min_length)
    known: dict[str, Any] = {"token_bytes": token_bytes, "sources": sources}
    known["prompted"] = prompts is not None
    constraints = [*make_constraints(options, first, eos=eos, banned=allowed.banned, **known), *further]
    if options.repetition_penalty != 1:
        constraints.append(RepetitionPenalty(options.repetition_penalty, first))
    lengths = getattr(memory, "lengths", None)
    search = _Search(model, state, first[:, -1:], limits, options, allowed, constraints, lengths)
    while any(search.open):
        search.advance()
    return [finished.best() for finished in search.finished]


class _Search:
    """The state of a beam search over ``n`` sentences with ``w`` hypotheses each and ``t`` tokens so far.

    A sentence is a row of the batch. ``n`` falls as sentences that are done leave the batch, and ``w`` is 1 before the
    first step.
    """

    def __init__(
        self,
        model: Decodable,
        state: DecodingState,
        first: Tensor,  # (n,1), the token before the first generated token
        limits: list[int],
        options: DecodingOptions,
        allowed: Allowed,
        constraints: list[Constraint],
        source_lengths: Tensor | None,
    ):
        self.model, self.state, self.options, self.allowed = model, state, options, allowed
        self.constraints = constraints
        self.limits, self.source_lengths = limits, source_lengths
        self.finished = [FinishedHypotheses(options.n_best, ended_first=options.ended_first) for _ in limits]
        self.sentences = list(range(len(limits)))  # the sentence of each row of the batch
        self.open = [True] * len(limits)  # False for rows that are done
        self.tokens = first[:, None]  # (n,w,1+t), starts as one empty hypothesis
        self.scores = torch.zeros(first.shape, device=first.device)  # (n,w), log-probabilities
        self.coverage: Tensor | None = None  # (n,w,s), attention to each source token so far

    def advance(self) -> None:
        """Generate one more token of every hypothesis, and store the hypotheses that end."""
        # The length of the continuations, with the new token.
        length = self.tokens.shape[2]
        values, parents, tokens = top_continuations(
            self._next_scores(length), self.scores, 2 * self.options.beams
        )  # (n,2w), best first
        ends = tokens == self.allowed.eos
        self._store_ended(values, parents, ends, length)
        values, places = values.masked_fill(ends, _NEVER).topk(
            min(self.options.beams, values.shape[1]), dim=1
        )
        best = values[:, 0].tolist()
        closing = [
            row for row, score in enumerate(best) if self.open[row] and self._is_done(row, score, length)
        ]
        for row in closing:
            self.open[row] = False
            if best[row] == _NEVER and not self.finished[self.sentences[row]].all:
                # No token may follow, so the hypothesis is kept as it is.
                self._cut_off(row, length - 1)
        self._continue_with(values, parents.gather(1, places), tokens.gather(1, places))
        for row in closing:
            self._cut_off(row, length)
        if closing:
            self._remove_done(closing)

    def _next_scores(self, length: int) -> Tensor:
        """Return the log-probabilities ``(n,w,v)`` of the next token, number ``length``, after each hypothesis.

        With a coverage penalty, the attention of this step is added to ``coverage``.
        """
        records: list[Record] | None = [] if self.options.coverage_penalty else None
        hidden = self.model.step(self.tokens[:, :, -1], self.state, records=records)  # (n,w,m)
        if records is not None:
            attended = _attended(records)
            self.coverage = attended if self.coverage is None else self.coverage + attended
        scores = self.allowed.log_probabilities(self.model.output(hidden), length - 1)
        if self.constraints:
            room = [self.limits[sentence] - length for sentence in self.sentences]
            for constraint in self.constraints:
                constraint.block(scores, self.tokens, torch.tensor(room, device=scores.device))
        return scores

    def _store_ended(self, values: Tensor, parents: Tensor, ends: Tensor, length: int) -> None:
        """Store those of the best ``w`` continuations that end the sentence.

        ``values``, ``parents`` and ``ends`` are ``(n,2w)``, best first. ``length`` counts the end of sentence.
        """
        beams = self.options.beams
        rows, places = (ends & (values > _NEVER))[:, :beams].nonzero(as_tuple=True)
        if len(rows):
            self._store(rows, parents[rows, places], values[rows, places], length, ended=True)

    def _store(
        self, rows: Tensor, hypotheses: Tensor, log_probabilities: Tensor, length: int, *, ended: bool
    ) -> None:
        """Store x hypotheses as results, given by ``rows``, ``hypotheses`` and ``log_probabilities``, all ``(x,)``.

        ``hypotheses`` are indices from 0 to w - 1. ``length`` is the number of tokens by which scores are divided.
        """
        tokens: list[Any] = self.tokens[rows, hypotheses, 1:].tolist()
        scores = log_probabilities / max(length, 1) ** self.options.length_penalty
        if self.coverage is not None:
            attended = self.coverage[rows, hypotheses]  # (x,s)
            scores = scores + self.options.coverage_penalty * self._coverage_score(rows, attended)
        for constraint in () if ended else self.constraints:
            pairs = zip(tokens, rows.tolist(), strict=True)
            tokens = [constraint.shortened(hypothesis, row) for hypothesis, row in pairs]
        for row, *values in zip(
            rows.tolist(), tokens, log_probabilities.tolist(), scores.tolist(), strict=True
        ):
            self.finished[self.sentences[row]].all.append(Hypothesis(*values, ended=ended))

    def _coverage_score(self, rows: Tensor, attended: Tensor) -> Tensor:
        """Return the coverage term of the score, the sum of log(min(attention, 1)) over source tokens, ``(x,)``.

        ``attended (x,s)`` is the total attention to each source token. The term is 0 if every source token received a
        total attention of at least 1, and negative otherwise.
        """
        log_coverage = attended.clamp(min=_LEAST_COVERAGE, max=1.0).log()  # (x,s)
        # Padding does not count, because it is never attended to.
        if self.source_lengths is not None:
            lengths = self.source_lengths[[self.sentences[row] for row in rows.tolist()]]
            positions = torch.arange(log_coverage.shape[1], device=log_coverage.device)
            log_coverage = log_coverage.masked_fill(positions >= lengths[:, None], 0.0)
        return log_coverage.sum(dim=1)

    def _is_done(self, row: int, best: float, length: int) -> bool:
        """Return whether the sentence in a row needs no more steps.

        ``best`` is the log-probability of its best open hypothesis, and ``length`` the number of tokens of that. Raises
        ArgumentError if it is NaN.
        """
        if math.isnan(best):
            raise ArgumentError("model", "its scores contain NaN")
        finished, limit = self.finished[self.sentences[row]], self.limits[self.sentences[row]]
        if best == _NEVER or length >= limit:
            return True
        if len(finished.all) >= self.options.beams:
            worst = finished.score_of(self.options.beams)
            return self.options.early_stopping or best / length**self.options.length_penalty <= worst
        # The upper bound assumes that all further tokens have probability 1, the largest length and full coverage.
        return best / limit**self.options.length_penalty <= finished.to_beat()

    def _cut_off(self, row: int, length: int) -> None:
        """Add the best open hypotheses to the results of the sentence in a row, until it has ``n_best``.

        ``length`` is the number of their tokens. At the limit, unlikely hypotheses do not count as results.
        """
        finished = self.finished[self.sentences[row]]
        missing = finished.wanted - len(finished.all)
        if length >= self.limits[self.sentences[row]]:
            finished.best_open = float(self.scores[row].max())
            missing = finished.wanted - len(finished.likely())
            missing = missing if self.options.ended_first else self.options.beams
        if missing <= 0:
            return
        (hypotheses,) = (self.scores[row, :missing] > _NEVER).nonzero(as_tuple=True)  # best first
        rows = torch.full_like(hypotheses, row)
        self._store(rows, hypotheses, self.scores[rows, hypotheses], length, ended=False)

    def _continue_with(self, values: Tensor, parents: Tensor, tokens: Tensor) -> None:
        """Replace the hypotheses by ``parents``, each continued with a token.

        ``values`` (the new log-probabilities), ``parents`` (indices of hypotheses in their row) and ``tokens`` are
        ``(n,w)``.
        """
        n, w = self.scores.shape
        rows = torch.arange(n, device=parents.device)[:, None] * w + parents
        if any(self.open) and not _in_place(parents, w):
            self.state.reorder(rows.flatten())
        for constraint in self.constraints:
            constraint.follow(rows, tokens)
        self.tokens = torch.cat([self.tokens.flatten(0, 1)[rows], tokens[..., None]], dim=2)
        self.scores = values
        if self.coverage is not None:
            self.coverage = self.coverage.flatten(0, 1)[rows]

    def _remove_done(self, rows: list[int]) -> None:
        """Stop the search in done rows, and remove all done rows once enough of the batch is done.

        The caller has marked ``rows`` as not open. Done rows are removed if some rows are open, and these are at most
        ``_OPEN_SHARE`` of the batch.
        """
        # A done row with these scores produces no more hypotheses while it stays in the batch.
        self.scores[rows] = _NEVER
        going = [row for row, is_open in enumerate(self.open) if is_open]
        if not going or len(going) > _OPEN_SHARE * len(self.open):
            return
        open_rows = torch.tensor(going, device=self.scores.device)
        self.state.keep(open_rows, self.scores.shape[1])
        self.tokens, self.scores = self.tokens[open_rows], self.scores[open_rows]
        self.coverage = None if self.coverage is None else self.coverage[open_rows]
        for constraint in self.constraints:
            constraint.keep(open_rows)
        self.sentences = [self.sentences[row] for row in going]
        self.open = [True] * len(going)


def _attended(records: list[Record]) -> Tensor:
    """Return the attention to each source token, ``(n,w,s)``, as the head mean of the last cross-attention.

    The copy attention of a Transformer is left out, because it has no meaning where a token is generated.
    """
    cross = [record for record in records if record.kind == "cross"]
    cross = [record for record in cross if record.name != COPY_ATTENTION] or cross
    if not cross:
        raise ArgumentError("coverage_penalty", "this model has no attention to a source", "leave it at 0")
    return cross[-1].map.weights().mean(dim=1)


def _in_place(parents: Tensor, before: int) -> bool:
    """Return whether every hypothesis continues the one in its own row, so that no reordering is needed."""
    if parents.shape[1] != before:
        return False
    return before == 1 or bool((parents == torch.arange(before, device=parents.device)).all())
