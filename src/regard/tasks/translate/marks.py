"""The final marks of sentences, and the forms of marks in other languages."""

from __future__ import annotations

import re

from regard.metrics import is_chinese
from regard.text.traced import TracedText

__all__ = ["as_written_in", "base_language", "is_spaced", "with_final_mark", "with_marks", "with_spaced_mark"]

# The last marks of a sentence, and quotes and brackets that are closed after them.
_FINAL = re.compile(r"(?P<space>[ \u00a0\u202f]?)(?P<marks>[.!?…。！？‼⁇⁈⁉]+)(?P<closers>[\"'”’»)\]」』]*)$")
_AFTER_QUESTION_WORD = (
    "is are am was were do does did can could will would shall should has have had may might must 's 're 'd "
    "'ll isn't aren't wasn't weren't don't doesn't didn't can't couldn't won't wouldn't shouldn't haven't "
    "hasn't"
)
_AUXILIARIES = frozenset(_AFTER_QUESTION_WORD.split())
_SUBJECTS_TEXT = (
    "i you he she it we they there this that these those the a an my your his her its our their tom mary "
    "anyone anybody someone somebody everyone everybody everything anything something all any some"
)
_SUBJECTS = frozenset(_SUBJECTS_TEXT.split())
_PERSONS_TEXT = "i you we they these those any all"
_PERSONS = frozenset(_PERSONS_TEXT.split())
_WHAT_TEXT = "time kind kinds happened happens makes made other color about else"
_WHAT = frozenset(_WHAT_TEXT.split())
_MEASURES_TEXT = "many much long old far often fast big tall high late early soon about come"
_MEASURES = frozenset(_MEASURES_TEXT.split())
_QUESTION_WORDS = {
    "fr": "qui que quoi où quand comment pourquoi combien quel quelle quels quelles est-ce qu'est-ce qu'est",
    "de": (
        "wer was wo wann warum wieso weshalb wie welche welcher welches wohin woher wen wem ist sind bist "
        "hast hat habt haben kannst kann könnt können könnte darf willst will wollt soll sollte möchtest "
        "möchten"
    ),
}
_CHINESE_MARKS = str.maketrans(
    {".": "。", "!": "！", "?": "？", ":": "：", ";": "；", ",": "，", "(": "（", ")": "）"}
)


def base_language(language: str) -> str:
    """Return the code of a language without its region, in lower case.

    >>> base_language("zh-CN"), base_language("en_US")
    ('zh', 'en')
    """
    return language.lower().replace("_", "-").partition("-")[0]


def is_spaced(language: str) -> bool:
    """Return whether a language has spaces between words.

    >>> is_spaced("fr"), is_spaced("zh-CN"), is_spaced("")
    (True, False, True)
    """
    return base_language(language) not in ("zh", "cmn", "yue", "ja")


def with_final_mark(text: TracedText, language: str) -> tuple[TracedText, str | None]:
    """Return a sentence with exactly one final mark, and the marks that it had if they were others.

    >>> with_final_mark(TracedText("What?!"), "en")[0].text, with_final_mark(TracedText("Who is he"), "en")[0].text
    ('What?', 'Who is he?')
    >>> with_final_mark(TracedText("Yes."), "en")[1] is None
    True
    """
    found = _FINAL.search(text.text)
    if found is None:
        place = text.span(len(text.text), len(text.text) + 1)[1] if text.spans else 0
        question = _is_question(text.text, base_language(language))
        mark = "?" if question else "."
        return text + TracedText.added(as_written_in(language, mark), place), ""
    marks = found["marks"]
    if len(marks) == 1 and marks in ".!?。！？" and not found["space"]:
        return text, None
    if len(marks) == 1 and marks in ".!?。！？":  # a space before the mark, as in French
        if base_language(language) == "fr":
            return text, None
        return text.cut(0, found.start("space")) + text.cut(found.start("marks")), None
    wide = any(mark in "。！？" for mark in marks)
    one = "?" if re.search("[?？⁇⁈⁉]", marks) else "!" if re.search("[!！‼]", marks) else "."
    one = as_written_in("zh", one) if wide else one
    spans = [text.span(*found.span("marks"))]
    middle = TracedText(one, spans)
    return text.cut(0, found.start("space")) + middle + text.cut(found.end("marks")), marks


