"""A translator: a model with its vocabularies."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.decoding import DecodingOptions, Hypothesis, decode
from regard.errors import ArgumentError
from regard.files import make_folder
from regard.models import Seen, load_model
from regard.models.pretrained import CONFIG, read_json
from regard.text import Vocabulary, load_vocabulary, pad_sequences

__all__ = ["Translation", "Translator"]

BATCH_TOKENS = 3000  # source tokens translated together: sentences times the longest
LONGEST = 120  # tokens translated in one piece: models are trained on sentences, not on pages
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])")


@dataclass(frozen=True)
class Translation:
    """A translated sentence, and its alternatives where more than one was asked for."""

    source: str
    text: str
    score: float
    source_ids: list[int]
    target_ids: list[int]
    alternatives: tuple[tuple[str, float], ...] = ()
    parts: tuple[Translation, ...] = ()  # of a long text, which is translated piece by piece


class Translator:
    """Translates with a model of ours.

    ``translate(texts)`` gives the translations in order, ``attention(translation)`` what each word looked at.
    """

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
    def translate(self, texts: Sequence[str], options: DecodingOptions | None = None) -> list[Translation]:
        """The translations of ``texts``, in their order."""
        if isinstance(texts, str):
            raise ArgumentError("texts", "expected a list of sentences, got one string", "put it in a list")
        options = options or DecodingOptions()
        pieces = [self._pieces(text) for text in texts]
        done = iter(self._translate([piece for several in pieces for piece in several], options))
        return [
            self._joined(text, [next(done) for _ in several])
            for text, several in zip(texts, pieces, strict=True)
        ]

    def _translate(self, texts: list[str], options: DecodingOptions) -> list[Translation]:
        """The translations of texts of bearable length."""
        self.model.eval()
        encoded = self.source.encode_batch(list(texts))
        # Nothing is nothing in every language; a model would make something up.
        found = [Translation(text, "", 0.0, [], []) for text in texts]
        said = [i for i, text in enumerate(texts) if text.strip()]
        for batch in _batches([len(encoded[i]) for i in said]):
            places = [said[i] for i in batch]
            for place, hypotheses in zip(
                places, self._decoded([encoded[i] for i in places], options), strict=True
            ):
                found[place] = self._translation(texts[place], encoded[place], hypotheses)
        return found

    def _decoded(self, sources: list[list[int]], options: DecodingOptions) -> list[list[Hypothesis]]:
        device = next(self.model.parameters()).device
        ids, lengths = pad_sequences(sources, end=self.source.eos)
        memory = self.model.encode(ids.to(device), lengths.to(device))
        target = self.target
        banned = (target.pad, target.bos)
        return decode(
            self.model, memory, lengths.tolist(), options, bos=target.bos, eos=target.eos, banned=banned
        )

    def _pieces(self, text: str) -> list[str]:
        """The text; a long one in pieces, cut between sentences where that is enough."""
        if len(text) <= LONGEST or len(self.source.spans(text)) <= LONGEST:
            return [text]
        pieces, piece = [], ""
        for sentence in _SENTENCE_END.split(text):
            for part in self._cut(sentence):
                longer = f"{piece} {part}".strip()
                if piece and len(self.source.spans(longer)) > LONGEST:
                    pieces.append(piece)
                    longer = part
                piece = longer
        return [*pieces, piece]

    def _cut(self, sentence: str) -> list[str]:
        """A sentence that is too long by itself, in stretches of whole words."""
        spans = self.source.spans(sentence)
        if len(spans) <= LONGEST:
            return [sentence]
        cut = spans[LONGEST][0]
        space = sentence.rfind(" ", 0, cut)
        cut = space if space > 0 else cut
        return [sentence[:cut].strip(), *self._cut(sentence[cut:].strip())]

    def _joined(self, text: str, parts: list[Translation]) -> Translation:
        if len(parts) == 1:
            return parts[0]
        space = "" if self.target_language == "zh" else " "
        joined = space.join(part.text for part in parts)
        score = sum(part.score for part in parts) / len(parts)
        return Translation(text, joined, score, [], [], parts=tuple(parts))

    @property
    def attends(self) -> bool:
        """Whether the model attends to the source at all."""
        return getattr(self.model.config, "attention", "") is not None

    def _translation(self, text: str, ids: list[int], hypotheses: list[Hypothesis]) -> Translation:
        texts = [(self._readable(text, ids, one.tokens), one.score) for one in hypotheses]
        best = hypotheses[0]
        return Translation(text, texts[0][0], best.score, ids, best.tokens, tuple(texts[1:]))

    def _readable(self, source: str, source_ids: list[int], target_ids: list[int]) -> str:
        """The text; where the vocabulary had no word, the source word that was looked at most."""
        text = self.target.decode(target_ids)
        if self.target.unk is None or self.target.unk not in target_ids or not self.attends:
            return text
        cross = [one for one in self.attention(source_ids, target_ids) if one.kind == "cross"]
        looked = torch.stack([one.weights[0].mean(dim=0) for one in cross]).mean(dim=0)  # (t,s)
        spans = self.source.spans(source)
        for place, number in enumerate(target_ids):
            if number == self.target.unk and spans:
                start, end = spans[int(looked[place, : len(spans)].argmax())]
                text = text.replace("\ufffd", source[start:end], 1)
        return text

    @torch.no_grad()
    def attention(self, source_ids: list[int], target_ids: list[int]) -> list[Seen]:
        """All attention of the model while it reads the source and writes the target, for one sentence."""
        seen: list[Seen] = []
        self.model.eval()
        source = torch.tensor([[*source_ids, self.source.eos]])
        target = torch.tensor([[self.target.bos, *target_ids, self.target.eos]])
        device = next(self.model.parameters()).device
        self.model.hidden(source.to(device), target.to(device), seen=seen)
        return seen

    def save(
        self, folder: str | os.PathLike, *, dtype: str = "float32", results: dict[str, Any] | None = None
    ) -> None:
        """Write model, vocabularies and settings into ``folder``."""
        folder = Path(folder)
        make_folder(folder)
        if self.source is self.target:
            self.source.save(folder / "tokenizer.json")
        else:
            self.source.save(folder / "source.json")
            self.target.save(folder / "target.json")
        extra = {
            **self.extra,
            "task": "translate",
            "source_language": self.source_language,
            "target_language": self.target_language,
            **({"results": results} if results else {}),
        }
        self.model.save_pretrained(folder, dtype=dtype, extra=extra)

    @classmethod
    def load(cls, folder: str | os.PathLike) -> Translator:
        """The translator that :meth:`save` wrote."""
        folder = Path(folder)
        settings = read_json(folder / CONFIG)
        if settings.get("task") != "translate":
            raise ArgumentError("model", f"{folder} is not a translator", "choose one of `regard models`")
        if (folder / "tokenizer.json").is_file():
            source = target = load_vocabulary(folder / "tokenizer.json")
        else:
            source, target = load_vocabulary(folder / "source.json"), load_vocabulary(folder / "target.json")
        languages = {name: settings.get(name, "") for name in ("source_language", "target_language")}
        return cls(load_model(folder), source, target, **languages, extra=settings)


def _batches(lengths: list[int]) -> Iterator[list[int]]:
    """Places of sentences of like length, the longest first, as many as fit in a batch."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        count = max(1, BATCH_TOKENS // (lengths[order[start]] + 1))
        yield order[start : start + count]
        start += count
