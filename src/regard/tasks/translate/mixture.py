"""The training pairs of a translator, with generated sentences, new names and numbers, noise and joined pairs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from regard.tasks.pairs import Pair, PairSource
from regard.tasks.translate.settings import TranslationSettings
from regard.tasks.translate.showcase import everyday_sentences
from regard.text import Skipped

__all__ = ["TranslationPairs", "mixture_lines"]

_RECENT = 2000  # pairs that a joined pair is chosen from


@dataclass(frozen=True)
class TranslationPairs(PairSource):
    """The pairs of the data and of the embedded corpus, with everything that the settings add to them.

    All random choices follow from the seed of the embedded corpus, so the pairs are the same whenever they are read.
    """

    def _all(self, skipped: Skipped) -> Iterator[Any]:
        random = Random(f"mixture {self.settings.embedded_seed}")
        return self._with_joined(random, self._mixed(random, skipped))

    def _mixed(self, random: Random, skipped: Skipped) -> Iterator[Pair]:
        s: TranslationSettings = self.settings
        for row in super()._all(skipped):
            yield self._changed(random, row)
        for row in (*_phrases(s) * s.phrase_copies, *_sentences(s), *_everyday(s), *_scenes(s)):
            yield self._changed(random, row)
        yield from _particulars(s)

    def _changed(self, random: Random, row: Pair) -> Pair:
        """Return a pair with new names and noise. A pair that is held out stays as it is, so it is left out later."""
        s: TranslationSettings = self.settings
        if not (s.vary or s.noise) or self.key(row) in self.held_out:
            return row
        source, target = row
        if s.vary and random.random() < s.vary:
            from regard.tasks.translate.variation import varied

            source, target = varied(random, *row, french=s.target_language == "fr") or row
        if s.noise and random.random() < s.noise:
            from regard.tasks.translate.noise import noisy

            source = noisy(random, source, english=s.source_language == "en")
        return source, target

    def _with_joined(self, random: Random, rows: Iterator[Pair]) -> Iterator[Pair]:
        """Yield the pairs, and after a share of them a longer pair that is joined from two or three recent ones."""
        s: TranslationSettings = self.settings
        recent: deque[Pair] = deque(maxlen=_RECENT)
        spaces = ["" if language == "zh" else " " for language in (s.source_language, s.target_language)]
        for row in rows:
            yield row
            if s.joined and self.key(row) not in self.held_out:
                recent.append(row)
                if len(recent) > 2 and random.random() < s.joined:
                    several = [random.choice(recent) for _ in range(random.choice((2, 2, 3)))]
                    sides = zip(*several, strict=True)
                    first, second = (space.join(texts) for space, texts in zip(spaces, sides, strict=True))
                    yield first, second

    def identity(self) -> list[object]:
        """Return values that identify the training rows together with the contents of their files."""
        s: TranslationSettings = self.settings
        added = {"particulars": s.particulars, "phrases": s.phrases, "scenes": s.scenes}
        added["everyday"] = s.everyday
        added["phrase_copies"] = s.phrase_copies if s.phrase_copies > 1 else 0
        changes = {"vary": s.vary, "noise": s.noise, "joined": s.joined}
        given = {name: value for name, value in (added | changes).items() if value}
        return [*super().identity(), given] if given else super().identity()


def mixture_lines(settings: TranslationSettings) -> list[str]:
    """Return lines that say what was added to the data and what was changed in it.

    >>> mixture_lines(TranslationSettings(data="x.tsv", scenes=4000, noise=0.1))
    ['added to the data: 4,000 scenes', 'changed in the data: noise in 10 % of the sources']
    """
    s = settings
    added = [f"{s.embedded_count:,} sentences of the embedded corpus"] * bool(s.embedded_count and s.data)
    added += [f"{s.particulars:,} sentences with names and numbers"] * bool(s.particulars)
    copies = f", {s.phrase_copies} copies of each" if s.phrase_copies > 1 else ""
    added += [f"{len(_phrases(s)):,} everyday phrases{copies}"] * bool(s.phrases)
    added += [f"{len(_sentences(s)):,} sentences that were written for this"] * bool(s.phrases)
    added += [f"{s.everyday:,} everyday sentences"] * bool(s.everyday)
    added += [f"{s.scenes:,} scenes"] * bool(s.scenes)
    changed = [f"new names and numbers in {s.vary:.0%} of the pairs that have any"] * bool(s.vary)
    changed += [f"noise in {s.noise:.0%} of the sources"] * bool(s.noise)
    changed += [f"{s.joined:.0%} more pairs joined from two or three"] * bool(s.joined)
    lines = [f"added to the data: {', '.join(added)}"] * bool(added)
    return [
        line.replace("%", " %")
        for line in lines + [f"changed in the data: {', '.join(changed)}"] * bool(changed)
    ]


def _sides(settings: TranslationSettings) -> tuple[int, int]:
    languages = ("en", "fr", "zh")
    return languages.index(settings.source_language), languages.index(settings.target_language)


def _phrases(settings: TranslationSettings) -> list[Pair]:
    if not settings.phrases:
        return []
    from regard.corpus.everyday import everyday_phrases

    source, target = _sides(settings)
    return [(texts[source], texts[target]) for texts in everyday_phrases()]


def _sentences(settings: TranslationSettings) -> list[Pair]:
    if not settings.phrases:
        return []
    from regard.corpus.everyday import written_sentences

    source, target = _sides(settings)
    return [(texts[source], texts[target]) for texts in written_sentences()]


def _everyday(settings: TranslationSettings) -> Iterator[Pair]:
    if settings.everyday:
        from regard.corpus.everyday import generate_everyday

        source, target = _sides(settings)
        shown = frozenset(everyday_sentences())
        for texts in generate_everyday(settings.everyday, seed=settings.embedded_seed):
            if texts[0] not in shown:
                yield texts[source], texts[target]


def _scenes(settings: TranslationSettings) -> Iterator[Pair]:
    if settings.scenes:
        from regard.corpus.scenes import generate_scenes

        source, target = _sides(settings)
        for texts in generate_scenes(settings.scenes, seed=settings.embedded_seed):
            yield texts[source], texts[target]


def _particulars(settings: TranslationSettings) -> Iterator[Pair]:
    if settings.particulars:
        from regard.corpus.particulars import generate_particulars

        source, target = _sides(settings)
        for sentence in generate_particulars(settings.particulars, seed=settings.embedded_seed):
            yield sentence.texts[source], sentence.texts[target]
