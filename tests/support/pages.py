"""The READMEs and the pages of docs/, their code blocks, and the pages that exist in both languages."""

import re
import runpy
from pathlib import Path
from types import SimpleNamespace

from support.paths import ROOT

# The modules that build the site, which are no package of the project.
SITE = ROOT / "docs" / "_site"
page_code = SimpleNamespace(**runpy.run_path(str(SITE / "page_code.py")))
api_pages = SimpleNamespace(**runpy.run_path(str(SITE / "api_pages.py")))
FENCE = page_code.FENCE

ENGLISH, CHINESE = ROOT / "docs" / "en", ROOT / "docs" / "zh"


def is_generated(page: Path) -> bool:
    """Return whether ``make docs`` wrote a page, as it does for the reference of the API."""
    return page.parent in (ENGLISH / "api", CHINESE / "api")


def will_be_generated(page: Path) -> bool:
    """Return whether ``make docs`` writes a page of this name."""
    return is_generated(page) and page.stem in {"index", *api_pages.public_modules()}


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
    """Return the kind and the text of each block of code, without captions and other options of directives."""
    found = page_code.blocks(page.read_text(encoding="utf-8"))
    return [(block.kind, block.code) for block in found if kind is None or block.kind == kind]


def code_of(page: Path) -> str:
    return "\n".join(body for _, body in blocks(page, "python"))


def executed_pages() -> list[Path]:
    """Return the pages with Python code, without the Chinese ones, which have the same code."""
    chinese = {page for _, page in pages_of_both_languages()}
    return [page for page in pages() if blocks(page, "python") and page not in chinese]


def headings(page: Path) -> list[str]:
    """Return the marks of the headings of a page, as ``##``."""
    return re.findall(r"^(#+) ", FENCE.sub("", page.read_text(encoding="utf-8")), flags=re.MULTILINE)
