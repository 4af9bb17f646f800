"""A summariser, which is a model with its vocabulary that writes a short text for a long one."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch

from regard.decoding import DecodingOptions, Hypothesis
from regard.decoding.known_words import KnownWords, WordTable
from regard.errors import ArgumentError
from regard.shapes import whole_number
from regard.tasks.bundle import Bundle, checked_texts
from regard.tasks.copied_words import with_whole_words
from regard.tasks.summarize.capitals import with_capitals
from regard.tasks.summarize.data import with_first_space
from regard.tasks.summarize.words import Field, listed_words
from regard.tasks.text_encoder import TextEncoder, without_line_breaks
from regard.tasks.text_generation import ShownText, Span, TextGenerator, batches_by_length, options_with
from regard.tasks.written_words import text_notes
from regard.text import Vocabulary
from regard.text.languages import language_of_words
from regard.text.traced import TracedText

if TYPE_CHECKING:
    from regard.capture import Recording
    from regard.tasks.summarize.origins import SummaryWeights, WordOrigin

__all__ = ["Summarizer", "Summary"]

# Tokens that are read of a text and written in a summary, if the model does not say how many it was trained on.
LONGEST, LONGEST_SUMMARY = 250, 60
# The number of tokens of a sequence that a summary does not repeat by default.
NO_REPEAT = 3


@dataclass(frozen=True)
class Summary:
    """The summary of a text, and its alternatives if more than one was asked for.

    A score is the log-probability of a summary divided by its number of tokens (to the power of ``length_penalty``).
    """

    source: str
    text: str
    score: float
    source_ids: list[int]
    target_ids: list[int]
    # The next best summaries, each with its score.
    alternatives: tuple[tuple[str, float], ...] = ()
    # Whether the end of a long text was not read.
    cut_off: bool = False
    # Whether the model ended the summary before its greatest length.
    ended: bool = True
    # Whether the text is unlike those of the training, or None if the model does not know its field.
    far: bool | None = None
    # The text that the model read and the one that it wrote, which may be in lower case.
    read: str = ""
    written: str = ""
    # The span in ``written`` of each character of ``text``, if they differ.
    trace: tuple[Span, ...] | None = None

    @property
    def notes(self) -> list[str]:
        """What the model wrote, where it differs from the text."""
        return text_notes(wrote=(self.written, self.text))

    def lines(self, *, scores: bool = False) -> list[str]:
        """Return the summary and its alternatives, with their scores if asked."""
        texts = [(self.text, self.score), *self.alternatives]
        return [f"{text}\t{score:.3f}" if scores else text for text, score in texts]

    def to_json(self, attention: Sequence[SummaryWeights] | None = None) -> dict[str, Any]:
        """Return the summary as a JSON object, with the origin of each word and the attention if given."""
        values: dict[str, Any] = {"source": self.source, "summary": self.text}
        values |= {"score": round(self.score, 4), "cut_off": self.cut_off, "far_from_training": self.far}
        if self.alternatives:
            others = [{"summary": text, "score": round(score, 4)} for text, score in self.alternatives]
            values["alternatives"] = others
        return values if not attention else values | attention[0].to_json()


class Summarizer(TextGenerator):
    """A model with its vocabulary, which summarises texts.

    ``Summarizer.load(folder)`` loads a trained model, ``summarize(texts)`` returns the summaries in order, and
    ``origins(summary)`` tells for each word of a summary from which word of the text it was copied. ``common`` are the
    words that are not rare in the training data. ``extra`` are further settings, such as ``max_tokens``, the number of
    tokens that are read of a text.
    """

    task: ClassVar[str] = "summarize"
    may_repeat_source: ClassVar[bool] = False

    def __init__(
        self,
        model: Any,
        vocabulary: Vocabulary,
        extra: dict[str, Any] | None = None,
        common: Vocabulary | None = None,
    ):
        self.model, self.vocabulary, self.common = model, vocabulary, common
        self.source = self.target = vocabulary
        self.extra = extra or {}
        self.encoder = TextEncoder(vocabulary, self.extra.get("max_tokens", LONGEST))

    @property
    def copies(self) -> bool:
        """Whether the model copies words of the text."""
        return bool(getattr(self.model.config, "copy", False))

    @property
    def longest_summary(self) -> int:
        """The number of tokens of the longest summary in the training, with the end."""
        return int(self.extra.get("max_summary", LONGEST_SUMMARY)) + 1

    @torch.no_grad()
    def summarize(
        self,
        texts: Iterable[str],
        options: DecodingOptions | None = None,
        *,
        first: int = 0,
        batch_size: int | None = None,
        **settings: Any,
    ) -> list[Summary]:
        """Summarise texts, and return the summaries in their order.

        The model reads as many tokens of a long text as it was trained on. ``settings`` are those of
        :class:`regard.decoding.DecodingOptions`, such as ``beams=1``, and replace those of ``options``. An empty text
        has an empty summary. ``first`` and ``batch_size`` are those of :meth:`Translator.translate`.
        """
        texts = checked_texts(texts)
        options = self._limited(options_with(options, settings, verb="summarize"))
        if batch_size is not None:
            batch_size = whole_number("batch_size", batch_size, least=1)
        self.model.eval()
        encoded = self.encoder.encode([with_first_space(text) for text in texts])
        found = [Summary(text, "", 0.0, [], [], far=self.is_far(text)) for text in texts]
        said = [place for place, (ids, _) in enumerate(encoded) if ids]
        for batch in batches_by_length([len(encoded[place][0]) for place in said], batch_size):
            places = [said[i] for i in batch]
            sources = [encoded[place][0] for place in places]
            read = [self._as_read(texts[place], encoded[place][0]) for place in places]
            numbers = [first + place for place in places]
            several = self.decoded(sources, numbers, options, self._constraints(read))
            shown = self._shown(read, sources, several)
            for i, place in enumerate(places):
                found[place] = self._summary(texts[place], *encoded[place], read[i], several[i], shown[i])
        return found

    __call__ = summarize

    def _as_read(self, text: str, ids: list[int]) -> str:
        """Return the part of a text that the model reads, as its vocabulary has it."""
        read = without_line_breaks(with_first_space(text))
        read = read[: self.vocabulary.spans(read)[len(ids) - 1][1]]
        return read.lower() if self.target.lowercase else read

    @functools.cached_property
    def language(self) -> str:
        """The code of the language of the training, judged by its frequent words, or "" if that is not sure."""
        return language_of_words(self._training_words[:100])

    @functools.cached_property
    def field(self) -> Field | None:
        """The field of the texts that the model was trained on, if it is known."""
        values = self.extra.get("field")
        return None if values is None or self.common is None else Field.checked(values)

    @functools.cached_property
    def _ranks(self) -> dict[str, int]:
        return {word: rank for rank, word in enumerate(self._training_words)}

    def is_far(self, text: str) -> bool | None:
        """Return whether a text is unlike those of the training, or None if their field is not known."""
        return None if self.field is None else self.field.is_far(text, self._ranks)

    @functools.cached_property
    def _training_words(self) -> list[str]:
        """The words that are not rare in the training, the most frequent first."""
        return [] if self.common is None else listed_words(self.common)

    @functools.cached_property
    def _word_table(self) -> WordTable | None:
        """The words that any summary may have, or None if the words of the training or the bytes of tokens are unknown.

        They are the words of the training that are one token, and as many of the most frequent words as there are
        tokens. Other words of several tokens are mostly pieces of the source, copied in a wrong order.
        """
        if self.common is None or self.target.token_bytes is None:
            return None
        words = self._training_words
        tokens = self.target.encode_batch([f" {word}" for word in words])
        pairs = enumerate(zip(words, tokens, strict=True))
        known = [word for rank, (word, ids) in pairs if rank < len(self.target) or len(ids) == 1]
        return WordTable(self.target.token_bytes, known, lowercase=self.target.lowercase)

    def _constraints(self, texts: list[str]) -> list[KnownWords]:
        """Return the constraint that summaries have no words but those of the training and of their texts."""
        table = self._word_table
        return [] if table is None else [KnownWords(table, texts, [self.target.eos])]

    def _shown(
        self, texts: list[str], sources: list[list[int]], found: list[list[Hypothesis]]
    ) -> list[list[ShownText]]:
        """Return the texts of hypotheses, in which rare words that were copied with a wrong token are corrected."""
        shown = [[ShownText.of(self.target.decode(one.tokens)) for one in several] for several in found]
        common = self.common
        if not self.copies or common is None:
            return shown
        pairs = list(zip(texts, sources, strict=True))
        return with_whole_words(self, pairs, found, shown, lambda word: common.unk in common.encode(word))

    def _limited(self, options: DecodingOptions) -> DecodingOptions:
        """Return the options with the largest length of the training and NO_REPEAT, where they have none."""
        no_repeat = NO_REPEAT if options.no_repeat is None else options.no_repeat
        longest = options.max_length or max(self.longest_summary, options.min_length + 1)
        return replace(options, max_length=longest, no_repeat=no_repeat)

    def _summary(
        self,
        text: str,
        ids: list[int],
        cut: bool,
        read: str,
        hypotheses: list[Hypothesis],
        shown: list[ShownText],
    ) -> Summary:
        readable = [self._readable(text, one.text) for one in shown]
        scores = [one.score for one in hypotheses]
        others = zip([one.text for one in readable[1:]], scores[1:], strict=True)
        best = hypotheses[0]
        return Summary(
            text,
            readable[0].text,
            scores[0],
            ids,
            best.tokens,
            alternatives=tuple(others),
            cut_off=cut,
            ended=best.ended,
            far=self.is_far(text),
            read=read,
            written=shown[0].written,
            trace=tuple(readable[0].spans),
        )

    def _readable(self, source: str, written: TracedText) -> TracedText:
        """Return a text with single spaces, and with the capitals of the source if the vocabulary has none."""
        text = written.replaced(r"\s+", " ").stripped()
        return TracedText(with_capitals(text.text, source), text.spans) if self.target.lowercase else text

    # Attention

    def attention(self, prediction: Summary) -> Recording:
        """Return all attention of the model for one summary, as :func:`regard.capture` records it.

        Row i of the decoder reads token i - 1 of the summary, or the start, and writes token i, or the end.
        """
        from regard.capture import Recording

        if not prediction.source_ids:
            return Recording([])
        text = with_first_space(prediction.source)
        pieces = [text[a:b] for a, b in self.encoder.spans(text)]
        return self.recording(pieces, prediction.source_ids, prediction.target_ids)

    def word_weights(self, prediction: Summary) -> list[SummaryWeights]:
        """Return the attention of each word of the summary to the words of the text, and the origin of each word."""
        from regard.tasks.summarize.origins import summary_weights

        return summary_weights(self, prediction)

    def origins(self, prediction: Summary) -> list[WordOrigin]:
        """Return for each word of the summary where in the text it was copied from or looked up."""
        return [origin for weights in self.word_weights(prediction) for origin in weights.origins]

    # Files

    def vocabularies(self) -> dict[str, Vocabulary]:
        """Return the vocabulary and the common words to save."""
        return {"tokenizer": self.vocabulary, **({"common_words": self.common} if self.common else {})}

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Self:
        """Make a summariser from a saved model, or raise FileError if its settings do not fit together."""
        settings, network = bundle.settings, bundle.model()
        vocabulary = bundle.vocabulary("tokenizer")
        for name in ("source_size", "target_size"):
            size = getattr(network.config, name, None)
            if size != len(vocabulary):
                problem = f"{name} is {size}, but the vocabulary beside it has {len(vocabulary)} tokens"
                raise bundle.reject(problem)
        try:
            for name in ("max_tokens", "max_summary"):
                whole_number(name, settings.get(name, 1), least=1)
            checked_test_part(settings)
            if settings.get("field") is not None:
                Field.checked(settings["field"])
        except ArgumentError as error:
            raise bundle.reject(str(error)) from None
        common = bundle.vocabulary("common_words") if bundle.has_vocabulary("common_words") else None
        return cls(network, vocabulary, settings, common)


def checked_test_part(settings: dict[str, Any]) -> tuple[float, int]:
    """Return the share and the seed of the test part that a training kept, or raise ArgumentError for other values."""
    share, seed = settings.get("test_share", 0.0), settings.get("test_seed", 0)
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
        raise ArgumentError("test_share", f"expected a share from 0 to below 1, got {share!r}")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ArgumentError("test_seed", f"expected a whole number, got {seed!r}")
    return float(share), seed
