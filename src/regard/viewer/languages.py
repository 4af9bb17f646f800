"""The languages of the viewer, and the texts of its pages that are not part of its JavaScript."""

from __future__ import annotations

from typing import NamedTuple

from regard.errors import UnknownNameError

__all__ = ["LANGUAGES", "PageTexts", "texts_in", "texts_of_code"]


class PageTexts(NamedTuple):
    """The code of a language for the attribute ``lang``, and the texts of a page in it."""

    code: str
    title: str
    page_needs_script: str
    view_needs_script: str


LANGUAGES = {
    "en": PageTexts(
        "en",
        "Attention",
        "This page needs JavaScript, which is switched off in this browser.",
        "This view needs JavaScript, which is switched off in this browser.",
    ),
    "zh": PageTexts(
        "zh-CN",
        "注意力",
        "本页需要 JavaScript，但此浏览器已将它关闭。",
        "此视图需要 JavaScript，但此浏览器已将它关闭。",
    ),
}


def texts_in(language: str) -> PageTexts:
    """Return the texts in a language, or raise UnknownNameError if the viewer does not have it.

    >>> texts_in("zh").code
    'zh-CN'
    """
    if language not in LANGUAGES:
        raise UnknownNameError("language", language, LANGUAGES)
    return LANGUAGES[language]


def texts_of_code(code: str) -> PageTexts:
    """Return the texts for the language of a page, which are English if the viewer does not have it.

    The viewer's JavaScript chooses by the same rule.

    >>> texts_of_code("zh-TW").title, texts_of_code("fr").title
    ('注意力', 'Attention')
    """
    return LANGUAGES.get(code.lower().split("-")[0], LANGUAGES["en"])
