"""The READMEs and the pages of docs/, their code blocks, and the pages that exist in both languages."""

import re
from pathlib import Path

from support.paths import ROOT

ENGLISH, CHINESE = ROOT / "docs" / "en", ROOT / "docs" / "zh"
# Pages that have no Chinese twin.
ENGLISH_ONLY = {"results.md", "scale.md"}
# A block of code. Its kind is the word after the three signs, or the name of a directive in braces.
FENCE = re.compile(r"^```([\w-]*|\{[\w-]+\})([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"\A(?::[\w-]+:[^\n]*\n)+")


def is_generated(page: Path) -> bool:
    """Return whether ``make docs`` wrote a page, as it does for the reference of the API."""
    return "api" in page.relative_to(ROOT).parts


def pages() -> list[Path]:
    found = [*ROOT.glob("README*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(page for page in found if not is_generated(page))


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def pages_of_both_languages() -> list[tuple[Path, Path]]:
    """Return the English and the Chinese file of each page."""
    twins = [(ENGLISH / page.relative_to(CHINESE), page) for page in pages() if CHINESE in page.parents]
    return [(ROOT / "README.md", ROOT / "README.zh-CN.md"), *twins]


def blocks(page: Path, kind: str | None = None) -> list[tuple[str, str]]:
    """Return the kind and the text of each block of code, without the options of directives.

    Options such as captions are in the language of the page.
    """
    found = [
        (name, OPTION.sub("", body) if name.startswith("{") else body)
        for name, _, body in FENCE.findall(page.read_text(encoding="utf-8"))
    ]
    return [block for block in found if kind is None or block[0] == kind]


def code_of(page: Path) -> str:
    return "\n".join(body for _, body in blocks(page, "python"))


def executed_pages() -> list[Path]:
    """Return the pages with Python code, without the Chinese ones, which have the same code."""
    chinese = {page for _, page in pages_of_both_languages()}
    return [page for page in pages() if blocks(page, "python") and page not in chinese]


def headings(page: Path) -> list[str]:
    """Return the marks of the headings of a page, as ``##``."""
    return re.findall(r"^(#+) ", FENCE.sub("", page.read_text(encoding="utf-8")), flags=re.MULTILINE)
