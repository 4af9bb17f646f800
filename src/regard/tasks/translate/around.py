"""What is done to a sentence before a model reads it, and to the translation after the model wrote it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from regard.tasks.translate.casing import CAPITALS, LOWER_START, Casing, folded, given_back, started
from regard.tasks.translate.countries import with_chinese_countries
from regard.tasks.translate.dates import with_plain_dates
from regard.tasks.translate.lost_measures import with_months_in_digits
from regard.tasks.translate.marks import (
    base_language,
    is_spaced,
    with_final_mark,
    with_marks,
    with_spaced_mark,
)
from regard.tasks.translate.numerals import (
    Numeral,
    has_numbers,
    has_numerals,
    is_written_otherwise,
    read_numbers,
    read_numerals,
    with_numerals,
)
from regard.tasks.translate.paragraphs import QUOTES, Inner, Part
from regard.tasks.translate.placing import TokenWeights, in_order, places_of
from regard.tasks.translate.spelling import with_usual_spelling
from regard.tasks.translate.titled_names import read_titled_names, with_salutation
from regard.text.traced import TracedText, joined
from regard.text.verbatim import NAME, is_code_word

__all__ = ["ALL", "Prepared", "StandIns", "prepared"]

# The forms in which a name or a number may stand in a translation.
Forms = tuple[str, ...]

# Names that stand for addresses, code and the like inside a sentence. The shipped models know them from many sentences.
# A translation must contain one of the forms of such a name once.
_NAMES = {
    "fr": (("Tom",), ("Boston",), ("John",)),
    "zh": (("Tom", "汤姆"), ("Boston", "波士顿"), ("John", "约翰")),
    "en": (("Tom",), ("Boston",), ("John",)),
    "de": (("Tom",), ("Boston",), ("John",)),
}
# Target languages in which ordinals and decades are written.
_NUMERALS = ("fr", "zh")
# Codes that stand for words such as "mp3". Models that copy were trained on codes of this form.
_CODES = ("KD3582", "BX7714", "TR4096", "HM2951", "LW6437", "GZ8205")
# Numbers that stand for numbers and codes that a translation lost. No number is a part of another.
_YEARS, _SHORT, _LONG = ("1990", "2012", "1985"), ("30", "45", "17"), ("600", "748", "223")
# Times that stand for times, with the forms that they may have in a translation.
_TIMES = (("2:30", "2 h 30", "14:30", "14 h 30"), ("7:15", "7 h 15", "19:15", "19 h 15"))


@dataclass(frozen=True)
class Prepared:
    """A part of a text as the model reads it, with what its translation is given back."""

    part: Part
    read: TracedText
    case: str = ""
    # The final marks of the user, if the model reads others.
    marks: str | None = None
    removed: tuple[Inner, ...] = ()
    # With the forms of the name that stands for them in the translation.
    names: tuple[tuple[Inner, Forms], ...] = ()
    numerals: tuple[Numeral, ...] = ()
    curly: bool = False  # apostrophes
    target_language: str = ""

    @property
    def changed(self) -> bool:
        """Whether the model reads other characters than those of the user."""
        part = self.part
        return bool(
            part.before
            or part.after
            or self.case
            or self.marks is not None
            or self.removed
            or self.names
            or self.numerals
            or self.curly
            or is_written_otherwise(self.read.text)
            or any(end - start != 1 for start, end in self.read.spans)
            or len(self.read) != part.end - part.start
        )

    def is_complete(self, text: str) -> bool:
        """Return whether what the model wrote has each stand-in once, and no fragment of a code besides."""
        for _, forms in self.names:
            if sum(text.count(form) for form in forms) != 1:
                return False
            name = forms[0]
            if name in _CODES and any(text.count(fragment) != 1 for fragment in (name[:2], name[2:])):
                return False
            if name.isdigit() and not re.search(rf"(?<!\d){name}(?!\d)", text):
                return False
        return has_numerals(text, self.numerals)

    def lost_mark(self, text: str) -> bool:
        """Return whether what the model wrote ends with a full stop, but the question or exclamation did not."""
        read = self.read.text
        return self.marks is None and read.endswith(("?", "!")) and text.strip().endswith((".", "。"))

    def has_numbers(self, text: str) -> bool:
        """Return whether what the model wrote has the numbers that it read, or is in a language without the check."""
        return base_language(self.target_language) not in _NUMERALS or has_numbers(self.read.text, text)

    def restored(self, text: str, weights: TokenWeights | None, casing: Casing | None = None) -> TracedText:
        """Return the translation of the part, traced to the text that the model wrote."""
        out = TracedText(text).stripped()
        marks = self.read.text[-1] if self.lost_mark(text) else self.marks
        if marks is not None:
            out = with_marks(out, marks, self.target_language)
        language = base_language(self.target_language)
        if language == "fr":
            out = with_spaced_mark(out)
        if language in _NUMERALS:
            out = with_numerals(out, self.numerals, self.read.text, language)
        if language == "fr" and self.numerals:
            out = with_salutation(out)
        elif language == "zh":
            out = with_chinese_countries(with_months_in_digits(out))
        if language not in ("zh", "cmn"):
            out = given_back(out, self.case, german=language == "de", casing=casing)
            if not self.case and re.match(r"\W*[A-ZÀ-Þ]", self.read.text):
                out = started(out)
        if self.curly:
            out = out.replaced("'", "’")
        out = self._with_verbatim(out, text, weights)
        before, after = self.part.before, self.part.after
        return joined([TracedText.added(before, 0), out, TracedText.added(after, len(text))])

    def _with_verbatim(self, out: TracedText, text: str, weights: TokenWeights | None) -> TracedText:
        """Put the verbatim parts into a translation."""
        edits: list[tuple[int, int, Inner, str]] = []
        for inner, forms in self.names:
            name = next((form for form in forms if form in text), forms[0])
            place = text.find(name)
            ((a, b),) = out.moved([(place, place + len(name))])
            edits.append((a, b, inner, inner.text))
        for inner, place in zip(self.removed, places_of(self.removed, text, weights, self.read), strict=True):
            at = out.moved([(place, place + 1)])[0][0] if place < len(text) else len(out)
            edits.append((at, at, inner, self._with_spaces(inner, out.text, at)))
        pieces, last = [], 0
        for a, b, _, written in in_order(edits):
            a, b = max(a, last), max(b, last)
            pieces += [out.cut(last, a), TracedText(written, [out.span(a, b)] * len(written))]
            last = b
        return joined([*pieces, out.cut(last)]) if pieces else out

    def _with_spaces(self, inner: Inner, text: str, at: int) -> str:
        """Return a verbatim part with the spaces around it that the text of the user has."""
        around = self._spaces[inner] if is_spaced(self.target_language) else (False, False)
        before = " " if around[0] and at and not text[at - 1].isspace() else ""
        after = " " if around[1] and at < len(text) and text[at].isalnum() else ""
        return before + inner.text + after

    @property
    def _spaces(self) -> dict[Inner, tuple[bool, bool]]:
        core = self.part.core
        found = {}
        for inner in self.removed:
            places = [i for i, (a, b) in enumerate(core.spans) if inner.start <= a and b <= inner.end]
            first, last = places[0], places[-1]
            found[inner] = (core.text[first - 1 : first] == " ", core.text[last + 1 : last + 2] == " ")
        return found


class StandIns(NamedTuple):
    """Which stand-ins a sentence is read with. Verbatim parts without a stand-in are left out."""

    codes: bool = True  # such as "KD3582" for "mp3"
    names: bool = True  # such as "Tom" for an address
    numerals: bool = True  # such as "third" for "22nd"
    numbers: bool = False  # such as 46 for 2
    lost: bool = False  # such as 600 for a code that a translation lost


ALL = StandIns()


def prepared(
    part: Part,
    casing: Casing,
    source_language: str,
    target_language: str,
    *,
    stand_ins: StandIns = ALL,
) -> Prepared:
    """Return the sentence of a part as a model reads it.

    Addresses, code and the like inside the sentence are replaced by names or codes, or left out.

    >>> from regard.text import WordVocabulary
    >>> from regard.tasks.translate.paragraphs import split_text
    >>> casing = Casing(WordVocabulary.train(["where is the cat Tom"], 20))
    >>> part = split_text("WHERE IS <b>TOM</b>?!", "en", "fr").parts[0]
    >>> prepared(part, casing, "en", "fr").read.text
    'Where is Tom?'
    """
    source, target = base_language(source_language), base_language(target_language)
    core, removed, standing = _without_verbatim(part, stand_ins, target)
    numerals: tuple[Numeral, ...] = ()
    if source == "en":
        core = with_usual_spelling(core)
    if source == "en" and target in _NUMERALS:
        core = with_plain_dates(core)
        core, numerals = read_numerals(core, target) if stand_ins.numerals else (core, ())
        core, numbers = read_numbers(core) if stand_ins.numbers else (core, ())
        core, people = read_titled_names(core, target) if stand_ins.numerals else (core, ())
        numerals += (*numbers, *people)
    curly = "’" in part.source and "'" not in part.source
    core, marks = with_final_mark(core, source_language)
    if marks and "…" in part.source and "..." not in part.source:
        marks = marks.replace("...", "…")
    core, case = folded(core, casing, source, fixed=[forms[0] for _, forms in standing])
    if case == CAPITALS and source == "en" and target in _NUMERALS and stand_ins.numerals:
        core, people = read_titled_names(core, target)
        numerals += people
    is_speech = part.before.endswith(tuple(QUOTES))
    if part.continues and not is_speech and not case and re.match(r"I\b", core.text):
        # "I" has its capital also inside a sentence. Speech in quotes begins with a capital.
        case = LOWER_START
    return Prepared(part, core, case, marks, removed, standing, numerals, curly, target_language)


def _without_verbatim(
    part: Part, stand_ins: StandIns, target: str
) -> tuple[TracedText, tuple[Inner, ...], tuple[tuple[Inner, Forms], ...]]:
    """Return a sentence without its verbatim parts, those that are left out, and those with a stand-in.

    A stand-in is given in the forms that it may have in a translation. The first is that of the sentence.
    """
    core = part.core
    known = _NAMES.get(target, ()) if stand_ins.names else ()
    free_names = [forms for forms in known if forms[0] not in core.text]
    free_codes = [(code,) for code in _CODES if stand_ins.codes and code not in core.text]
    pieces, removed, standing, last = [], [], [], 0
    for inner in part.inner:
        places = [i for i, (a, b) in enumerate(core.spans) if inner.start <= a and b <= inner.end and a < b]
        if not places:
            continue
        start, end = places[0], places[-1] + 1
        pieces.append(core.cut(last, start))
        last = end
        free = free_codes if free_codes and is_code_word(inner.text) else free_names
        if stand_ins.lost and (numbers := _free_numbers(inner.text, core.text, standing)):
            free = numbers
        if inner.kind == NAME and free:
            forms = free.pop(0)
            pieces.append(TracedText(forms[0], [(inner.start, inner.end)] * len(forms[0])))
            standing.append((inner, forms))
            continue
        removed.append(inner)
        # One of two spaces goes with the part.
        if core.text[start - 1 : start] in ("", " ") and core.text[end : end + 1] in (" ", ""):
            last = min(len(core), end + 1)
        elif re.match(r"[\s,.;:!?]", core.text[end : end + 1]) and pieces[-1].text.endswith(" "):
            pieces[-1] = pieces[-1].cut(0, len(pieces[-1]) - 1)
    return joined([*pieces, core.cut(last)]).stripped(), tuple(removed), tuple(standing)


def _free_numbers(lost: str, text: str, standing: Sequence[tuple[Inner, Forms]]) -> list[Forms]:
    """Return the numbers that may stand for a number or code, or the times that may stand for a time."""
    if not any(letter.isdigit() for letter in lost):
        return []
    used = {forms[0] for _, forms in standing}
    if re.fullmatch(r"\d?\d:\d\d", lost):
        return [forms for forms in _TIMES if forms[0] not in used and forms[0] not in text]
    is_year = lost.isdigit() and len(lost) == 4
    pool = _YEARS if is_year else _SHORT if lost.isdigit() and len(lost) < 3 else _LONG
    return [(number,) for number in pool if number not in used and number not in text]
