"""The share of names, numbers, prices and addresses that a translator leaves unchanged."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from regard.corpus.particulars import ParticularSentence, generate_particulars
from regard.decoding import DecodingOptions
from regard.tasks.translate.settings import check_embedded_languages
from regard.tasks.translate.translator import Translator

__all__ = ["ParticularsScore", "arrived", "measure_particulars", "sentences_of_test"]

_GROUPS = {
    "names": ("name", "woman", "man", "first", "last"),
    "places": ("place", "street", "company"),
    "addresses": ("address",),
    "numbers": ("number", "small", "age", "decimal", "temperature", "percent", "score"),
    "dates": ("year", "day"),
    "times": ("time", "hour24"),
    "prices": ("price",),
    "phone numbers": ("phone",),
    "codes": ("code", "flight", "room", "gate", "platform", "plate", "version"),
}
_GROUP_OF = {kind: group for group, kinds in _GROUPS.items() for kind in kinds}


@dataclass(frozen=True)
class ParticularsScore:
    """How many particulars of how many arrived unchanged, by group."""

    sentences: int
    right: Counter[str]
    total: Counter[str]
    outputs: list[str] = field(default_factory=list, repr=False)
    # The first sentences with a particular that was changed, with its translation and the particular.
    wrong: list[tuple[str, str, str]] = field(default_factory=list, repr=False)

    @property
    def share(self) -> float:
        """The share of all particulars that arrived unchanged, from 0 to 1."""
        groups = [group for group in self.total if group in _GROUPS]
        return sum(self.right[one] for one in groups) / sum(self.total[one] for one in groups)

    def to_json(self) -> dict[str, Any]:
        """Return the shares as a JSON object."""
        by_group = {
            group: {"right": self.right[group], "total": total} for group, total in sorted(self.total.items())
        }
        return {"sentences": self.sentences, "unchanged": self.share, "by_group": by_group}

    def lines(self) -> list[str]:
        """Return the shares as lines of text, and some of the particulars that were changed."""
        lines = [f"unchanged {100 * self.share:6.2f} %  ({self.sentences} sentences)"]
        for group in [*_GROUPS, *sorted(set(self.total) - set(_GROUPS))]:
            if total := self.total[group]:
                lines.append(f"  {group:14} {100 * self.right[group] / total:6.2f} %  (of {total})")
        lines += ["changed, for example:"] * bool(self.wrong)
        return lines + [f"  {text}: {source} → {output}" for source, output, text in self.wrong[:5]]


def sentences_of_test(count: int, seed: int = 0) -> list[tuple[ParticularSentence, str]]:
    """Return sentences whose names and numbers are never trained on, with their kind of pattern.

    Half of them are made from patterns that are never trained on either.
    """
    new = generate_particulars(count - count // 2, split="test", seed=seed)
    known = generate_particulars(count // 2, split="test", seed=seed, new_patterns=False)
    return [(one, "new patterns") for one in new] + [(one, "known patterns") for one in known]


def arrived(text: str, output: str) -> bool:
    """Return whether a particular stands in an output, and not as a part of a longer number or word.

    >>> arrived("12", "Il a 12 ans."), arrived("12", "Il a 120 ans."), arrived("Ann", "我叫Ann。")
    (True, False, True)
    """
    before = r"(?<![0-9])" if text[0].isdigit() else r"(?<![A-Za-zÀ-ɏ])" if text[0].isalpha() else ""
    after = r"(?![0-9])" if text[-1].isdigit() else r"(?![A-Za-zÀ-ɏ])" if text[-1].isalpha() else ""
    return re.search(before + re.escape(text) + after, output) is not None


def measure_particulars(
    translator: Translator, count: int, options: DecodingOptions | None = None, *, seed: int = 0
) -> ParticularsScore:
    """Translate generated sentences, and count the names and numbers that arrive unchanged.

    The languages must be two of English, French and Chinese.
    """
    languages = [translator.source_language, translator.target_language]
    check_embedded_languages(languages, "particulars", "measure a model of these languages")
    sentences = sentences_of_test(count, seed)
    found = translator.translate([one.text(languages[0]) for one, _ in sentences], options)
    score = ParticularsScore(count, Counter(), Counter(), [one.text for one in found])
    for (sentence, pattern), translation in zip(sentences, found, strict=True):
        for one in sentence.particulars:
            right = arrived(one.text, translation.text)
            for group in (_GROUP_OF[one.kind], pattern):
                score.total[group] += 1
                score.right[group] += right
            if not right:
                score.wrong.append((translation.source, translation.text, one.text))
    return score
