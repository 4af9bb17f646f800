"""A translator, which is a model with its vocabularies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch

from regard.decoding import DecodingOptions, Hypothesis, decode
from regard.errors import ArgumentError, UnknownArgumentError, did_you_mean
from regard.maps import Record
from regard.metrics import is_chinese
from regard.shapes import whole_number
from regard.tasks.bundle import Bundle, BundledPredictor, checked_texts
from regard.tasks.translate.alignment_head import alignment_head_of, checked_alignment_head
from regard.tasks.translate.long_texts import cut_text, is_endless, spaced
from regard.text import UNKNOWN_SIGN, Vocabulary, pad_sequences

if TYPE_CHECKING:
    from regard.capture import Recording
    from regard.tasks.translate.alignment import WordAlignment

__all__ = ["Translation", "Translator"]

BATCH_TOKENS = 3000  # source tokens translated together: sentences times the longest
LONGEST = 128  # tokens translated in one piece, where the model does not say how many it was trained on
Span = tuple[int, int]


@dataclass(frozen=True)
class Translation:
    """A translated sentence, and its alternatives where more than one was asked for.

    A score is the log-probability of a text divided by its number of tokens (to the power of ``length_penalty``), so
    that scores of short and long texts can be compared. That of a long text is the mean over the tokens of its parts.
    """

    source: str
    text: str
    score: float
    source_ids: list[int]
    target_ids: list[int]
    copied_spans: tuple[Span, ...] = ()  # of the target tokens, where unknown words were copied into the text
    alternatives: tuple[tuple[str, float], ...] = ()  # the next best texts, each with its score
    parts: tuple[Translation, ...] = ()  # of a long text, which is translated piece by piece
    cut_off: bool = False  # at the greatest length, before the model ended the sentence

    @property
    def written_parts(self) -> tuple[Translation, ...]:
        """The parts of a long text that are not empty, or the translation itself."""
        parts = self.parts or (self,)
        return tuple(part for part in parts if part.text.strip() and part.source.strip())

    def lines(self, *, scores: bool = False) -> list[str]:
        """Return the text and its alternatives, with their scores if asked."""
        texts = [(self.text, self.score), *self.alternatives]
        return [f"{text}\t{score:.3f}" if scores else text for text, score in texts]

    def to_json(self, attention: Sequence[WordAlignment] | None = None) -> dict[str, Any]:
        """Return the translation as a JSON object, with the attention of its written parts if given."""
        values: dict[str, Any] = {"source": self.source, "translation": self.text}
        values |= {"score": round(self.score, 4), "cut_off": self.cut_off}
        if self.alternatives:
            others = [{"translation": text, "score": round(score, 4)} for text, score in self.alternatives]
            values["alternatives"] = others
        if attention is not None and self.parts:
            pairs = zip(self.written_parts, attention, strict=True)
            values["parts"] = [
                {"source": part.source, "translation": part.text, **words.to_json()} for part, words in pairs
            ]
        elif attention:
            values |= attention[0].to_json()
        return values


class Translator(BundledPredictor):
    """A model with its two vocabularies, which translates texts.

    ``Translator.load("en-fr")`` loads an installed model or a folder, ``translate(texts)`` returns the translations in
    order, and :func:`regard.tasks.translate.align` returns the attention between the words of one of them.
    """

    task: ClassVar[str] = "translate"

    def __init__(
        self,
        model: Any,
        source: Vocabulary,
        target: Vocabulary,
        *,
        source_language: str = "",
        target_language: str = "",
        extra: dict[str, Any] | None = None,
    ):
        self.model, self.source, self.target = model, source, target
        self.source_language, self.target_language = source_language, target_language
        self.extra = extra or {}

    @torch.no_grad()
    def translate(
        self,
        texts: Iterable[str],
        options: DecodingOptions | None = None,
        *,
        first: int = 0,
        batch_size: int | None = None,
        **settings: Any,
    ) -> list[Translation]:
        """Translate texts, and return the translations in their order.

        ``texts`` is a list or anything else that gives one text after the other. ``settings`` are those of
        :class:`regard.decoding.DecodingOptions`, such as ``beams=1``; they replace those of ``options``.
        ``batch_size`` texts are translated at a time, by default as many as have 3000 tokens together.

        ``first`` is the number of the first text among all that are translated with the same options, where they come
        bit by bit: with sampling, what is drawn for a text depends on the seed and on its number alone.
        """
        texts, options = checked_texts(texts), _options_with(options, settings)
        if batch_size is not None:
            batch_size = whole_number("batch_size", batch_size, least=1)
        pieces = [self._pieces(spaced(text)) for text in texts]
        numbers = [first + i for i, several in enumerate(pieces) for _ in several]
        whole = [piece for several in pieces for piece in several]
        done = iter(self._translate(whole, numbers, options, batch_size))
        return [
            self._joined(text, [next(done) for _ in several])
            for text, several in zip(texts, pieces, strict=True)
        ]

    def _translate(
        self, texts: list[str], numbers: list[int], options: DecodingOptions, batch_size: int | None
    ) -> list[Translation]:
        """Translate texts that are short enough for the model."""
        self.model.eval()
        # An empty text stays empty, because a model would invent a translation. A word without end is copied.
        found = [Translation(text, text if is_endless(text) else "", 0.0, [], []) for text in texts]
        said = [i for i, text in enumerate(texts) if text.strip() and not is_endless(text)]
        encoded = dict(zip(said, self.source.encode_batch([texts[i] for i in said]), strict=True))
        for batch in _batches([len(encoded[i]) for i in said], batch_size):
            places = [said[i] for i in batch]
            several = self._decoded([encoded[i] for i in places], [numbers[i] for i in places], options)
            for place, hypotheses in zip(places, several, strict=True):
                found[place] = self._translation(texts[place], encoded[place], hypotheses)
        return found

    def _decoded(
        self, sources: list[list[int]], numbers: list[int], options: DecodingOptions
    ) -> list[list[Hypothesis]]:
        ids, lengths = pad_sequences(sources, end=self.source.eos)
        memory = self.model.encode(ids.to(self.device), lengths.to(self.device))
        target = self.target
        special = {"bos": target.bos, "eos": target.eos, "banned": (target.pad, target.bos)}
        return decode(self.model, memory, lengths.tolist(), options, numbers=numbers, **special)

    @property
    def longest(self) -> int:
        """The number of tokens that are translated in one piece, which is that of the longest training sentence."""
        return int(self.extra.get("max_tokens", LONGEST))

    def _pieces(self, text: str) -> list[str]:
        """Cut a long text into pieces that are translated one by one."""
        return cut_text(text, self.source, self.longest, "" if is_chinese(self.source_language) else " ")

    def _joined(self, text: str, parts: list[Translation]) -> Translation:
        """Join the translations of the pieces, and their alternatives rank by rank."""
        if len(parts) == 1:
            return replace(parts[0], source=text)
        ranked = [((part.text, part.score), *part.alternatives) for part in parts]
        # Of a piece that was copied or is empty, there is one text only.
        ranks = [[texts[min(r, len(texts) - 1)] for texts in ranked] for r in range(max(map(len, ranked)))]
        # Tokens that were written, with the end of the sentence.
        lengths = [len(part.target_ids) + 1 if part.target_ids else 0 for part in parts]
        space = "" if is_chinese(self.target_language) else " "
        best, *others = [
            (
                space.join(words for words, _ in rank),
                sum(n * score for n, (_, score) in zip(lengths, rank, strict=True)) / max(1, sum(lengths)),
            )
            for rank in ranks
        ]
        cut_off = any(part.cut_off for part in parts)
        return Translation(
            text, *best, [], [], alternatives=tuple(others), parts=tuple(parts), cut_off=cut_off
        )

    @property
    def attends(self) -> bool:
        """Whether the model has attention to the source."""
        return getattr(self.model.config, "attention", "") is not None

    def _translation(self, text: str, ids: list[int], hypotheses: list[Hypothesis]) -> Translation:
        readable = [self._readable(text, ids, one.tokens) for one in hypotheses]
        others = tuple((words, one.score) for (words, _), one in zip(readable, hypotheses, strict=True))[1:]
        best, (words, spans) = hypotheses[0], readable[0]
        written = (best.tokens, tuple(spans), others)
        return Translation(text, words, best.score, ids, *written, cut_off=not best.ended)

    def _readable(self, source: str, source_ids: list[int], target_ids: list[int]) -> tuple[str, list[Span]]:
        """Return the text, with unknown words copied from the source, and the spans of the tokens if there are any."""
        if self.target.unk is None or self.target.unk not in target_ids or not self.attends:
            return self.target.decode(target_ids), []
        copied = self._looked_at(source, source_ids, target_ids)
        pieces = [
            piece.replace(UNKNOWN_SIGN, copied[place]) if number == self.target.unk else piece
            for place, (number, piece) in enumerate(zip(target_ids, self._pieces_of(target_ids), strict=True))
        ]
        return _spelled(pieces)

    def target_spans(self, translation: Translation) -> list[Span]:
        """Return the character span of each target token in the text of a translation.

        The tokens may differ from those that the vocabulary gives for the text, because the model generated them.
        """
        text, ids = translation.text, translation.target_ids
        if translation.copied_spans:
            return list(translation.copied_spans)
        if self.target.encode(text) == ids:
            return self.target.spans(text)
        return _spelled(self._pieces_of(ids))[1]

    def _pieces_of(self, ids: list[int]) -> list[str]:
        """Return the characters that each token adds to the text.

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

    def _looked_at(self, source: str, source_ids: list[int], target_ids: list[int]) -> list[str]:
        """Return, for each target token, the source token with the largest attention weight."""
        spans = self.source.spans(source)
        records = self.forced([source_ids], [target_ids], ended=False)
        weights = alignment_head_of(self).weights(records, 0, len(target_ids), len(spans))  # (t,s)
        places = weights.argmax(axis=1) if spans else []
        return [source[slice(*spans[place])] for place in places] or [UNKNOWN_SIGN] * len(target_ids)

    __call__ = translate

    def attention(self, prediction: Translation) -> Recording:
        """Return all attention of the model for one translation, as :func:`regard.capture` records it.

        Row i of the decoder reads token i - 1 of the target, or the start, and writes token i, or the end.
        """
        from regard.tasks.translate.recording import recorded

        return recorded(self, prediction)

    def word_weights(self, prediction: Translation) -> list[WordAlignment]:
        """Return the attention between the words of a translation and of its source, for each part of a long text."""
        from regard.tasks.translate.alignment import align

        return [align(self, part) for part in prediction.written_parts]

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

    def vocabularies(self) -> dict[str, Vocabulary]:
        """Return the vocabularies to save, one for both languages or one for each."""
        shared = self.source is self.target
        return {"tokenizer": self.source} if shared else {"source": self.source, "target": self.target}

    def saved_settings(self) -> dict[str, Any]:
        """Return the languages and the further settings of the model."""
        languages = {"source_language": self.source_language, "target_language": self.target_language}
        return {**self.extra, **languages}

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Self:
        """Make a translator from a saved model, or raise FileError if its settings do not fit together."""
        settings = bundle.settings
        if bundle.has_vocabulary("tokenizer"):
            source = target = bundle.vocabulary("tokenizer")
        else:
            source, target = bundle.vocabulary("source"), bundle.vocabulary("target")
        network = bundle.model()
        try:
            languages = {name: _language(settings, name) for name in ("source_language", "target_language")}
            whole_number("max_tokens", settings.get("max_tokens", 1), least=1)
            checked_alignment_head(settings.get("alignment"), network.config)
        except ArgumentError as error:
            raise bundle.reject(str(error)) from None
        for name, vocabulary in (("source_size", source), ("target_size", target)):
            size = getattr(network.config, name)
            if len(vocabulary) != size:
                problem = f"{name} is {size}, but the vocabulary beside it has {len(vocabulary)} tokens"
                raise bundle.reject(problem)
        return cls(network, source, target, **languages, extra=settings)


