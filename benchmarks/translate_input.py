"""Measure translation of sentences that are not written plainly, with and without the normalisation of texts.

python benchmarks/translate_input.py               English to French
python benchmarks/translate_input.py --to zh       English to Chinese
python benchmarks/translate_input.py --model run   any other model from English

The sentences are those of Tatoeba's validation part, from REGARD_DATA or ../shared/data. Each row changes the sources
in one way, and the references in the same way where the translation should have it. BLEU of a row is printed beside
that of the plain sentences, whose translations are changed like the references. A row is met if it is within 1.5 BLEU
of that.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from regard.metrics import bleu, is_chinese
from regard.tasks.translate import Translator
from regard.tasks.translate.evaluation import group_references
from regard.text import read_pairs

DATA = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[2] / "shared" / "data"))
FOLDERS = {"fr": "tatoeba_eng_fra", "zh": "tatoeba_eng_cmn"}
WITHIN = 1.5

Change = Callable[[str], str]


class Row(NamedTuple):
    """A way to write a sentence, and what it means for a translation."""

    name: str
    source: Change
    target: Change


def same(text: str) -> str:
    return text


def without_mark(text: str) -> str:
    return re.sub(r"\s?[.!?。！？]+$", "", text)


def lower_start(text: str) -> str:
    return text[:1].lower() + text[1:]


ROWS = [
    Row("plain", same, same),
    Row("trailing space", lambda text: f"{text} ", same),
    Row("double spaces", lambda text: text.replace(" ", "  "), same),
    Row("no-break spaces", lambda text: text.replace(" ", "\u00a0"), same),
    Row("curly apostrophe", lambda text: text.replace("'", "’"), lambda text: text.replace("'", "’")),
    Row("no final mark", without_mark, without_mark),
    Row("lower-case start", lower_start, lower_start),
    Row("all capitals", str.upper, str.upper),
    Row("an emoji", lambda text: f"{text} 😀", lambda text: f"{text} 😀"),
]


class Sentences(NamedTuple):
    """Sources with their references, a list for each set of references as sacrebleu has them."""

    sources: list[str]
    references: list[list[str | None]]

    def where(self, wanted: Callable[[str], bool]) -> Sentences:
        """Return the sentences that fulfil a condition."""
        places = [place for place, source in enumerate(self.sources) if wanted(source)]
        return Sentences(
            [self.sources[place] for place in places],
            [[side[place] for place in places] for side in self.references],
        )

    def changed(self, row: Row) -> Sentences:
        """Return the sentences as a row has them."""
        references = [[one and row.target(one) for one in side] for side in self.references]
        return Sentences([row.source(source) for source in self.sources], references)

    def by_line(self, count: int, space: str) -> Sentences:
        """Return lines of some sentences each, with the first reference of each sentence."""
        starts = range(0, len(self.sources) - count + 1, count)
        first = [one or "" for one in self.references[0]]
        lines = [" ".join(self.sources[start : start + count]) for start in starts]
        return Sentences(lines, [[space.join(first[start : start + count]) for start in starts]])


def sentences(language: str, limit: int) -> Sentences:
    """Return validation sentences from all parts of the file."""
    pairs = list(read_pairs(str(DATA / FOLDERS[language] / "valid.tsv.gz")))
    sources, references = group_references(pairs)
    step = max(1, len(sources) // limit)
    places = range(0, step * min(limit, len(sources) // step), step)
    return Sentences(
        [sources[place] for place in places], [[side[place] for place in places] for side in references]
    )


def measure(
    translator: Translator, chosen: Sentences, beams: int
) -> Iterator[tuple[str, int, float, float, float]]:
    """Yield the name of each row, its number of lines, and BLEU of plain sentences, before and now."""
    language = translator.target_language
    chinese = is_chinese(language)

    def texts(sources: list[str], *, normalize: bool = True) -> list[str]:
        return [one.text for one in translator.translate(sources, beams=beams, normalize=normalize)]

    def score(outputs: list[str], some: Sentences) -> float:
        return bleu(outputs, some.references, language=language).score

    plain = dict(zip(chosen.sources, texts(chosen.sources), strict=True))
    for row in ROWS:
        if chinese and row.name == "all capitals":
            row = row._replace(target=same)
        some = chosen.where(lambda source, row=row: row.name != "curly apostrophe" or "'" in source)
        changed = some.changed(row)
        wanted = score([row.target(plain[source]) for source in some.sources], changed)
        before, now = texts(changed.sources, normalize=False), texts(changed.sources)
        yield row.name, len(some.sources), wanted, score(before, changed), score(now, changed)
    space = "" if chinese else " "
    for count in (2, 4):
        lines = chosen.by_line(count, space)
        outputs = [plain[source] for source in chosen.sources]
        apart = [space.join(outputs[i : i + count]) for i in range(0, len(outputs) - count + 1, count)]
        before, now = texts(lines.sources, normalize=False), texts(lines.sources)
        name = f"{'two' if count == 2 else 'four'} sentences a line"
        yield name, len(lines.sources), score(apart, lines), score(before, lines), score(now, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--to", default="fr", choices=list(FOLDERS))
    parser.add_argument("--model", help="a model's name or folder; by default the installed one")
    parser.add_argument("--limit", type=int, default=400, help="sentences")
    parser.add_argument("--beams", type=int, default=5)
    given = parser.parse_args()
    if not DATA.is_dir():
        print(f"left out: there is no data in {DATA} (REGARD_DATA names another folder)")
        return
    translator = Translator.load(given.model or f"en-{given.to}")
    print(f"{'':22} {'lines':>5} {'plain':>6} {'before':>6} {'now':>6}")
    for name, lines, plain, before, now in measure(translator, sentences(given.to, given.limit), given.beams):
        met = "met" if now >= plain - WITHIN else "NOT met"
        print(f"{name:22} {lines:5} {plain:6.1f} {before:6.1f} {now:6.1f}  {met}", flush=True)


if __name__ == "__main__":
    main()
