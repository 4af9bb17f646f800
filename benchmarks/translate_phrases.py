"""Measure translation of a hundred common English phrases, such as greetings, thanks and questions for the way.

python benchmarks/translate_phrases.py               English to French and to Chinese
python benchmarks/translate_phrases.py --to fr       English to French only
python benchmarks/translate_phrases.py --model run   any other model from English to one of the two

The phrases are in common_phrases.tsv, with the accepted translations in French and in Chinese. A translation counts if
it is one of these, apart from case, spaces and punctuation marks. The share of accepted translations is printed for
each model, also of the phrases that `regard train translate --phrases` trains on, and then the translations that are
not accepted.

In the table, " | " separates accepted translations, "(a/b)" is a choice, and "[a/b]" is a choice that may be left out.
"""

from __future__ import annotations

import argparse
import itertools
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from regard.corpus.everyday import everyday_phrases
from regard.metrics import is_chinese
from regard.tasks.translate import Translator

PHRASES = Path(__file__).with_name("common_phrases.tsv")
LANGUAGES = ("fr", "zh")

# A choice "(a/b)" or an optional choice "[a/b]" within an accepted translation.
_CHOICE = re.compile(r"\(([^()\[\]]+)\)|\[([^()\[\]]+)\]")
_MARKS = re.compile(r"[.,;:!?…，。；：！？、“”«»\"]+")


class Phrase(NamedTuple):
    """An English phrase, with its accepted translations by language."""

    english: str
    accepted: dict[str, frozenset[str]]


class Result(NamedTuple):
    """The translation of a phrase, and whether it is accepted."""

    english: str
    translation: str
    is_accepted: bool


def plain(text: str, language: str) -> str:
    """Return a text in lower case, without punctuation marks, and in Chinese without spaces.

    >>> plain("Où est-ce ?", "fr"), plain("你好， 谢谢！", "zh")
    ('où est-ce', '你好谢谢')
    """
    text = unicodedata.normalize("NFC", text).casefold().replace("’", "'")
    words = _MARKS.sub(" ", text).split()
    return ("" if is_chinese(language) else " ").join(words)


def expanded(pattern: str) -> list[str]:
    """Return the texts that a pattern stands for.

    >>> expanded("(tu vas/vous allez) [très] bien")
    ['tu vas  bien', 'tu vas très bien', 'vous allez  bien', 'vous allez très bien']
    """
    pieces, last = [], 0
    for match in _CHOICE.finditer(pattern):
        one, optional = match.groups()
        pieces += [[pattern[last : match.start()]], one.split("/") if one else ["", *optional.split("/")]]
        last = match.end()
    return ["".join(some) for some in itertools.product(*pieces, [pattern[last:]])]


def accepted(cell: str, language: str) -> frozenset[str]:
    """Return the plain texts that a cell of the table accepts, in which `` | `` separates patterns."""
    return frozenset(plain(text, language) for pattern in cell.split(" | ") for text in expanded(pattern))


def read_phrases(path: Path = PHRASES) -> list[Phrase]:
    """Return the phrases of a table with the columns English, French and Chinese."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        Phrase(english, {"fr": accepted(french, "fr"), "zh": accepted(chinese, "zh")})
        for english, french, chinese in rows
    ]


def judged(phrases: Sequence[Phrase], translations: Sequence[str], language: str) -> list[Result]:
    """Compare translations into a language with those that are accepted."""
    return [
        Result(phrase.english, text, plain(text, language) in phrase.accepted[language])
        for phrase, text in zip(phrases, translations, strict=True)
    ]


def report(results: Sequence[Result]) -> list[str]:
    """Return the share of accepted translations as a line, and a line for each of the others."""
    trained = {plain(english, "en") for english, *_ in everyday_phrases()}
    known = [one for one in results if plain(one.english, "en") in trained]
    count, total = sum(one.is_accepted for one in results), len(results)
    lines = [f"{count} of {total} accepted ({100 * count / total:.0f} %)"]
    lines += [f"{sum(one.is_accepted for one in known)} of the {len(known)} that --phrases trains on"]
    return lines + [f"  {one.english}  ->  {one.translation}" for one in results if not one.is_accepted]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--to", choices=LANGUAGES, help="one language; by default both")
    parser.add_argument("--model", help="a model's name or folder; by default the installed ones")
    parser.add_argument("--beams", type=int, default=5, help="as `regard translate` by default")
    given = parser.parse_args()
    phrases = read_phrases()
    names = [given.model] if given.model else [f"en-{to}" for to in LANGUAGES if given.to in (None, to)]
    for name in names:
        translator = Translator.load(name)
        language = "zh" if is_chinese(translator.target_language) else translator.target_language[:2].lower()
        if language not in LANGUAGES:
            parser.error(
                f"--model: {name} translates to {language!r}, expected one of {', '.join(LANGUAGES)}"
            )
        found = translator.translate([phrase.english for phrase in phrases], beams=given.beams)
        print(f"== {name}", *report(judged(phrases, [one.text for one in found], language)), sep="\n")


if __name__ == "__main__":
    main()
