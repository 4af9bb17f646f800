"""How good a translator is, with everything that is needed to compare it with another."""

from __future__ import annotations

import hashlib
import heapq
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from regard.decoding import DecodingOptions
from regard.errors import ArgumentError
from regard.metrics import Score, bleu, by_length, chrf
from regard.tasks.translate.translator import Translation, Translator
from regard.text import count_words

__all__ = ["Evaluation", "evaluate", "group_references", "sample"]

_Item = TypeVar("_Item")
LIMITS = (5, 10, 15, 20, 25, 30, 40, 50)


@dataclass(frozen=True)
class Evaluation:
    """The scores of one translator on one set of sentences."""

    sentences: int
    bleu: Score
    chrf: Score
    by_length: list[tuple[str, int, float]]  # words of the source, sentences, BLEU
    seconds: float
    translations: list[Translation] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """The numbers, without the translations."""
        return {
            "sentences": self.sentences,
            "bleu": {"score": self.bleu.score, "signature": self.bleu.signature},
            "chrf": {"score": self.chrf.score, "signature": self.chrf.signature},
            "bleu_by_length": [
                {"words": name, "sentences": count, "bleu": score} for name, count, score in self.by_length
            ],
            "seconds": self.seconds,
            "sentences_per_second": self.sentences / self.seconds,
        }


def evaluate(
    translator: Translator,
    pairs: Iterable[tuple[str, str]],
    options: DecodingOptions | None = None,
    *,
    lowercase: bool | None = None,
) -> Evaluation:
    """Translate the source of each pair and compare; pairs of one source are references of one sentence.

    ``lowercase`` compares without regard to case: by default where the model knows no capital letters.
    """
    sources, references = group_references(pairs)
    lowercase = translator.target.lowercase if lowercase is None else lowercase
    began = time.perf_counter()
    translations = translator.translate(sources, options)
    seconds = time.perf_counter() - began
    outputs = [one.text for one in translations]
    language = translator.target_language
    lengths = [count_words(source) for source in sources]
    return Evaluation(
        len(sources),
        bleu(outputs, references, lowercase=lowercase, language=language),
        chrf(outputs, references, lowercase=lowercase),
        by_length(outputs, references, lengths, LIMITS, lowercase=lowercase, language=language),
        seconds,
        translations,
    )


def sample(items: Iterable[_Item], limit: int, seed: int, key: Callable[[_Item], str] = str) -> list[_Item]:
    """Take the items of ``limit`` keys, with all items of each key, in their order.

    Which keys are taken depends on the seed and on the keys alone. Files are often sorted, so that their first part
    is not like the rest. A limit of 0 takes every key. Only the items taken are held in memory.

    >>> sample(range(100), 3, seed=0), sample(range(100), 3, seed=1)
    ([14, 15, 20], [5, 30, 47])
    """
    if not limit:
        return list(items)
    taken: dict[str, list[tuple[int, _Item]]] = {}
    largest: list[tuple[int, str]] = []  # a heap of the keys taken, the one with the largest hash first
    for place, item in enumerate(items):
        name = key(item)
        if name not in taken:
            digest = hashlib.blake2b(f"{seed} {name}".encode(errors="surrogatepass"), digest_size=8).digest()
            entry = (-int.from_bytes(digest, "big"), name)
            if len(largest) == limit:
                dropped = heapq.heappushpop(largest, entry)[1]
                if dropped == name:
                    continue
                del taken[dropped]
            else:
                heapq.heappush(largest, entry)
            taken[name] = []
        taken[name].append((place, item))
    return [
        item for _, item in sorted((one for several in taken.values() for one in several), key=lambda x: x[0])
    ]


def group_references(pairs: Iterable[tuple[str, str]]) -> tuple[list[str], list[Sequence[str | None]]]:
    """Sources without repetition, and their references as sacrebleu takes them: first ones, second ones, …

    >>> group_references([("a", "x"), ("b", "y"), ("a", "z")])
    (['a', 'b'], [['x', 'y'], ['z', None]])
    """
    found: dict[str, list[str]] = {}
    for source, target in pairs:
        found.setdefault(source, []).append(target)
    if not found:
        raise ArgumentError("pairs", "there is nothing to evaluate on")
    most = max(len(several) for several in found.values())
    sides: list[Sequence[str | None]] = [
        [several[i] if i < len(several) else None for several in found.values()] for i in range(most)
    ]
    return list(found), sides
