"""Splitting of a text into sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator

from regard.text.traced import Span
from regard.text.verbatim import BLOCK, CLOSING, EMOJI, NAME, OPENING
from regard.text.words_and_characters import HAN_RANGES

__all__ = ["sentence_spans", "split_sentences"]

# A name or a number follows these, so a sentence does not end after them.
_BEFORE_NAMES: dict[str, str] = {
    "en": (
        "mr mrs ms messrs dr prof st gen col maj sgt capt cpt lt cmdr adm rev fr hon pres gov sen rep supt "
        "mt ft no nos fig figs vol vols ch sec eq art pp vs viz cf e.g i.e eg ie approx est dept univ ca "
        "resp incl tel ext"
    ),
    "fr": (
        "m mm mme mlle dr me pr st ste no art chap fig p pp vol av bd cf ex env vs p.ex c.-à-d tél hab éd "
        "adj apr"
    ),
    "de": (
        "hr fr dr prof nr str st z.b d.h u.a o.ä bzw ca evtl ggf inkl vgl s abb bd kap tel sog mind max min "
        "geb gest zzgl abzgl u z d i.d.r o"
    ),
}
# A sentence may end after these. It does if a word that begins sentences follows.
_MAYBE_LAST: dict[str, str] = {
    "en": (
        "jr sr inc ltd co corp bros llc ave blvd rd ph.d m.d b.a m.a d.c u.s u.k u.n u.s.a e.u a.d b.c jan "
        "feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thurs fri sat sun et.al al min "
        "max hr hrs kg cm ft lb lbs oz mi km"
    ),
    "fr": "etc j.-c jan janv févr avr juil sept oct nov déc",
    "de": "usw etc jan feb mär apr jun jul aug sep okt nov dez mio mrd jh",
}
# Words that often begin a sentence and are hardly ever part of a name.
_BEGINNINGS: dict[str, str] = {
    "en": (
        "the a an this that these those there here he she it i we you they his her its my our your their in "
        "on at to for from with by as if when while after before since because although though but and or "
        "so then now however what where why who how which is are was were do does did can could will would "
        "please thanks thank let not no yes some many most all both each every another one two three also "
        "even just only perhaps maybe it's i'm he's she's we're they're you're don't that's there's let's "
        "everyone nobody people"
    ),
    "fr": (
        "le la les l un une des ce cet cette ces il elle on nous vous ils elles je j mais et ou donc or ni "
        "car si quand comme dans sur pour avec en au aux puis alors qui que où c n d pourquoi merci"
    ),
    "de": (
        "der die das ein eine einen dem den des er sie es wir ihr ich du und aber oder denn wenn als weil "
        "dass dann nun im in am an auf bei mit von zu für nach wie was wer wo warum bitte danke dies diese "
        "dieser"
    ),
}
# Of these, a sentence also ends before any capital.
_OFTEN_LAST = frozenset(["etc", "a.m", "p.m", "am", "pm"])
_CLOSERS = "\"'”’»)\\]}〉》」』】）" + CLOSING
_OPENERS = "\"'“‘«([{¿¡〈《「『【（" + OPENING + BLOCK + EMOJI
# Marks that end a sentence, quotes and brackets that are closed after them, and emoji of the sentence.
_END = re.compile(
    rf"(?P<wide>[。！？｡]+|…{{2,}}(?=[{_CLOSERS}]))[{_CLOSERS}。！？]*(?:\s*{EMOJI}+)*\s*"
    rf"|(?<![.!?…])(?P<mark>[.!?…‼⁇⁈⁉]+)(?P<closers>[{_CLOSERS}]*(?:\s?»)?)"
    rf"(?:(?P<emoji>(?:\s*{EMOJI}+)+)\s*|(?P<gap>\s+)|(?={BLOCK})|(?=[{HAN_RANGES}])|(?=[^\W\d_]))"
)
_BLOCK = re.compile(rf"{BLOCK}+\s*")
_LAST_WORD = re.compile(r"(?:[^\W\d_]\.)*-?[^\s.\"'“‘(\[«…!?]*$")
_NEXT_WORD = re.compile(rf"[{_OPENERS}\s*_-]*([^\W\d_]+(?:['’][^\W\d_]+)*|\d+|{NAME})?")
_HAN = re.compile(f"[{HAN_RANGES}]")
_REST = re.compile(r"\s*$")
_MARKER = re.compile(r"\s*(?:\(?\d{1,3}|\(?[A-Za-z]|[ivxIVX]{1,4})$")


def split_sentences(text: str, language: str = "en") -> list[str]:
    """Return the sentences of a text, without the white space between them.

    The rules for abbreviations are those of English, French or German. Chinese sentences end at their own marks.

    >>> split_sentences('Dr. Smith paid $3.50. "Really?!" he said. Yes, e.g. at 5 p.m. in the U.S. It was fun...')
    ['Dr. Smith paid $3.50.', '"Really?!" he said.', 'Yes, e.g. at 5 p.m. in the U.S.', 'It was fun...']
    >>> split_sentences("我爱你。你呢？“走吧！”他说。")
    ['我爱你。', '你呢？', '“走吧！”', '他说。']
    """
    return [text[start:end] for start, end in sentence_spans(text, language)]


def sentence_spans(text: str, language: str = "en") -> list[Span]:
    """Return the spans of the sentences of a text, without the white space between them.

    ``text`` may be a masked one, of :func:`regard.text.verbatim.masked`.
    """
    language = language.lower().replace("_", "-").partition("-")[0]
    rules = _Rules(language if language in _BEFORE_NAMES else "en", text)
    spans, begin = [], 0
    for end, after in sorted(_ends(text, rules)):
        if text[begin:end].strip():
            spans.append(_without_spaces(text, begin, end))
            begin = after
    if text[begin:].strip():
        spans.append(_without_spaces(text, begin, len(text)))
    return spans


def _without_spaces(text: str, start: int, end: int) -> Span:
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), start + len(part.rstrip())


def _ends(text: str, rules: _Rules) -> Iterator[tuple[int, int]]:
    """Yield the end of each sentence, and the place where the next one begins."""
    sentence = 0
    for match in _END.finditer(text):
        if match["wide"] or rules.ends(text, match, sentence):
            end = match.end("gap") - len(match["gap"]) if match["gap"] else match.end()
            yield end, match.end()
            sentence = match.end()
    for match in _BLOCK.finditer(text):
        yield match.start(), match.start()


class _Rules:
    """Decides whether a mark ends a sentence, by the words before and after it."""

    def __init__(self, language: str, text: str):
        self.before_names = frozenset(_BEFORE_NAMES[language].split())
        self.maybe_last = frozenset(_MAYBE_LAST[language].split())
        self.beginnings = frozenset(_BEGINNINGS[language].split())
        self.ordinals = language == "de"
        self.no_capitals = text == text.lower()

    def ends(self, text: str, match: re.Match[str], sentence: int) -> bool:
        """Return whether the sentence that begins at ``sentence`` ends at a match of the pattern of marks."""
        mark, closed = match["mark"], bool(match["closers"].strip(CLOSING))
        before = _LAST_WORD.search(text, max(sentence, match.start() - 40), match.start())
        word = before.group() if before else ""
        following = _NEXT_WORD.match(text, match.end())
        after = (following[1] if following else None) or ""
        if _REST.match(text, match.end()) and not match["emoji"]:
            return True
        if not match["gap"] and not match["emoji"]:
            return self._without_space(text, match, word, after)
        lower = after[:1].islower()
        if "!" in mark or "?" in mark:
            return not (lower and closed)
        if mark != ".":  # an ellipsis
            return (
                bool(match["emoji"])
                or not (lower or not after or after.split("'")[0] == "I")
                or (closed and not lower)
            )
        return self._at_full_stop(text, match, word, after, lower, sentence)

    def _at_full_stop(
        self, text: str, match: re.Match[str], word: str, after: str, lower: bool, sentence: int
    ) -> bool:
        small = word.lower()
        begins = after.lower() in self.beginnings and not lower
        if _MARKER.fullmatch(text[sentence : match.start()]) and not match["closers"]:
            return False  # the number of a list
        if small in _OFTEN_LAST and not (
            small in ("am", "pm") and text[match.start() - 3 : match.start() - 2].isalpha()
        ):
            return not lower
        if small in self.before_names and not match["closers"]:
            return small in ("no", "nos") and not after[:1].isdigit() and not lower
        if lower and match["closers"].strip(CLOSING):
            return False
        initial = len(word) == 1 and word.isupper() and word != "I"
        if (small in self.maybe_last and word[:1].isupper()) or initial or re.fullmatch(r"(?:\w\.)+\w", word):
            return begins
        if small in self.maybe_last and lower:
            return False
        if self.ordinals and re.fullmatch(r"\d{1,2}", word):
            return begins
        if lower:  # some do not write capitals
            return self.no_capitals or (len(word) > 1 and word == small and small.isalpha())
        return True

    @staticmethod
    def _without_space(text: str, match: re.Match[str], word: str, after: str) -> bool:
        """Return whether a sentence ends at a mark that no space follows."""
        if text[match.end() : match.end() + 1] == BLOCK or _HAN.match(text, match.end()):
            return True
        rest = text[match.end() : match.end() + 40]
        if rest[:1].isupper() and ("!" in match["mark"] or "?" in match["mark"]):
            return True
        if not rest[:1].isupper() or len(word) < 3 or not word.islower():
            return False
        return bool(re.match(r"[^\W\d_]+(?:['’]\w+)?[\s,]", rest))
