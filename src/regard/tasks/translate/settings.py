"""Everything that can be set about training a translator; the command line and option files are made from this."""

from __future__ import annotations

import numbers
import typing
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from regard.errors import ArgumentError, DtypeError, UnknownArgumentError, UnknownNameError, did_you_mean

__all__ = [
    "DEFAULTS",
    "EMBEDDED",
    "EMBEDDED_LANGUAGES",
    "MODELS",
    "TranslationSettings",
    "setting",
    "with_defaults",
]

# The kinds of model, and the settings that only that kind has a use for.
_TRANSFORMER = ("heads", "kv_heads", "feed_forward", "activation", "norm", "positions", "attention_dropout")
MODELS = {"transformer": _TRANSFORMER, "seq2seq": ("cell", "attention", "input_feeding")}
VOCABULARIES = ("bpe", "word", "character", "byte")
SMALLEST_VOCABULARY = {"bpe": 260, "byte": 260}  # 256 bytes and four specials
EMBEDDED = 50_000  # sentences of the embedded corpus, where there is no other data
EMBEDDED_LANGUAGES = ("en", "fr", "zh")

# What is trained when no data is named: a model that learns the embedded corpus in some minutes.
DEFAULTS: dict[str, Any] = {
    "embedded": EMBEDDED,
    "vocabulary_size": 4000,
    "width": 128,
    "heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "feed_forward": 256,
    "dropout": 0.0,
    "label_smoothing": 0.0,
    "batch_tokens": 1000,  # small batches: many updates in little time
    "steps": 1200,
    "learning_rate": 4e-3,
    "warmup": 150,
    "average": 0.995,
    "validate_sentences": 200,
}


