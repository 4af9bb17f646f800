"""Parts of a text that are not translated, such as web addresses, code, tags and emoji."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = [
    "BLOCK",
    "CLOSING",
    "EMOJI",
    "NAME",
    "OPENING",
    "Verbatim",
    "find_verbatim",
    "is_code_word",
    "masked",
]

# The kinds of verbatim parts. Each is the character that stands for such a part in a masked text.
NAME = "\ue000"  # has the place of a noun in a sentence: an address, code, a placeholder, a path
OPENING = "\ue001"  # belongs to the word after it, like the tag <b>
CLOSING = "\ue002"  # belongs to the word before it, like the tag </b>
EMOJI = "\ue003"
BLOCK = "\ue004"  # separates sentences, like the tag <p>

_URL = r"(?:(?:https?|ftp|file)://|(?<![\w.@/])www\.)[^\s<>\"'\u3000-\u303f\uff00-\uffef]+"
_ENDINGS = "com|org|net|edu|gov|io|info|dev|app|ai|eu|fr|de|uk|cn|ch|jp"
_DOMAIN = rf"(?<![\w.@/-])[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+){{0,4}}\.(?:{_ENDINGS})(?![\w@-])(?:/[^\s<>\"']*)?"
_EMAIL = r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
_HANDLE = r"(?<![\w@.])[@#](?:\w[\w.-]*)?\w"
_CODE = (
    r"(?<!`)(?P<ticks>`{1,3})(?!`)[^`\n]+(?P=ticks)(?!`)"
    r"|<(?P<code>code|pre|script|style|kbd|math)\b[^<>]*>[^<]*</(?P=code)\s*>"
)
_BLOCK = (
    r"</?(?:br|p|div|h[1-6]|li|ul|ol|tr|t[dh]|table|thead|tbody|hr|section|article|header|footer|title|body|html|head"
    r"|option|dt|dd|dl|blockquote)\b[^<>]*>|<!--[^<>]{0,2000}-->|<!\w[^<>]*>"
)
_ELEMENT = r"<(?P<closing>/?)[A-Za-z][^<>]{0,500}>"
_ENTITY = r"&(?:[A-Za-z]{2,8}|#\d{1,6}|#x[0-9A-Fa-f]{1,5});"
_PLACEHOLDER = (
    r"\{\{[^{}\n]{0,80}\}\}|\$\{[^{}\n]{1,80}\}|\{[^{}\n]{0,60}\}|%\([\w.]{1,40}\)[sdifgr]"
    r"|(?<![\w%])%(?:\d\$)?[-+0#]?\d*(?:\.\d+)?[sdifgxr](?!\w)|(?<![\w$])\$[A-Z_][A-Z0-9_]+\b|(?<!\w)%[A-Z_]+%"
)
_FILES = (
    "pdf|docx?|xlsx?|pptx?|txt|csv|tsv|json|py|ipynb|js|ts|html?|css|md|png|jpe?g|gif|svg|zip|tar|gz|mp3|mp4|mov|wav|exe"
    "|sh|ya?ml|toml|xml|log|cfg|ini|cpp|java|rs|go|sql|db|safetensors"
)
_PATH = (
    r"(?<![\w\\])[A-Za-z]:\\[^\s*?\"<>|]+|(?<![\w/.<])(?:~|\.{1,2})?/(?:[\w.@+-]+/)*[\w.@+-]*[\w/]"
    rf"|(?<![\w/.-])[\w-]+(?:/[\w.-]+)*\.(?:{_FILES})(?![\w-])"
)
_FLAG = r"(?<![\w-])--[A-Za-z][\w-]*"
# A code that begins with a small letter and has digits, such as "mp3", "v2.1" and "covid-19", or that has letters
# between digits, such as "4x4". A number with letters after it, such as "5km", "3rd" and "1990s", is none.
_JOINED = "mid|pre|post|early|late|non|top|page|under|over|ex|anti|pro|plus|minus|circa|about|no"
_MIXED = (
    rf"(?<![\w.@/-])(?<!\w['’])(?!(?:{_JOINED})-\d)[a-z][A-Za-z]*[-_]?\d[A-Za-z0-9]*"
    r"(?:\.\d+(?:[a-z]\d*)?|[-_](?=[A-Za-z]*\d|alpha|beta|dev)[A-Za-z0-9]+)*(?![\w@/])"
    r"|(?<![\w.,:@/$€£-])\d+[a-z]+\d+[A-Za-z0-9]*(?![\w@/])"
)
# Keys that are pressed together, such as "Ctrl+C" and "Alt+F4".
_KEYS = (
    r"(?<![\w+/-])(?:(?:Ctrl|Control|Alt|AltGr|Shift|Cmd|Command|Win|Windows|Option|Meta|Super|Fn)\s?\+\s?){1,3}"
    r"(?:F\d{1,2}|[A-Z0-9]|[A-Z][a-z]{1,9}|[a-z])(?![\w+/])"
)
_PICTURE = (
    "[\u2122\u00a9\u00ae\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297\u3299"
    "\U0001f000-\U0001f1e5\U0001f200-\U0001faff]"
)
_CHANGED = "[\ufe0e\ufe0f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]*"
_EMOJI = (
    f"[\U0001f1e6-\U0001f1ff]{{1,2}}|[#*0-9]\ufe0f?\u20e3|{_PICTURE}{_CHANGED}(?:\u200d{_PICTURE}{_CHANGED})*"
    r"|(?<![\w:;=(])(?:[:;=]['^-]?[)(DPpO3*/|\\]|<3|:'\(|\^\^|[xX]D)(?![\w(])"
)
_LINK_START = r"!?\[(?=[^\[\]\n]{1,300}\]\()"
_LINK_END = r"\]\([^()\s]{1,1000}\)|\[\^?\d{1,3}\]"
# The marks of emphasis in Markdown, before and after words.
_EMPHASIS_START = r"(?<![\w*_~])(?:\*{1,3}|_{1,3}|~~)(?=[^\s*_~])"
_EMPHASIS_END = r"(?<=[^\s*_~])(?:\*{1,3}|_{1,3}|~~)(?![\w*_~])"

_PATTERN = re.compile(
    f"(?P<name>{_CODE}|{_URL}|{_EMAIL}|{_PLACEHOLDER}|{_DOMAIN}|{_PATH}|{_HANDLE}|{_FLAG}|{_KEYS}|{_MIXED})"
    f"|(?P<block>{_BLOCK})|(?P<element>{_ELEMENT})|(?P<entity>{_ENTITY})|(?P<link_end>{_LINK_END})"
    f"|(?P<emoji>{_EMOJI})|(?P<link_start>{_LINK_START})|(?P<start>{_EMPHASIS_START})|(?P<end>{_EMPHASIS_END})",
    re.DOTALL,
)
_KINDS = {"block": BLOCK, "emoji": EMOJI, "entity": EMOJI, "link_start": OPENING, "start": OPENING}
_CODE_WORD = re.compile(f"{_MIXED}|{_KEYS}")
_TRAILING = re.compile(r"[.,;:!?)\]'\"*_]+$")


class Verbatim(NamedTuple):
    """A part of a text that is not translated, with its kind."""

    start: int
    end: int
    kind: str


def find_verbatim(text: str) -> list[Verbatim]:
    """Return the parts of a text that are not translated, in order.

    >>> text = "Write to <b>ann@example.org</b> 🙂, see https://example.org/a?b."
    >>> [text[part.start : part.end] for part in find_verbatim(text)]
    ['<b>', 'ann@example.org', '</b>', '🙂', 'https://example.org/a?b']
    """
    found = []
    for match in _PATTERN.finditer(text):
        start, end = match.span()
        group = match.lastgroup or "name"
        if match.group("name"):
            group, end = "name", _end_of_name(text, start, end)
        if match.group("element"):
            found.append(Verbatim(start, end, CLOSING if match.group("closing") else OPENING))
        elif start < end:
            found.append(Verbatim(start, end, NAME if group == "name" else _KINDS.get(group, CLOSING)))
    return found


def _end_of_name(text: str, start: int, end: int) -> int:
    """Return the end of an address without the punctuation marks of the sentence around it."""
    name = text[start:end]
    if not re.match(r"https?:|ftp:|file:|www\.|/|~|\.|[A-Za-z]:\\", name):
        return end
    trailing = _TRAILING.search(name)
    if trailing is None:
        return end
    kept = name[: trailing.start()]
    # A bracket that was opened inside the address belongs to it.
    closing = trailing.group()
    while closing.startswith(")") and kept.count("(") > kept.count(")"):
        kept, closing = kept + ")", closing[1:]
    return start + len(kept)


def is_code_word(text: str) -> bool:
    """Return whether a verbatim part is a word of small letters and digits or of keys, such as "mp3" and "Ctrl+C".

    >>> is_code_word("mp3"), is_code_word("v2.1"), is_code_word("Ctrl+C"), is_code_word("a.org"), is_code_word("5km")
    (True, True, True, False, False)
    """
    return _CODE_WORD.fullmatch(text) is not None


def masked(text: str, parts: list[Verbatim]) -> str:
    """Return a text of the same length, in which each verbatim part is a row of the character of its kind.

    >>> masked("See a.pdf now.", find_verbatim("See a.pdf now.")) == f"See {NAME * 5} now."
    True
    """
    pieces, last = [], 0
    for part in parts:
        pieces += [text[last : part.start], part.kind * (part.end - part.start)]
        last = part.end
    return "".join([*pieces, text[last:]])
