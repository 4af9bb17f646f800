"""The base class of predictors that write a text for a text, with the search, the spans and the attention of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import torch

from regard.decoding import DecodingOptions, Hypothesis, decode
from regard.errors import UnknownArgumentError, did_you_mean
from regard.maps import Record
from regard.tasks.bundle import BundledPredictor
from regard.text import UNKNOWN_SIGN, Vocabulary, pad_sequences
from regard.text.traced import TracedText
from regard.training.batch_progress import with_progress

if TYPE_CHECKING:
    from regard.capture import Recording
    from regard.decoding.constraints import Constraint

__all__ = ["ShownText", "Span", "TextGenerator", "batches_by_length", "options_with", "spelled"]

# Source tokens that are read together: texts times the longest.
BATCH_TOKENS = 3000
Span = tuple[int, int]


class ShownText(NamedTuple):
    """A text for the user, traced to the text that the model wrote.

    ``tokens`` are the spans of the tokens in the written text, if they are known already.
    """

    text: TracedText
    written: str
    tokens: Sequence[Span] = ()

    @classmethod
    def of(cls, written: str, tokens: Sequence[Span] = ()) -> Self:
        """Return the text that the model wrote, unchanged."""
        return cls(TracedText(written), written, tokens)


class TextGenerator(BundledPredictor):
    """An encoder–decoder with the vocabularies of its source and its target."""

    source: Vocabulary
    target: Vocabulary
    # Whether a sequence of tokens may be repeated as often as one is in the source.
    may_repeat_source: ClassVar[bool] = True

    @property
    def attends(self) -> bool:
        """Whether the model has attention to the source."""
        return getattr(self.model.config, "attention", "") is not None

    def decoded(
        self,
        sources: list[list[int]],
        numbers: list[int],
        options: DecodingOptions,
        further: Sequence[Constraint] = (),
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses for each source, best first.

        ``numbers`` identify the sources in sampling, and ``further`` are constraints of :func:`regard.decoding.decode`.
        """
        ids, lengths = pad_sequences(sources, end=self.source.eos)
        memory = self.model.encode(ids.to(self.device), lengths.to(self.device))
        target = self.target
        special = {"bos": target.bos, "eos": target.eos, "banned": (target.pad, target.bos)}
        known: dict[str, Any] = {"token_bytes": target.token_bytes, "further": further}
        known["sources"] = sources if self.may_repeat_source else None
        return decode(self.model, memory, lengths.tolist(), options, numbers=numbers, **special, **known)

    def spans_of(self, text: str, ids: list[int]) -> list[Span]:
        """Return the character span of each target token in the text that the tokens make.

        The tokens may differ from those that the vocabulary gives for the text, because the model generated them.
        """
        if self.target.encode(text) == ids:
            return self.target.spans(text)
        return spelled(self.pieces_of(ids))[1]

    def pieces_of(self, ids: list[int]) -> list[str]:
        """Return the characters that each target token adds to the text.

        A character of several tokens belongs to the last of them.
        """
        pieces, before = [], ""
        for count in range(1, len(ids) + 1):
            text = self.target.decode(ids[:count])
            whole = (
                text if ids[count - 1] == self.target.unk or count == len(ids) else text.rstrip(UNKNOWN_SIGN)
            )
            pieces.append(whole[len(before) :] if len(whole) > len(before) else "")
            before = max(before, whole, key=len)
        return pieces

    @torch.no_grad()
    def forced(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]], *, ended: bool = True
    ) -> list[Record]:
        """Return all attention of the model for these sources and targets, with teacher forcing.

        ``ended`` appends the end-of-sentence token to each target.
        """
        source, lengths = pad_sequences(sources, end=self.source.eos)
        end = {"end": self.target.eos} if ended else {}
        target, _ = pad_sequences(targets, start=self.target.bos, **end)
        records: list[Record] = []
        self.model.eval()
        inputs = (part.to(self.device) for part in (source, target, lengths))
        self.model.hidden(*inputs, records=records)
        return records

    def recording(self, source: list[str], source_ids: list[int], target_ids: list[int]) -> Recording:
        """Return all attention of the model while it reads a source and writes a target.

        ``source`` are the source tokens as text, without the end. Row i of the decoder reads token i - 1 of the target,
        or the start, and writes token i, or the end.
        """
        from regard.capture import Recording

        source = [*source, "</s>"] if len(source) == len(source_ids) else [str(one) for one in source_ids]
        pieces = [self.target.decode([number]) for number in target_ids]
        read, written = ["<s>", *pieces], [*pieces, "</s>"]  # by a row of the decoder
        sides = {"self": (source, source), "causal": (read, read), "cross": (written, source)}
        records = self._records([source_ids], [target_ids])
        return Recording([_labelled(record, *sides[record.kind]) for record in records])

    def _records(self, sources: list[list[int]], targets: list[list[int]]) -> Iterable[Record]:
        """Return the records of each attention, with queries and keys where its scores are their products."""
        from regard.capture import capture

        if self.model.config.kind != "transformer":
            return self.forced(sources, targets, ended=False)
        with capture(self.model) as seen:
            whole = self.forced(sources, targets, ended=False)
        # A model names its own records. Those of capture keep queries and keys instead of weights.
        return [replace(one, map=record.map) for one, record in zip(whole, seen, strict=True)]


def _labelled(record: Record, queries: list[str], keys: list[str]) -> Record:
    _, _, q, k = record.map.shape
    return replace(
        record,
        query_tokens=[queries[:q]] if len(queries) >= q else None,
        key_tokens=[keys[:k]] if len(keys) >= k else None,
    )


def spelled(pieces: list[str]) -> tuple[str, list[Span]]:
    """Join pieces to a text, and return the span of each without the space before it.

    >>> spelled(["le", " chat", "."])
    ('le chat.', [(0, 2), (3, 7), (7, 8)])
    """
    text, spans = "", []
    for piece in pieces:
        start = len(text) + len(piece) - len(piece.lstrip())
        text += piece
        spans.append((min(start, len(text)), len(text)))
    return text, spans


def batches_by_length(lengths: list[int], batch_size: int | None = None) -> Iterator[list[int]]:
    """Yield the indices of texts of similar length, the longest first, as many as fit in a batch.

    >>> list(batches_by_length([2, 9, 5], batch_size=2))
    [[1, 2], [0]]
    """
    return with_progress(_batches(lengths, batch_size), len(lengths))


def _batches(lengths: list[int], batch_size: int | None) -> Iterator[list[int]]:
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        count = batch_size or max(1, BATCH_TOKENS // (lengths[order[start]] + 1))
        yield order[start : start + count]
        start += count


def options_with(
    options: DecodingOptions | None, settings: dict[str, Any], *, verb: str, **defaults: Any
) -> DecodingOptions:
    """Return the options with some settings replaced.

    Without options they are the ``defaults``, and there are 5 beams, or as many as texts are asked for. ``verb`` is the
    name of the method, for errors.

    >>> options_with(None, {"n_best": 7}, verb="translate").beams
    7
    >>> options_with(DecodingOptions(beams=3), {"n_best": 2}, verb="translate").beams
    3
    """
    known = [field.name for field in fields(DecodingOptions)]
    for name in settings:
        if name not in known:
            fix = f"{did_you_mean(name, known)}known are {', '.join(known)}"
            raise UnknownArgumentError(name, f"not a setting of {verb}()", fix)
    if options is not None:
        return replace(options, **settings)
    wanted = settings.get("n_best", 1)
    beams = max(5, wanted) if isinstance(wanted, int) else 5
    return DecodingOptions(**{"beams": beams, **defaults, **settings})