def setting(default: Any, text: str) -> Any:
    """A field with its line of help."""
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, kw_only=True)
class TranslationSettings:
    """What to train on, what to train, and how.

    >>> TranslationSettings(data="pairs.tsv", source_language="de", target_language="en").width
    256
    """

    source_language: str = setting("en", "Language to translate from.")
    target_language: str = setting("fr", "Language to translate to.")

    data: str | None = setting(
        None, "Training pairs: TSV, CSV, JSONL, Parquet, hf:NAME, '-' or the source side of two files."
    )
    target_data: str | None = setting(None, "The target side, where data is two line-aligned files.")
    valid: str | None = setting(
        None, "Validation pairs, in the form of the training pairs; hf:NAME has a part for them."
    )
    target_valid: str | None = setting(None, "The target side of the validation pairs.")
    columns: str = setting(
        "0,1", "Which columns (numbers) or fields (names) hold source and target; fields may be guessed."
    )
    format: str | None = setting(
        None, "tsv, csv, lines, jsonl or parquet, where the file's name does not say it."
    )
    split: str = setting("train", "Of a Hugging Face data set: the part to train on.")
    valid_split: str = setting("validation", "Of a Hugging Face data set: the part to validate on.")
    dataset_config: str | None = setting(
        None, "Of a Hugging Face data set: its configuration, if it has several."
    )
    exclude: str | None = setting(
        None, "Pairs, a test set say, whose sources are never trained on; those of valid never are."
    )
    embedded: int | None = setting(
        None, "Sentences of the embedded corpus to add to the data, or to train on where there is none."
    )
    embedded_seed: int = setting(0, "Which sentences of the embedded corpus.")
    max_tokens: int = setting(128, "Longer sentences are left out.")

    vocabulary: str = setting("bpe", "bpe, word, character or byte.")
    vocabulary_size: int = setting(8000, "Entries of the vocabulary, at most.")
    shared_vocabulary: bool = setting(
        True, "One vocabulary, and one table of embeddings, for both languages."
    )
    lowercase: bool = setting(False, "Everything in lower case.")

    model: str = setting("transformer", "transformer or seq2seq.")
    width: int = setting(256, "Numbers a token is represented by.")
    encoder_layers: int = setting(3, "Layers of the encoder.")
    decoder_layers: int = setting(3, "Layers of the decoder.")
    dropout: float = setting(0.1, "Share of the activations dropped in training.")
    heads: int = setting(4, "Transformer: attention heads.")
    kv_heads: int | None = setting(None, "Transformer: heads of keys and values, if fewer.")
    feed_forward: int = setting(1024, "Transformer: width of the feed-forward layers.")
    activation: str = setting("gelu", "Transformer: gelu, relu or swiglu.")
    norm: str = setting("pre", "Transformer: pre or post.")
    positions: str = setting(
        "sinusoidal", "Transformer: sinusoidal, learned, rotary, alibi, relative or none."
    )
    attention_dropout: float = setting(
        0.0, "Transformer: share of the attention weights dropped in training."
    )
    cell: str = setting("gru", "Seq2seq: gru or lstm.")
    attention: str = setting("additive", "Seq2seq: none, dot, scaled_dot, additive or bilinear.")
    input_feeding: bool = setting(True, "Seq2seq: each step reads what the last one found.")

    batch_tokens: int = setting(4096, "Tokens of a batch, padding included (the mean of both sides).")
    label_smoothing: float = setting(0.1, "Probability spread over the tokens that are not the right one.")
    steps: int | None = setting(None, "Updates to make; or give epochs.")
    epochs: float | None = setting(None, "Passes over the data.")
    learning_rate: float = setting(1e-3, "The highest learning rate.")
    warmup: int = setting(500, "Steps until it is reached.")
    schedule: str = setting("cosine", "linear, cosine, inverse_sqrt or constant.")
    weight_decay: float = setting(0.01, "Weight decay of AdamW.")
    clip: float = setting(1.0, "Largest norm of the gradients; 0 for no limit.")
    accumulate: int = setting(1, "Batches an update.")
    average: float = setting(0.999, "Exponential averaging of the weights; 0 for none.")
    precision: str = setting("float32", "float32, bfloat16, or auto for what the machine has.")
    compile: bool = setting(False, "Compile the model with torch.compile.")
    validate_every: int = setting(0, "Steps between validations; 0 for every epoch.")
    validate_sentences: int = setting(500, "Sentences that are translated to validate.")
    patience: int = setting(0, "Validations without a better one until training stops; 0 for never.")
    save_every: int = setting(500, "Steps between checkpoints.")
    keep: int = setting(2, "Checkpoints to keep.")
    seed: int = setting(0, "Seed of everything that is random.")

    def __post_init__(self):
        _check_types(self)
        if self.model not in MODELS:
            raise UnknownNameError("model", self.model, MODELS)
        _refuse_of_no_use(self.model, [f.name for f in fields(self) if getattr(self, f.name) != f.default])
        if not 0 <= self.label_smoothing < 1:
            raise ArgumentError(
                "label_smoothing", f"expected a share from 0 to below 1, got {self.label_smoothing}"
            )
        if self.batch_tokens < self.max_tokens:
            raise ArgumentError(
                "batch_tokens", f"{self.batch_tokens} tokens hold no sentence of max_tokens={self.max_tokens}"
            )
        if self.validate_sentences < 1:
            raise ArgumentError("validate_sentences", f"expected 1 or more, got {self.validate_sentences}")
        self._check_vocabulary()
        self._check_files()
        if self.source_language == self.target_language:
            raise ArgumentError("target_language", f"the same as source_language={self.source_language!r}")
        self._check_embedded()

    @property
    def valid_source(self) -> str | None:
        """The place of the validation pairs, which for a Hugging Face data set is a part of the data by default."""
        if self.valid is None and self.data is not None and self.data.startswith("hf:"):
            return self.data
        return self.valid

    @property
    def embedded_count(self) -> int:
        """Sentences of the embedded corpus that are trained on."""
        if self.embedded is None:
            return 0 if self.data else EMBEDDED
        return self.embedded

    def _check_vocabulary(self) -> None:
        if self.vocabulary not in VOCABULARIES:
            raise UnknownNameError("vocabulary", self.vocabulary, VOCABULARIES)
        least = SMALLEST_VOCABULARY.get(self.vocabulary, 5)
        if self.vocabulary_size < least:
            told = f"expected {least} or more for {self.vocabulary}, got {self.vocabulary_size}"
            raise ArgumentError("vocabulary_size", told)

    def _check_embedded(self) -> None:
        if self.embedded_count < 0 or (self.embedded_count == 0 and not self.data):
            fix = "give a number above 0, or name pairs with data="
            raise ArgumentError("embedded", f"nothing to train on: got {self.embedded}", fix)
        for name in ("source_language", "target_language"):
            language = getattr(self, name)
            if self.embedded_count and language not in EMBEDDED_LANGUAGES:
                told = f"the embedded corpus has {', '.join(EMBEDDED_LANGUAGES)}, not {language!r}"
                fix = "leave out embedded=" if self.data else "name pairs with data="
                raise ArgumentError(name, told, fix)

    def _check_files(self) -> None:
        for name in ("data", "valid"):
            if getattr(self, f"target_{name}") and not getattr(self, name):
                raise ArgumentError(
                    f"target_{name}", f"given without {name}=", f"name the source side with {name}="
                )
        for name in ("target_data", "valid", "target_valid", "exclude"):
            if getattr(self, name) == "-":
                raise ArgumentError(name, "only data= can be read from standard input", "name a file")
        hub = (self.data or "").startswith("hf:") and self.split != self.valid_split
        if self.data and (self.data, self.target_data) == (self.valid_source, self.target_valid) and not hub:
            told = f"the same as data={self.data}"
            raise ArgumentError("valid", told, "name pairs that are not trained on")

    def part(self, config: type) -> dict[str, Any]:
        """The settings that another dataclass has fields for, by name."""
        wanted = {one.name for one in fields(config)}
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name in wanted}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> TranslationSettings:
        """The settings of a run, as they were written down."""
        known = [one.name for one in fields(cls)]
        for name in values:
            if name not in known:
                raise UnknownArgumentError(
                    name, "not a setting of a translator", did_you_mean(name, known).strip()
                )
        return cls(**values)