def with_marks(text: TracedText, marks: str, language: str) -> TracedText:
    """Return a translation with other final marks, or with none.

    >>> with_marks(TracedText("Quoi ?"), "?!", "fr").text, with_marks(TracedText("什么？"), "", "zh").text
    ('Quoi ?!', '什么')
    """
    found = _FINAL.search(text.text)
    end = found.start() if found else len(text.text)
    before, after = text.cut(0, end), text.cut(found.start("closers")) if found else text.cut(len(text.text))
    if not marks:
        return before + after
    place = text.span(end, end + 1) if found else (end, end)
    space = " " if base_language(language) == "fr" and marks[0] in "!?" else ""
    written = space + as_written_in(language, marks)
    return before + TracedText(written, [place] * len(written)) + after


def with_spaced_mark(text: TracedText) -> TracedText:
    """Return a French text with a space before its final question or exclamation mark.

    >>> with_spaced_mark(TracedText("Est-ce le 7?")).text, with_spaced_mark(TracedText("Oui !")).text
    ('Est-ce le 7 ?', 'Oui !')
    """
    found = _FINAL.search(text.text)
    if found is None or found["space"] or found["marks"][0] not in "!?" or not found.start():
        return text
    place = text.span(found.start(), found.start() + 1)[0]
    return text.cut(0, found.start()) + TracedText.added(" ", place) + text.cut(found.start())


def as_written_in(language: str, marks: str) -> str:
    """Return marks as a language writes them.

    >>> as_written_in("zh", "?!"), as_written_in("zh", "..."), as_written_in("fr", "?")
    ('？！', '……', '?')
    """
    if not is_chinese(language):
        return marks
    marks = re.sub(r"\.{2,}|…+", "……", marks)
    return marks.translate(_CHINESE_MARKS)


def _is_question(text: str, language: str) -> bool:
    """Guess whether a sentence without a final mark is a question."""
    if language in ("zh", "cmn"):
        return text.endswith(("吗", "呢", "什么", "谁", "哪里", "怎么样"))
    words = re.findall(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*", text.lower().replace("’", "'"))
    if language in _QUESTION_WORDS:
        return bool(words) and words[0] in _QUESTION_WORDS[language].split()
    return language == "en" and (_is_tag_question(words) or _is_english_question(words))


def _is_tag_question(words: list[str]) -> bool:
    """Return whether English words end in a question tag, such as "isn't it"."""
    return (
        len(words) > 3 and words[-2] in _AUXILIARIES and words[-2].endswith("n't") and words[-1] in _SUBJECTS
    )


def _is_english_question(words: list[str]) -> bool:
    while words and words[0] in ("so", "well", "and", "but", "then", "now", "hey"):
        words = words[1:]
    first, second, third = (*words[:3], "", "", "")[:3]
    if re.fullmatch(r"(who|what|where|when|why|how)'(s|re|d|ll)", first) or first in (
        "who",
        "whose",
        "whom",
        "which",
    ):
        return True
    if first == "how":
        return (
            second in _AUXILIARIES
            or (second in _MEASURES and third not in _SUBJECTS)
            or third in _AUXILIARIES
        )
    if first == "what":
        return second in _AUXILIARIES or (third in _AUXILIARIES and second != "a") or second in _WHAT
    if first in ("where", "why", "when"):
        return second in _AUXILIARIES
    if first in ("do", "have"):
        return second in _PERSONS
    return first in _AUXILIARIES and second in _SUBJECTS
