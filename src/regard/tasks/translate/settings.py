"""The settings of training and evaluating a translator, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from regard.errors import ArgumentError, option
from regard.settings import setting
from regard.tasks.search_settings import BeamSearchSettings
from regard.tasks.settings import (
    BatchSettings,
    DataSettings,
    EmbeddedSettings,
    EncoderDecoderSettings,
    EvaluationSettings,
    VocabularySettings,
    changed,
)

__all__ = [
    "DEFAULTS",
    "EMBEDDED_LANGUAGES",
    "TranslationEvaluationSettings",
    "TranslationSettings",
    "check_embedded_languages",
    "with_defaults",
]

EMBEDDED_LANGUAGES = ("en", "fr", "zh")

# The settings that are used if no data is named. The model learns the embedded corpus in some minutes.
DEFAULTS: dict[str, Any] = {
    "embedded": 50_000,
    "vocabulary_size": 4000,
    "width": 128,
    "heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "feed_forward": 256,
    "dropout": 0.0,
    "label_smoothing": 0.0,
    # Small batches, for many updates in little time.
    "batch_tokens": 1000,
    "steps": 1200,
    "learning_rate": 4e-3,
    "warmup": 150,
    "average": 0.995,
    "validate_sentences": 200,
}


@dataclass(frozen=True, kw_only=True)
class _Pairs(EmbeddedSettings, DataSettings):
    """Pairs of sentences in two languages."""

    title: ClassVar[str] = "Data"
    default_embedded: ClassVar[int] = DEFAULTS["embedded"]
    locations: ClassVar[tuple[str, ...]] = ("data", "target_data", "valid", "target_valid", "exclude")
    seeded: ClassVar[tuple[str, ...]] = (
        *("embedded_count", "particulars", "everyday", "scenes", "vary", "noise", "joined"),
    )

    source_language: str = setting("en", "Language to translate from.", flag="--from")
    target_language: str = setting("fr", "Language to translate to.", flag="--to")
    target_data: str | None = setting(None, "The target side, where data is two line-aligned files.")
    target_valid: str | None = setting(None, "The target side of the validation data.")
    particulars: int = setting(0, "Generated sentences with names, numbers and addresses to add to the data.")
    phrases: bool = setting(False, "Add some thousand everyday phrases and sentences to the data.")
    phrase_copies: int = setting(
        1, "Copies of each phrase in an epoch. Above 1, repeated pairs are not left out of the data."
    )
    everyday: int = setting(0, "Generated everyday sentences to add to the data.")
    scenes: int = setting(0, "Generated descriptions of pictures to add to the data.")
    vary: float = setting(0.0, "Share of the pairs with names or numbers in which these are replaced.")
    noise: float = setting(0.0, "Share of the sources with noise in case, marks, apostrophes or spelling.")
    joined: float = setting(0.0, "Share of pairs, joined from two or three pairs, to add to the data.")


@dataclass(frozen=True, kw_only=True)
class _Vocabularies(VocabularySettings):
    """One vocabulary for both languages, or two."""

    title: ClassVar[str] = "Vocabulary"

    shared_vocabulary: bool = setting(
        True, "One vocabulary, and one table of embeddings, for both languages."
    )
    copyable: bool = setting(
        False, "Bpe: digits and words with a capital have the same tokens anywhere, to be copied."
    )

    def __post_init__(self):
        super().__post_init__()
        if self.copyable and self.vocabulary != "bpe":
            problem = f"of no use for {option('vocabulary', self.vocabulary)}"
            raise ArgumentError("copyable", problem, f"leave it out, or say {option('vocabulary', 'bpe')}")


# Settings that a translator to start from determines.
OF_THE_START = (
    *("vocabulary", "vocabulary_size", "lowercase", "copyable", "architecture", "width", "heads", "kv_heads"),
    *("feed_forward", "activation", "norm", "positions", "encoder_layers", "decoder_layers", "cell", "score"),
    *("input_feeding", "copy"),
)


@dataclass(frozen=True, kw_only=True)
class _Network(EncoderDecoderSettings):
    """A new encoder–decoder, or one that was trained before."""

    title: ClassVar[str] = "Model"
    locations: ClassVar[tuple[str, ...]] = (*_Pairs.locations, "start")

    start: str | None = setting(
        None, "Translator to train further: the name of an installed one, or a folder of a model or a run."
    )

    def __post_init__(self):
        super().__post_init__()
        for name in changed(self) if self.start is not None else ():
            if name in OF_THE_START:
                problem = f"of no use with {option('start', self.start)}, which has its own"
                raise ArgumentError(name, problem, "leave it out")

    @classmethod
    def complete(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return the defaults with the given values, without a size of the model if it is given by a start."""
        values = super().complete(given)
        if not given.get("start"):
            return values
        return {name: value for name, value in values.items() if name in given or name not in OF_THE_START}