def _check_types(settings: TranslationSettings) -> None:
    """Refuse empty texts, and values of another type than their field's."""
    for name, hint in typing.get_type_hints(type(settings)).items():
        value = getattr(settings, name)
        kinds: tuple[Any, ...] = typing.get_args(hint) or (hint,)
        if value == "":
            raise ArgumentError(name, "expected a value, got an empty text", "give one, or leave it out")
        abstract: tuple[Any, ...] = tuple(_NUMBERS.get(kind, kind) for kind in kinds)
        if not isinstance(value, abstract) or (isinstance(value, bool) and bool not in kinds):
            words = " or ".join("nothing" if kind is type(None) else kind.__name__ for kind in kinds)
            raise DtypeError(name, f"expected {words}, got {value!r}")


# NumPy's numbers count, too.
_NUMBERS: dict[Any, type] = {int: numbers.Integral, float: numbers.Real}


def with_defaults(given: dict[str, Any]) -> dict[str, Any]:
    """Settings completed: a small model where no data is named, ten epochs where nothing says how long.

    >>> with_defaults({"data": "x.tsv", "width": 64})
    {'epochs': 10.0, 'data': 'x.tsv', 'width': 64}
    """
    model = given.get("model", "transformer")
    if model in MODELS:
        _refuse_of_no_use(model, given)
    defaults = {"epochs": 10.0} if given.get("data") else dict(DEFAULTS)
    if given.get("steps") is not None or given.get("epochs") is not None:
        defaults.pop("epochs", None)
        defaults.pop("steps", None)
    if model == "seq2seq":
        defaults = {name: value for name, value in defaults.items() if name not in MODELS["transformer"]}
    return {**defaults, **given}


def _refuse_of_no_use(model: str, given: Iterable[str]) -> None:
    """Refuse settings of the other kind of model: who gives them expects them to count."""
    for kind, only in MODELS.items():
        for name in given:
            if kind != model and name in only:
                raise ArgumentError(
                    name, f"of no use for model={model}", f"leave it out, or say model={kind}"
                )
