"""Splitting of a text into parts that are translated one by one, and the characters between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from regard.tasks.translate.long_texts import LONGEST_WORD, is_endless, split_at_endless_words
from regard.tasks.translate.marks import as_written_in, base_language, is_spaced
from regard.text.normalizing import LINE_ENDS, normalized
from regard.text.sentences import sentence_spans
from regard.text.traced import Span, TracedText
from regard.text.verbatim import BLOCK, CLOSING, EMOJI, NAME, OPENING, Verbatim, find_verbatim, masked

__all__ = ["QUOTES", "Inner", "Paragraphs", "Part", "matching_parts", "split_text"]

_LINE = re.compile(rf"[^{LINE_ENDS}]+")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_BULLET = re.compile(
    r"(?:[-*+•‣◦▪▫·–—]\s+|\(?(?:\d{1,3}|[A-Za-z]|[ivx]{2,4})\)\s+|(?:\d{1,3}|[a-z]|[ivx]{2,4})\.\s+|#{1,6}\s+|>\s*"
    r"|\[[ xX]\]\s+|\|\s*|[A-Z]{1,2}:\s+)+"
)
# A sentence is cut at these, since models have seen few of them.
_CUT = re.compile(
    rf"(?<=\S)\s?[:;](?={CLOSING}*\s)|\s(?:-{{1,3}}|[–—])(?=\s)|(?<=[^\W\d])—(?=[^\W\d])|(?:\.{{2,}}|…)(?=\s*\w)"
    rf"|(?<=[,!?]{CLOSING})(?=\s[^\W\d_])|,(?=\s{OPENING})"
)
# A comma before an opening mark is such a place if the mark is a quote around several words or a whole sentence.
QUOTES = "\"'“‘«「『"
# A greeting before a clause. Models know both better apart.
_GREETING = re.compile(
    r"(?:hello|hi|good (?:morning|afternoon|evening|night)|dear (?:sir(?:s| or madam|/madam)?|madam(?: or sir)?))"
    r"(?: there| everyone| everybody)?,(?=(?:\s[\w'-]+){3})",
    re.IGNORECASE,
)
# Words between single quotes. An apostrophe is inside a word, or at its start as in "'tis".
_SINGLE_QUOTES = re.compile(
    r"(?<!\w)'(?!(?:tis|twas|em|cause|til|n)\b)(?=[^\W\d])(?:[^'\"]|(?<=\w)'(?=\w))*(?<=[\w.,!?…])'(?!\w)"
)
# The area code of a phone number. Its brackets belong to the number, as in "(682) 521-5123".
_AREA_CODE = re.compile(r"\(\+?\d{1,5}\)(?=[ \u00a0.-]?\d)")
_PAIRS = {"(": ")", "[": "]", "{": "}", "（": "）", "“": "”", "‘": "’", "«": "»", "「": "」", "『": "』"}
_LETTER, _WORD = re.compile(r"[^\W\d_]"), re.compile(r"[^\W\d_]+")
# Marks that may stand between a closing bracket and the end of a sentence.
_MARKS = re.compile(r"[.!?…。！？\s]+$")
_LOOSE_MARKS = re.compile(r"\s*[,;:–—，；：-]+$")


@dataclass(frozen=True)
class Inner:
    """A verbatim part inside a sentence, with its span in the text of the user."""

    start: int
    end: int
    kind: str
    text: str


# A verbatim part in a normalised line or in the text of the user.
Item = TypeVar("Item", Verbatim, Inner)


@dataclass(frozen=True)
class Part:
    """A sentence, or a part of one, with the characters before and after it that are copied.

    ``start`` and ``end`` are places in the text of the user, and so are the spans of ``core``, the normalised sentence.
    ``source`` has the characters of the user.
    A part without letters has no core and is copied. ``gap`` follows in the translation.
    """

    start: int
    end: int
    source: str
    before: str
    core: TracedText
    after: str
    inner: tuple[Inner, ...] = ()
    gap: str = ""
    continues: bool = False  # a sentence that was cut before this part


@dataclass(frozen=True)
class Paragraphs:
    """The parts of a text, and the white space before the first of them."""

    lead: str
    parts: list[Part]


def split_text(text: str, source_language: str, target_language: str) -> Paragraphs:
    """Split a text into its sentences. Line breaks and the white space around lines are kept.

    >>> found = split_text(" - Hi there.  How are you? 🙂\\n\\nBye.", "en", "fr")
    >>> [(part.before, part.core.text, part.after, part.gap) for part in found.parts]
    [('- ', 'Hi there.', '', ' '), ('', 'How are you?', ' 🙂', '\\n\\n'), ('', 'Bye.', '', '')]
    """
    splitter = _Splitter(text, base_language(source_language), target_language)
    parts = list(splitter.parts())
    if not parts:
        return Paragraphs(text, [])
    ends = [*(part.start for part in parts[1:]), len(text)]
    gaps = [splitter.gap(part, end) for part, end in zip(parts, ends, strict=True)]
    done = [replace(part, gap=gap) for part, gap in zip(parts, gaps, strict=True)]
    return Paragraphs(text[: parts[0].start], done)


class _Splitter:
    """Splits one text into parts."""

    def __init__(self, text: str, language: str, target_language: str):
        self.text, self.language, self.target_language = text, language, target_language
        self.spaced = is_spaced(target_language)

    def parts(self) -> Iterator[Part]:
        """Yield the parts of all lines, where those of fenced code are copied."""
        fenced = False
        for line in _LINE.finditer(self.text):
            fence = _FENCE.match(line.group())
            if fence or fenced:
                fenced = fenced != bool(fence)
                yield from self._copied(*line.span())
            else:
                yield from self._line(*line.span())

    def _copied(self, start: int, end: int) -> Iterator[Part]:
        stripped = self.text[start:end].strip()
        if stripped:
            start += self.text[start:end].index(stripped)
            yield Part(start, start + len(stripped), stripped, stripped, TracedText(""), "")

    def _line(self, start: int, end: int) -> Iterator[Part]:
        """Yield the parts of a line, with words without end as parts of their own."""
        if end - start <= LONGEST_WORD:
            yield from self._stretch(start, end)
            return
        place = start
        for piece in split_at_endless_words(self.text[start:end]):
            place = self.text.index(piece, place)
            is_word = is_endless(piece)
            yield from (self._copied if is_word else self._stretch)(place, place + len(piece))
            place += len(piece)

    def _stretch(self, start: int, end: int) -> Iterator[Part]:
        """Yield the parts of a line, or of the text between two words without end."""
        line = normalized(TracedText(self.text[start:end], start=start), wide=not is_spaced(self.language))
        found = find_verbatim(line.text)
        mask = masked(line.text, found)
        bullet = _BULLET.match(mask)
        first = bullet.end() if bullet and bullet.end() < len(mask) else 0
        sentences = sentence_spans(mask[first:], self.language)
        items = sorted([*found, *_quotes_and_brackets(mask)])
        mask = masked(line.text, items)
        for number, (begin, stop) in enumerate(sentences):
            begin, stop = begin + first, stop + first
            inside = [one for one in items if begin <= one.start and one.end <= stop]
            for place, (a, b, close) in enumerate(_clauses(mask, line.text, begin, stop, inside)):
                outer = 0 if number == place == 0 else a
                some = [one for one in inside if a <= one.start and one.end <= b]
                part = self._part(line, mask, (outer, a, b, close), some)
                yield replace(part, continues=place > 0)

    def _part(
        self, line: TracedText, mask: str, places: tuple[int, int, int, int], items: list[Verbatim]
    ) -> Part:
        """Return the part of a line from ``places[0]`` to the last place, whose sentence is between the others."""
        outer, begin, stop, close = places
        a, b = _without_edges(mask, line.text, begin, stop, items)
        start, end = line.span(outer, close)
        if not _LETTER.search(mask[a:b].translate(_NO_KINDS)):
            return Part(start, end, self.text[start:end], self.text[start:end], TracedText(""), "")
        core = line.cut(a, b)
        first, last = core.span(0, len(core))
        inner = tuple(self._inner(line, one) for one in items if a <= one.start and one.end <= b)
        before = _quotes_of(self.text[start:first], self.target_language)
        after = self._after(self.text[last:end])
        return Part(start, end, self.text[start:end], before, core, after, inner)

    def _inner(self, line: TracedText, item: Verbatim) -> Inner:
        start, end = line.span(item.start, item.end)
        text = _quotes_of(self.text[start:end], self.target_language, closing=item.kind == CLOSING)
        return Inner(start, end, item.kind, text)

    def _after(self, text: str) -> str:
        """Return the characters after a sentence as they are written in the target language."""
        bare = text.strip()
        if self.target_language[:2].lower() == "fr":
            if bare in (":", ";") and not text.startswith(" "):
                return f" {bare}"
            text = re.sub(r"(?<=\))(?=[!?]+$)", " ", text)
        if bare in (":", ";", ",", "...", "…") or re.fullmatch(r"\)[.!?…]+", bare):
            return as_written_in(self.target_language, text)
        if re.fullmatch(r",[\"']", bare):
            return as_written_in(self.target_language, ",") + _quotes_of(
                bare[1:], self.target_language, closing=True
            )
        return _quotes_of(text, self.target_language, closing=True)

    def gap(self, part: Part, end: int) -> str:
        """Return the white space after a part as it is in the translation, up to the next part or to the end."""
        between = self.text[part.end : end]
        if end == len(self.text) or re.search(rf"[\t{LINE_ENDS}]", between):
            return between
        if not part.core.text:
            return between
        if not self.spaced:
            return "" if part.after == "" or part.after[-1:] in "：；，…”’）" else between
        if between or part.after.strip():
            return " " if between else ""
        return "" if self.text[end : end + 1] == "<" else " "


_NO_KINDS = str.maketrans(dict.fromkeys(OPENING + CLOSING + EMOJI + BLOCK, " ") | {NAME: " "})
_STRAIGHT = str.maketrans({"(": "（", ")": "）"})


def _quotes_of(text: str, language: str, *, closing: bool = False) -> str:
    """Return straight quotes and brackets as Chinese has them. Other languages keep them."""
    if text.strip() not in ('"', "'", "(", ")") or base_language(language) not in ("zh", "cmn"):
        return text
    return text.replace('"', "“”"[closing]).replace("'", "‘’"[closing]).translate(_STRAIGHT)


def _quotes_and_brackets(mask: str) -> Iterator[Verbatim]:
    """Yield quotes and brackets that come in pairs, as parts that open and close."""
    quotes = [match.start() for match in re.finditer('"', mask)]
    if len(quotes) % 2:
        # The quote begins or ends in another sentence.
        quotes = [place for place in quotes if place in (0, len(mask) - 1)][:1]
    for number, place in enumerate(quotes):
        opens = not number % 2 if len(quotes) > 1 else place == 0
        yield Verbatim(place, place + 1, OPENING if opens else CLOSING)
    for match in _SINGLE_QUOTES.finditer(mask):
        yield Verbatim(match.start(), match.start() + 1, OPENING)
        yield Verbatim(match.end() - 1, match.end(), CLOSING)
    stack: list[tuple[str, int]] = []
    of_numbers = {place for code in _AREA_CODE.finditer(mask) for place in (code.start(), code.end() - 1)}
    for match in re.finditer(r"[(\[{（“「『«)\]}）”」』»]", mask):
        mark = match.group()
        if match.start() in of_numbers:
            continue
        if mark in _PAIRS:
            stack.append((_PAIRS[mark], match.start()))
            yield Verbatim(match.start(), match.end(), OPENING)
        elif stack and stack[-1][0] == mark:
            stack.pop()
            yield Verbatim(match.start(), match.end(), CLOSING)
        elif not stack:
            yield Verbatim(match.start(), match.end(), CLOSING)


def _clauses(
    mask: str, text: str, begin: int, stop: int, items: list[Verbatim]
) -> Iterator[tuple[int, int, int]]:
    """Yield the start and the end of each clause of a sentence, and the end of the mark after it."""
    remark = _start_of_remark(mask, text, begin, stop, items)
    yield from _cut_clauses(mask, text, begin, begin + len(mask[begin:remark].rstrip()), items)
    if remark < stop:
        yield remark, stop, stop


def _cut_clauses(
    mask: str, text: str, begin: int, stop: int, items: list[Verbatim]
) -> Iterator[tuple[int, int, int]]:
    greeting = _GREETING.match(mask, begin, stop)
    if greeting:
        yield begin, greeting.end() - 1, greeting.end()
        begin = greeting.end() + 1
    for cut in _CUT.finditer(mask, begin, stop):
        after = mask[cut.end() : stop]
        closed = cut.end() + len(after) - len(after.lstrip(CLOSING))
        depth = sum(
            (one.kind == OPENING) - (one.kind == CLOSING) for one in items if begin <= one.start < closed
        )
        if cut.group() == "," and not _is_before_speech(mask, text, cut.end() + 1, stop):
            continue
        sides = mask[begin : cut.start()], mask[cut.end() : stop]
        if depth or not all(_LETTER.search(side.translate(_NO_KINDS)) for side in sides):
            continue
        yield begin, cut.start(), cut.end()
        begin = cut.end() + len(mask[cut.end() : stop]) - len(mask[cut.end() : stop].lstrip())
    yield begin, stop, stop


def _is_before_speech(mask: str, text: str, place: int, stop: int) -> bool:
    """Return whether the opening mark at a place is a quote around several words or a whole sentence."""
    inside = mask[place + 1 : stop].split(CLOSING)[0]
    is_sentence = inside.endswith((".", "!", "?")) or len(_WORD.findall(inside)) > 1
    return text[place] in QUOTES and CLOSING in mask[place:stop] and is_sentence


def _start_of_remark(mask: str, text: str, begin: int, stop: int, items: list[Verbatim]) -> int:
    """Return the place of the bracket around the last words of a sentence, or the end of the sentence."""
    closing = next((one for one in reversed(items) if one.kind == CLOSING), None)
    opening = matching_parts(items).get(closing) if closing else None
    if closing is None or opening is None or text[opening.start] not in "(（":
        return stop
    is_last = not mask[closing.end : stop].strip(".!?…。！？ ")
    has_words = len(_WORD.findall(mask[opening.end : closing.start])) > 1
    return opening.start if is_last and has_words and _WORD.search(mask, begin, opening.start) else stop


def _without_edges(mask: str, text: str, begin: int, stop: int, items: list[Verbatim]) -> Span:
    """Return the span of a sentence without the verbatim parts and the brackets around it."""
    matches = matching_parts(items)
    starts, ends = {one.start: one for one in items}, {one.end: one for one in items}
    a, b = begin, stop
    while a < b:
        item = starts.get(a)
        if mask[a].isspace():
            a += 1
        elif item and (
            item.kind in (EMOJI, BLOCK) or _opens_all(mask, item, matches, b) or _calls(text, item)
        ):
            a = item.end
            a += len(re.match(r"\s*[,:;]?\s*", mask[a:b]).group()) if item.kind == NAME else 0  # type: ignore[union-attr]
        else:
            break
    while a < b:
        item = ends.get(b)
        marks = _MARKS.search(mask, a, b)
        before = ends.get(marks.start()) if marks else None
        loose = _LOOSE_MARKS.search(mask, a, b)
        if mask[b - 1].isspace():
            b -= 1
        elif item and item.start >= a and _ends_apart(mask, text, a, item, matches):
            b = item.start
        elif before and before.start > a and before.kind == CLOSING and _closes_all(before, matches, a):
            b = before.start
        elif loose and loose.start() > a:
            b = loose.start()
        else:
            break
    return a, b


def _ends_apart(mask: str, text: str, begin: int, item: Verbatim, matches: dict[Verbatim, Verbatim]) -> bool:
    """Return whether the last verbatim part of a sentence can be copied after its translation."""
    if item.kind in (EMOJI, BLOCK) or _closes_all(item, matches, begin):
        return True
    return item.kind == NAME and item.start > begin and _is_apart(mask, text, begin, item)


def matching_parts(items: Sequence[Item]) -> dict[Item, Item]:
    """Return the other part of each part that opens or closes something."""
    found: dict[Item, Item] = {}
    stack: list[Item] = []
    for one in items:
        if one.kind == OPENING:
            stack.append(one)
        elif one.kind == CLOSING and stack:
            opened = stack.pop()
            found[opened], found[one] = one, opened
    return found


def _opens_all(mask: str, item: Verbatim, matches: dict[Verbatim, Verbatim], stop: int) -> bool:
    """Return whether a part opens something that ends with the sentence, or does not end in it."""
    if item.kind not in (OPENING, CLOSING):
        return False
    other = matches.get(item)
    return other is None or not mask[other.end : stop].strip(f".!?…。！？ {CLOSING}{EMOJI}{BLOCK}")


def _closes_all(item: Verbatim, matches: dict[Verbatim, Verbatim], begin: int) -> bool:
    """Return whether a part closes something that was opened before ``begin``, or not in this sentence."""
    if item.kind not in (OPENING, CLOSING):
        return False
    other = matches.get(item)
    return other is None or other.end <= begin


def _calls(text: str, item: Verbatim) -> bool:
    """Return whether a name at the start of a sentence addresses somebody or is set apart by a mark."""
    after = text[item.end : item.end + 2].lstrip()[:1]
    return item.kind == NAME and (text[item.start] in "@#" or after in (",", ":", ";", ""))


def _is_apart(mask: str, text: str, begin: int, item: Verbatim) -> bool:
    """Return whether a name at the end of a sentence is set apart by a mark."""
    before = mask[begin : item.start].rstrip()
    return text[item.start] == "#" or before[-1:] in (",", ":", ";", ".", "!", "?", EMOJI, NAME)