@dataclass(frozen=True, kw_only=True)
class TranslationSettings(BatchSettings, _Network, _Vocabularies, _Pairs):
    """The data, the model and the training of a translator.

    >>> TranslationSettings(data="pairs.tsv", source_language="de", target_language="en").width
    256
    >>> TranslationSettings.complete({"data": "x.tsv", "width": 64})
    {'epochs': 10.0, 'data': 'x.tsv', 'width': 64}
    """

    title: ClassVar[str] = "Training"
    defaults_without_data: ClassVar[dict[str, Any]] = DEFAULTS
    changeable: ClassVar[tuple[str, ...]] = (*BatchSettings.changeable, "validate_sentences")
    former_names: ClassVar[dict[str, str]] = {"model": "architecture", "attention": "score"}

    validate_sentences: int = setting(500, "Sentences that are translated to validate.")

    def __post_init__(self):
        super().__post_init__()
        if self.validate_sentences < 1:
            raise ArgumentError("validate_sentences", f"expected 1 or more, got {self.validate_sentences}")
        if self.source_language == self.target_language:
            problem = f"the same as {option('source_language', self.source_language)}"
            raise ArgumentError("target_language", problem)
        self._check_sides()
        self._check_embedded()
        self._check_mixture()

    @property
    def valid_source(self) -> str | None:
        """The place of the validation pairs, which for a Hugging Face data set is a part of the data by default."""
        if self.valid is None and self.data is not None and self.data.startswith("hf:"):
            return self.data
        return self.valid

    def _check_sides(self) -> None:
        for name in ("data", "valid"):
            if getattr(self, f"target_{name}") and not getattr(self, name):
                problem, fix = f"given without {option(name)}", f"name the source side with {option(name)}"
                raise ArgumentError(f"target_{name}", problem, fix)

    def _check_valid(self) -> None:
        if self.target_data == self.target_valid:
            super()._check_valid()

    def _check_embedded(self) -> None:
        self.check_embedded_count("pairs")
        if self.embedded_count:
            fix = f"leave out {option('embedded')}" if self.data else f"name pairs with {option('data')}"
            for name in ("source_language", "target_language"):
                check_embedded_languages([getattr(self, name)], name, fix)

    def _check_mixture(self) -> None:
        for name in ("vary", "noise", "joined"):
            if not 0 <= getattr(self, name) <= 1:
                raise ArgumentError(name, f"expected a share from 0 to 1, got {getattr(self, name)}")
        if self.phrase_copies < 1:
            raise ArgumentError("phrase_copies", f"expected 1 or more, got {self.phrase_copies}")
        if self.phrase_copies > 1 and not self.phrases:
            problem = f"of no use without {option('phrases')}"
            raise ArgumentError("phrase_copies", problem, f"leave it out, or add {option('phrases')}")
        for name in ("particulars", "phrases", "everyday", "scenes"):
            if getattr(self, name) < 0:
                raise ArgumentError(name, f"expected 0 or more sentences, got {getattr(self, name)}")
            if getattr(self, name):
                fix = f"leave out {option(name)}"
                check_embedded_languages([self.source_language, self.target_language], name, fix)


with_defaults = TranslationSettings.complete


def check_embedded_languages(languages: list[str], argument: str, fix: str) -> None:
    """Raise ArgumentError if the embedded corpus lacks one of the languages."""
    for language in languages:
        if language not in EMBEDDED_LANGUAGES:
            problem = f"the embedded corpus has {', '.join(EMBEDDED_LANGUAGES)}, not {language!r}"
            raise ArgumentError(argument, problem, fix)


@dataclass(frozen=True, kw_only=True)
class TranslationEvaluationSettings(BeamSearchSettings, EvaluationSettings):
    """The data that a translator is measured on, and how it translates."""

    title: ClassVar[str] = "Translation"
    reading: ClassVar[tuple[str, ...]] = ("target_data", *EvaluationSettings.reading)

    target_language: str | None = setting(
        None, "Language to translate to, where no model is named; by default fr.", flag="--to"
    )
    source_language: str | None = setting(
        None, "Language to translate from, where no model is named; by default en.", flag="--from"
    )
    target_data: str | None = setting(None, "The target side of two line-aligned files.")
    links: str | None = setting(None, "Gold word alignments: source TAB target TAB sure TAB possible.")
    choose_links: str | None = setting(
        None, "Such a file to choose layer and head on, instead of those that the model keeps."
    )
    particulars: int | None = setting(
        None, "Generated sentences of which the names and numbers that arrive unchanged are counted."
    )
    normalize: bool | None = setting(
        None, "Split sentences and normalise texts, as `regard translate` does; by default yes."
    )
    no_repeat: int | None = setting(
        None,
        "Tokens of a sequence that no translation repeats more than its source; by default 8, 0 for none.",
    )
    lowercase: bool | None = setting(None, "Compare without regard to case; by default as the model.")
    save_lengths: str | None = setting(
        None, "Draw BLEU by length, a line for each model: a .png, .svg or .pdf file."
    )

    def __post_init__(self):
        super().__post_init__()
        if self.choose_links and self.data and not self.links:
            fix = f"add {option('links')}"
            raise ArgumentError("choose_links", "of no use without gold links to measure", fix)
        search = ("beams", "length_penalty", "coverage_penalty", "no_repeat")
        unused = (*search, "normalize", "lowercase", "out", "save_lengths")
        for name in unused if self.links and not self.data else ():
            if getattr(self, name) is not None:
                problem = f"of no use with {option('links')} alone: nothing is translated"
                raise ArgumentError(name, problem, f"add {option('data')}")
        self._check_particulars()

    def _check_particulars(self) -> None:
        """Reject other data beside generated sentences, and settings of measures that are not computed."""
        if self.particulars is None:
            return
        if self.particulars < 2:
            raise ArgumentError("particulars", f"expected 2 sentences or more, got {self.particulars}")
        for name in ("data", "links", "choose_links", "lowercase", "save_lengths"):
            if getattr(self, name) is not None:
                problem = f"of no use with {option('particulars')}, which measures generated sentences"
                raise ArgumentError(name, problem, "leave out one of them")
        if self.limit:
            problem = f"of no use with {option('particulars')}"
            raise ArgumentError("limit", problem, f"give the number with {option('particulars')}")
