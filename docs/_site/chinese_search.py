"""The search of the Chinese pages, by pairs of neighbouring characters.

Chinese has no spaces between words. A query is found on the pages that have all pairs of neighbouring characters of the
query, so no dictionary of words is needed.
"""

from __future__ import annotations

import re

from sphinx.search import SearchLanguage, languages
from sphinx.search.en import SearchEnglish

TERM = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]+|[^\W\u3400-\u9fff\uf900-\ufaff]+")

SPLIT_QUERY = r"""
var splitQuery = (query) => {
  const terms = [], chinese = "\\u3400-\\u9fff\\uf900-\\ufaff";
  const parts = new RegExp(`[${chinese}]+|[^\\p{P}\\p{S}\\p{Z}${chinese}]+`, "gu");
  for (const [part] of query.matchAll(parts)) {
    if (!new RegExp(`[${chinese}]`).test(part) || part.length === 1) terms.push(part);
    else for (let i = 0; i + 1 < part.length; i += 1) terms.push(part.slice(i, i + 2));
  }
  return terms;
};
"""


def is_chinese(term: str) -> bool:
    """Return whether a term begins with a Chinese character."""
    return "\u3400" <= term[0] <= "\u9fff" or "\uf900" <= term[0] <= "\ufaff"


def terms(text: str) -> list[str]:
    """Return the words of other languages, and of Chinese each character and each pair of neighbours."""
    found = []
    for part in TERM.findall(text):
        if is_chinese(part):
            found += [*part, *(part[i : i + 2] for i in range(len(part) - 1))]
        else:
            found.append(part)
    return found


class SearchChinese(SearchEnglish):
    """English words by their stems, Chinese ones by pairs of characters."""

    # Sphinx calls the stemmer of the browser by the name of the language.
    lang = "zh"
    language_name = "English"
    js_splitter_code = SPLIT_QUERY

    def split(self, input: str) -> list[str]:
        return terms(input)

    def stem(self, word: str) -> str:
        return word if is_chinese(word) else super().stem(word)

    def word_filter(self, word: str) -> bool:
        return is_chinese(word) or super().word_filter(word)


def register() -> None:
    """Replace the search that Sphinx has for Chinese."""
    languages["zh"] = languages["zh_CN"] = SearchChinese
    assert issubclass(SearchChinese, SearchLanguage)
