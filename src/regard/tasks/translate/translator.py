"""A translator, which is a model with its vocabularies."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch

from regard.decoding import DecodingOptions, Hypothesis
from regard.errors import ArgumentError
from regard.metrics import is_chinese
from regard.shapes import whole_number
from regard.tasks.bundle import Bundle, checked_texts
from regard.tasks.text_generation import (
    ShownText,
    Span,
    TextGenerator,
    batches_by_length,
    options_with,
    spelled,
)
from regard.tasks.translate.alignment_head import AlignmentHead, alignment_head_of, checked_alignment_head
from regard.tasks.translate.casing import Casing
from regard.tasks.translate.long_texts import cut_text, is_endless, spaced
from regard.text import UNKNOWN_SIGN, Vocabulary

if TYPE_CHECKING:
    import numpy as np

    from regard.capture import Recording
    from regard.tasks.translate.alignment import WordAlignment
    from regard.tasks.written_words import ShownWord

__all__ = ["Translation", "Translator"]

# Tokens translated in one piece, where the model does not say how many it was trained on.
LONGEST = 128
# Beams of the search for a translation with a name or a number that the first translation lost.
WIDE_BEAMS = 10


@dataclass(frozen=True)
class Translation:
    """A translated text, and its alternatives where more than one was asked for.

    A text of several sentences has a translation of each in ``parts``. A score is the log-probability of a text
    divided by its number of tokens (to the power of ``length_penalty``), so that scores of short and long texts can be
    compared. That of several parts is the mean over their tokens.
    """

    source: str
    text: str
    score: float
    source_ids: list[int]
    target_ids: list[int]
    alternatives: tuple[tuple[str, float], ...] = ()  # the next best texts, each with its score
    # The sentences of a text, and the pieces of a long sentence.
    parts: tuple[Translation, ...] = ()
    # At the greatest length, before the model ended the sentence.
    cut_off: bool = False
    # The text that the model read and the text of the tokens that it wrote, which are empty if all was copied.
    read: str = ""
    written: str = ""
    # The spans of the tokens in ``written``, where unknown words were copied into it.
    token_spans: tuple[Span, ...] = ()
    # The span in ``written`` of each character of ``text``, if they differ.
    trace: tuple[Span, ...] | None = None

    @property
    def written_parts(self) -> tuple[Translation, ...]:
        """The parts of a text that are not empty, or the translation itself."""
        parts = self.parts or (self,)
        return tuple(part for part in parts if part.text.strip() and part.source.strip())

    @property
    def notes(self) -> list[str]:
        """What the model read and wrote, where it differs from the source and the text of one sentence."""
        from regard.tasks.written_words import text_notes

        return text_notes(read=(self.read, self.source), wrote=(self.written, self.text)) if self.read else []

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


class Translator(TextGenerator):
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
        normalize: bool = True,
        **settings: Any,
    ) -> list[Translation]:
        """Translate texts, and return the translations in their order.

        The sentences of a text are translated one by one, as plain sentences. What they are written with is given back,
        such as line breaks, capitals, final marks, emoji and addresses. With ``normalize=False`` the model reads each
        text as it is, and only texts that are too long are cut.

        ``texts`` is a list or anything else that gives one text after the other. ``settings`` are those of
        :class:`regard.decoding.DecodingOptions`, such as ``beams=1``; they replace those of ``options``.
        ``batch_size`` texts are translated at a time, by default as many as have 3000 tokens together.

        ``first`` is the number of the first text among all that are translated with the same options, where they come
        bit by bit: with sampling, what is drawn for a text depends on the seed and on its number alone.
        """
        texts, options = checked_texts(texts), options_with(options, settings, verb="translate")
        if batch_size is not None:
            batch_size = whole_number("batch_size", batch_size, least=1)

        def translated(sentences: list[str], numbers: list[int]) -> list[Translation]:
            return self._translate(sentences, numbers, options, batch_size)

        if normalize:
            from regard.tasks.translate.normalized import translate_normalized

            def searched(sentences: list[str], numbers: list[int]) -> list[list[Translation]]:
                wider = replace(options, beams=max(options.beams, WIDE_BEAMS))
                return self._searched(sentences, numbers, wider, batch_size)

            return translate_normalized(self, texts, first, translated, None if options.sample else searched)
        pieces = [self._pieces(spaced(text)) for text in texts]
        numbers = [first + i for i, several in enumerate(pieces) for _ in several]
        done = iter(translated([piece for several in pieces for piece in several], numbers))
        space = "" if is_chinese(self.target_language) else " "
        return [
            joined_parts(text, [next(done) for _ in several], [space] * (len(several) - 1))
            for text, several in zip(texts, pieces, strict=True)
        ]

    def _translate(
        self, texts: list[str], numbers: list[int], options: DecodingOptions, batch_size: int | None
    ) -> list[Translation]:
        """Translate texts that are short enough for the model."""
        # An empty text stays empty, because a model would invent a translation. A word without end is copied.
        found = [Translation(text, text if is_endless(text) else "", 0.0, [], []) for text in texts]
        for place, ids, hypotheses, shown in self._decoded(texts, numbers, options, batch_size):
            found[place] = self._translation(texts[place], ids, hypotheses, shown)
        return found

    def _searched(
        self, texts: list[str], numbers: list[int], options: DecodingOptions, batch_size: int | None
    ) -> list[list[Translation]]:
        """Return each complete hypothesis of a search for short texts, the best first."""
        options = replace(options, n_best=options.beams)
        found: list[list[Translation]] = [[] for _ in texts]
        for place, ids, hypotheses, shown in self._decoded(texts, numbers, options, batch_size):
            found[place] = [
                self._translation(texts[place], ids, [one], [words])
                for one, words in zip(hypotheses, shown, strict=True)
                if one.ended
            ]
        return found

    def _decoded(
        self, texts: list[str], numbers: list[int], options: DecodingOptions, batch_size: int | None
    ) -> Iterator[tuple[int, list[int], list[Hypothesis], list[ShownText]]]:
        """Yield the place of each text that has words, its token ids, its hypotheses and their texts."""
        self.model.eval()
        said = [i for i, text in enumerate(texts) if text.strip() and not is_endless(text)]
        encoded = dict(zip(said, self.source.encode_batch([texts[i] for i in said]), strict=True))
        for batch in batches_by_length([len(encoded[i]) for i in said], batch_size):
            places = [said[i] for i in batch]
            several = self.decoded([encoded[i] for i in places], [numbers[i] for i in places], options)
            sources = [(texts[i], encoded[i]) for i in places]
            shown = [
                [self._readable(*source, one.tokens) for one in hypotheses]
                for source, hypotheses in zip(sources, several, strict=True)
            ]
            if getattr(self.model.config, "copy", False):
                from regard.tasks.copied_words import with_whole_words

                shown = with_whole_words(self, sources, several, shown)
            yield from zip(places, [encoded[i] for i in places], several, shown, strict=True)

    @property
    def longest(self) -> int:
        """The number of tokens that are translated in one piece, which is that of the longest training sentence."""
        return int(self.extra.get("max_tokens", LONGEST))

    def _pieces(self, text: str) -> list[str]:
        """Cut a long text into pieces that are translated one by one."""
        return cut_text(text, self.source, self.longest, "" if is_chinese(self.source_language) else " ")

    def _translation(
        self, text: str, ids: list[int], hypotheses: list[Hypothesis], shown: list[ShownText]
    ) -> Translation:
        best, words = hypotheses[0], shown[0]
        others = tuple(
            (other.text.text, one.score) for other, one in zip(shown[1:], hypotheses[1:], strict=True)
        )
        return Translation(
            text,
            words.text.text,
            best.score,
            ids,
            best.tokens,
            alternatives=others,
            cut_off=not best.ended,
            read=text.lower() if self.source.lowercase else text,
            written=words.written,
            token_spans=tuple(words.tokens),
            trace=tuple(words.text.spans) if words.text.text != words.written else None,
        )

    def _readable(self, source: str, source_ids: list[int], target_ids: list[int]) -> ShownText:
        """Return the text of tokens, with unknown words copied from the source."""
        if self.target.unk is None or self.target.unk not in target_ids or not self.attends:
            return ShownText.of(self.target.decode(target_ids))
        copied = self._looked_at(source, source_ids, target_ids)
        pieces = [
            piece.replace(UNKNOWN_SIGN, copied[place]) if number == self.target.unk else piece
            for place, (number, piece) in enumerate(zip(target_ids, self.pieces_of(target_ids), strict=True))
        ]
        return ShownText.of(*spelled(pieces))

    @functools.cached_property
    def casings(self) -> tuple[Casing, Casing]:
        """The usual case of the words of the source and of the target language."""
        return Casing(self.source), Casing(self.target)

    def target_spans(self, translation: Translation) -> list[Span]:
        """Return the character span of each target token in the text that the model wrote.

        The tokens may differ from those that the vocabulary gives for the text, because the model generated them.
        """
        return list(translation.token_spans) or self.spans_of(translation.written, translation.target_ids)

    def rows(self, translation: Translation) -> list[ShownWord]:
        """Return the words of one sentence that the model wrote, and those that were copied or replaced."""
        from regard.tasks.written_words import shown_words

        written = translation.written
        tokens = self.target_spans(translation) if written else []
        return shown_words(translation.text, translation.trace, written, tokens, translation.source)

    def _looked_at(self, source: str, source_ids: list[int], target_ids: list[int]) -> list[str]:
        """Return, for each target token, the source token with the largest attention weight."""
        spans = self.source.spans(source)
        records = self.forced([source_ids], [target_ids], ended=False)
        config = self.model.config
        copies = getattr(config, "copy", False) and config.kind == "transformer"
        head = AlignmentHead(layer=None) if copies else alignment_head_of(self)
        weights = head.weights(records, 0, len(target_ids), len(spans))  # (t,s)
        places = weights.argmax(axis=1) if spans else []
        return [source[slice(*spans[place])] for place in places] or [UNKNOWN_SIGN] * len(target_ids)

    def token_weights(self, source_ids: list[int], target_ids: list[int], columns: int) -> np.ndarray:
        """Return the weights ``(t,s)`` of each target token on the first ``columns`` source tokens."""
        records = self.forced([source_ids], [target_ids], ended=False)
        return alignment_head_of(self).weights(records, 0, len(target_ids), columns)

    __call__ = translate

    def attention(self, prediction: Translation) -> Recording:
        """Return all attention of the model for one translation, as :func:`regard.capture` records it.

        Row i of the decoder reads token i - 1 of the target, or the start, and writes token i, or the end.
        """
        from regard.tasks.translate.recording import recorded

        return recorded(self, prediction)

    def word_weights(self, prediction: Translation) -> list[WordAlignment]:
        """Return the attention between the words of a translation and of its source, for each sentence."""
        from regard.tasks.translate.alignment import align

        return [align(self, part) for part in prediction.written_parts]

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
        if any(map(bundle.has_vocabulary, ("source", "target"))):
            source, target = bundle.vocabulary("source"), bundle.vocabulary("target")
        else:
            source = target = bundle.vocabulary("tokenizer")
        network = bundle.model()
        try:
            languages = {name: _language(settings, name) for name in ("source_language", "target_language")}
            whole_number("max_tokens", settings.get("max_tokens", 1), least=1)
            checked_alignment_head(settings.get("alignment"), network.config)
        except ArgumentError as error:
            raise bundle.reject(str(error)) from None
        if getattr(network.config, "copy", False) and source is not target:
            raise bundle.reject("copy is true, which needs one vocabulary for both languages")
        for name, vocabulary in (("source_size", source), ("target_size", target)):
            size = getattr(network.config, name)
            if len(vocabulary) != size:
                problem = f"{name} is {size}, but the vocabulary beside it has {len(vocabulary)} tokens"
                raise bundle.reject(problem)
        return cls(network, source, target, **languages, extra=settings)


def joined_parts(text: str, parts: list[Translation], gaps: list[str]) -> Translation:
    """Join the translations of the parts of a text, with a gap after each but the last.

    Alternatives are joined rank by rank.
    """
    if len(parts) == 1:
        return replace(parts[0], source=text)
    ranked = [((part.text, part.score), *part.alternatives) for part in parts]
    # Of a part that was copied or is empty, there is one text only.
    ranks = [[texts[min(r, len(texts) - 1)] for texts in ranked] for r in range(max(map(len, ranked)))]
    # Tokens that were written, with the end of the sentence.
    lengths = [len(part.target_ids) + 1 if part.target_ids else 0 for part in parts]
    best, *others = [
        (
            "".join(words + gap for (words, _), gap in zip(rank, [*gaps, ""], strict=True)),
            sum(n * score for n, (_, score) in zip(lengths, rank, strict=True)) / max(1, sum(lengths)),
        )
        for rank in ranks
    ]
    cut_off = any(part.cut_off for part in parts)
    return Translation(text, *best, [], [], alternatives=tuple(others), parts=tuple(parts), cut_off=cut_off)


def _language(settings: dict[str, Any], name: str) -> str:
    if not isinstance(settings.get(name, ""), str):
        raise ArgumentError(name, f"expected the name of a language, got {settings[name]!r}")
    return settings.get(name, "")
