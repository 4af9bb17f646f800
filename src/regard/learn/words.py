"""Texts in English and Chinese, and the choice between them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from regard.errors import UnknownNameError

__all__ = ["LANGUAGES", "Words", "choose_language"]

LANGUAGES = ("en", "zh")


class Words(NamedTuple):
    """A text in English and in Chinese.

    >>> Words("query {n}", "查询 {n}").say("zh", n=2)
    '查询 2'
    """

    en: str
    zh: str

    def say(self, language: str, **values: object) -> str:
        """Return the text in a language, with values in place of the names in braces."""
        text = self.zh if language == "zh" else self.en
        return text.format(**values) if values else text


def choose_language(language: str | None = None, environment: Mapping[str, str] | None = None) -> str:
    """Return the given language, or that of the locale, which is Chinese or else English.

    >>> choose_language(None, {"LANG": "zh_CN.UTF-8"}), choose_language(None, {"LANG": "fr_FR.UTF-8"})
    ('zh', 'en')
    """
    if language is not None:
        if language not in LANGUAGES:
            raise UnknownNameError("language", language, LANGUAGES)
        return language
    environment = os.environ if environment is None else environment
    # The order in which gettext reads them.
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        if environment.get(name):
            return "zh" if environment[name].startswith("zh") else "en"
    return "en"
