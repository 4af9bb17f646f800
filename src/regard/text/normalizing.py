"""Normalising of spaces, quotes, dashes, invisible characters and Unicode forms."""

from __future__ import annotations

import re
import unicodedata

from regard.text.traced import TracedText

__all__ = ["LINE_ENDS", "normalized"]

# Characters that end a line. str.splitlines has the same.
LINE_ENDS = "\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"

_SPACES = "\t\x1f\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
# Soft hyphens, zero-width spaces, joiners and marks of direction. Joiners between emoji are kept.
_INVISIBLE = "\u00ad\u034f\u061c\u115f\u1160\u180e\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
_CONTROL = "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff"
_DROPPED = re.compile(
    rf"[{_INVISIBLE}{_CONTROL}]|(?<![\u2190-\u2bff\ufe0f\U0001f000-\U0001faff])\u200d|(?<=\w)[\ufe0e\ufe0f](?!\u20e3)"
)
_QUOTES = {ord(mark): "'" for mark in "\u2019\u2018\u02bc\u201b\u2039\u203a\u201a"}
_QUOTES |= {ord(mark): '"' for mark in "\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\u301d\u301e"}
_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2212\ufe63"), "-")
_ELLIPSES = {0x2026: "...", 0x2025: ".."}
_LIGATURES = {code: unicodedata.normalize("NFKC", chr(code)) for code in range(0xFB00, 0xFB07)}
# Letters and digits in the styles of mathematics, which are used as fonts.
_STYLED = {
    code: unicodedata.normalize("NFKC", chr(code))
    for code in range(0x1D400, 0x1D800)
    if unicodedata.normalize("NFKC", chr(code)) != chr(code)
}
_WIDE = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
_WIDE_MARKS = {0x3002: ".", 0xFF61: ".", 0x3001: ",", 0xFF64: ","}
_WIDE_LETTERS = {code: letter for code, letter in _WIDE.items() if letter.isalnum()}
_WIDE_WITHOUT_SPACE = re.compile(r"(?<=[，；！？。、])(?=\w)")
# A mark between letters that is an apostrophe in all but its code.
_BETWEEN_LETTERS = re.compile(r"(?<=[^\W\d_])[\u00b4\u0060\u2032\u02b9](?=[^\W\d_])")
_GUILLEMETS = re.compile("(?<=[\u00ab\u2039])\\s+|\\s+(?=[\u00bb\u203a])")
_JAMO = "\u1100-\u11ff"
_COMPOSED = re.compile(rf"[{_JAMO}]{{2,}}|[^\W\d_][\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u3099\u309a]+")


def normalized(text: TracedText, *, wide: bool = False) -> TracedText:
    """Return a text in the characters of everyday writing, with single spaces and in the form NFC.

    Spaces of any kind become plain ones, and curly or angled quotes become straight ones. Hyphens and minus signs
    become ``-``, but longer dashes stay. An ellipsis becomes three dots. Invisible characters and control characters
    are left out. ``wide`` is for languages that are written with full-width marks, which then stay.

    >>> normalized(TracedText("\\u00a0It\\u2019s  \\u201cfine\\u201d\\u2026 ")).text
    'It\\'s "fine"...'
    """
    text = text.replaced(_DROPPED, "")
    if not unicodedata.is_normalized("NFC", text.text):
        text = text.replaced(_COMPOSED, lambda match: unicodedata.normalize("NFC", match.group()))
    text = text.replaced(f"[{_SPACES}{LINE_ENDS}]", " ")
    if not wide:
        text = text.replaced(_GUILLEMETS, "").replaced(_WIDE_WITHOUT_SPACE, " ")
        text = text.mapped(_QUOTES).mapped(_ELLIPSES).mapped(_WIDE).mapped(_WIDE_MARKS)
    text = text.replaced(_BETWEEN_LETTERS, "'")
    text = text.mapped(_DASHES).mapped(_WIDE_LETTERS).mapped(_LIGATURES).mapped(_STYLED)
    return text.replaced(r" {2,}", " ").stripped()