def _language(settings: dict[str, Any], name: str) -> str:
    if not isinstance(settings.get(name, ""), str):
        raise ArgumentError(name, f"expected the name of a language, got {settings[name]!r}")
    return settings.get(name, "")


def _spelled(pieces: list[str]) -> tuple[str, list[Span]]:
    """Join pieces to a text, and return the span of each without the space before it.

    >>> _spelled(["le", " chat", "."])
    ('le chat.', [(0, 2), (3, 7), (7, 8)])
    """
    text, spans = "", []
    for piece in pieces:
        start = len(text) + len(piece) - len(piece.lstrip())
        text += piece
        spans.append((min(start, len(text)), len(text)))
    return text, spans


def _batches(lengths: list[int], batch_size: int | None = None) -> Iterator[list[int]]:
    """Yield the indices of sentences of similar length, the longest first, as many as fit in a batch."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        count = batch_size or max(1, BATCH_TOKENS // (lengths[order[start]] + 1))
        yield order[start : start + count]
        start += count


def _options_with(options: DecodingOptions | None, settings: dict[str, Any]) -> DecodingOptions:
    """Return the options with some settings replaced.

    Without options there are 5 beams, or as many as translations are asked for.

    >>> _options_with(None, {"n_best": 7}).beams, _options_with(DecodingOptions(beams=3), {"n_best": 2}).beams
    (7, 3)
    """
    known = [field.name for field in fields(DecodingOptions)]
    for name in settings:
        if name not in known:
            fix = f"{did_you_mean(name, known)}known are {', '.join(known)}"
            raise UnknownArgumentError(name, "not a setting of translate()", fix)
    if options is not None:
        return replace(options, **settings)
    wanted = settings.get("n_best", 1)
    return DecodingOptions(**{"beams": max(5, wanted) if isinstance(wanted, int) else 5, **settings})
