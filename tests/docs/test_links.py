"""Every link inside the project leads to a file, and to a heading of it if the link names one."""

import os
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from support.pages import FENCE, name_of, pages, will_be_generated
from support.paths import ROOT

PAGES = [*pages(), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
LINK = re.compile(r"\]\(([^)\s]+)\)")
SPAN = re.compile(r"`[^`\n]+`")


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub and the site make them.

    >>> page = getfixture("tmp_path") / "page.md"
    >>> _ = page.write_text("# The `mask=` rule\\n## 任意形式\\n## Q, K")
    >>> sorted(anchors(page))
    ['q-k', 'the-mask-rule', '任意形式']
    """
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ +(.+?) *$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}


def broken(page: Path) -> list[str]:
    text = SPAN.sub("", FENCE.sub("", page.read_text(encoding="utf-8")))
    found = []
    for link in LINK.findall(text):
        path, _, anchor = unquote(link).partition("#")
        target = page if not path else Path(os.path.normpath(page.parent / path))
        if "://" in link or link.startswith("mailto:") or will_be_generated(target):
            continue
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_within_the_project_lead_somewhere(page):
    assert broken(page) == []


def test_a_link_to_a_missing_file_or_heading_would_be_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One\n[a](#one) [b](#two) [c](other.md) [d](page.md#one) `[e](f)` [g](https://h.org)")
    assert broken(page) == ["#two", "other.md"]
