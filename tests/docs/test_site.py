"""Tests of the sources of the site and of the modules that build it."""

import doctest
import re
import runpy
from types import SimpleNamespace

import pytest
from markdown_it import MarkdownIt

from support.pages import (
    CHINESE,
    ENGLISH,
    SITE,
    api_pages,
    blocks,
    is_generated,
    name_of,
    page_code,
    pages,
)
from support.paths import ROOT

# ---- sources


@pytest.mark.parametrize("tree", [ENGLISH, CHINESE], ids=lambda tree: tree.name)
def test_every_page_is_in_a_table_of_contents(tree):
    listed = {"index.md"}
    for page in tree.rglob("*.md"):
        for contents in re.findall(
            r"^```\{toctree\}\n(.*?)^```", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
        ):
            for entry in contents.split("\n"):
                if entry and not entry.startswith(":"):
                    listed |= {str(path.relative_to(tree)) for path in page.parent.glob(f"{entry}.md")}
    found = {str(page.relative_to(tree)) for page in pages() if tree in page.parents}
    assert found - listed == set()


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_bold_text_is_bold(page):
    """Two stars between a bracket and a Chinese character do not end bold text."""
    tokens = MarkdownIt("commonmark").enable("table").parse(page.read_text("utf-8"))
    texts = [part.content for token in tokens for part in token.children or [] if part.type == "text"]
    assert [text for text in texts if "**" in text] == []


def test_the_reference_has_every_public_name():
    import regard

    pages = {module: api_pages.module_page(module) for module in api_pages.public_modules()}
    homes = {name: module for module, names in regard._HOMES.items() for name in names}
    for name in set(regard.__all__) - {"__version__"}:
        if name in regard._SUBMODULES:
            assert f".. automodule:: regard.{name}\n" in pages[f"regard.{name}"]
        else:
            assert f":: {homes[name]}.{name}\n" in pages[homes[name]]
            assert f"(#{homes[name]}.{name})" in api_pages.index_page("en", list(pages))
    for module, page in pages.items():
        for name in api_pages.public_names(module):
            assert f":: {module}.{name}\n" in page
    assert ":: regard.scores.Additive\n" in pages["regard.scores"]
    assert ":: regard.tasks.translate.Translator\n" in pages["regard.tasks.translate"]


def test_chinese_is_searched_by_pairs_of_characters():
    pytest.importorskip("sphinx", reason="the site needs Sphinx: make docs installs it")
    search = runpy.run_path(str(SITE / "chinese_search.py"))
    assert search["terms"]("自注意力 (self-attention)") == [
        *"自注意力",
        "自注",
        "注意",
        "意力",
        "self",
        "attention",
    ]


def test_generated_pages_are_not_taken_for_sources():
    assert is_generated(ROOT / "docs" / "en" / "api" / "index.md")
    assert not is_generated(ROOT / "docs" / "en" / "index.md")


def test_lines_are_joined_between_chinese_characters_only():
    nodes = pytest.importorskip("docutils.nodes", reason="the site needs docutils: make docs installs it")
    pytest.importorskip("sphinx", reason="the site needs Sphinx: make docs installs it")
    links = runpy.run_path(str(SITE / "links.py"))
    parts = ["权重 w", "\n", "是数", "\n", "。键，", "\n", "", "key", "\n", "值"]
    paragraph = nodes.paragraph("", "", *map(nodes.Text, parts))
    doctree = nodes.section("", paragraph)
    for language, joined in (("en", "".join(parts)), ("zh_CN", "权重 w\n是数。键，key\n值")):
        links["join_chinese_lines"](SimpleNamespace(config=SimpleNamespace(language=language)), doctree)
        assert paragraph.astext() == joined


# ---- chapters


def bleu_rows(page: str) -> list[list[str]]:
    """Return the numbers of the rows of BLEU by length on a page."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    rows = re.findall(r"^\| \d+-\d+ \|.*\|$", text, flags=re.MULTILINE)
    return [row.strip("| ").split(" | ") for row in rows]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_first_chapter_has_the_measured_figures_of_the_results(language):
    chapter = bleu_rows(f"{language}/tutorial/01-why-attention.md")
    assert len(chapter) == 8
    assert chapter == bleu_rows(f"{language}/results.md")[:8]


# A number, and the words that multiply it in English and in Chinese.
FIGURE = re.compile(r"(\d+(?:,\d{3})*(?:\.\d+)?)(?: (million|万))?")
TIMES = {"": 1, "million": 10**6, "万": 10**4}


def figures(text: str) -> list[float]:
    """Return the numbers of a text in ascending order.

    >>> figures("7.5 million parameters, 1,200 updates") == figures("更新 1,200 步，750 万个参数")
    True
    """
    return sorted(
        round(float(digits.replace(",", "")) * TIMES[word], 4) for digits, word in FIGURE.findall(text)
    )


def test_the_results_have_the_same_figures_in_both_languages():
    english, chinese = (
        (tree / "results.md").read_text("utf-8").strip().split("\n\n") for tree in (ENGLISH, CHINESE)
    )
    for part, other in zip(english, chinese, strict=True):
        # Each row of a table has figures of its own.
        lines = (part.splitlines(), other.splitlines()) if part.startswith("|") else ([part], [other])
        for line, twin in zip(*lines, strict=True):
            assert figures(line) == figures(twin), twin


CHAPTERS = sorted((ENGLISH / "tutorial").glob("[0-9]*.md"))


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.stem)
def test_a_chapter_has_all_its_parts(chapter):
    text = chapter.read_text("utf-8")
    assert "$$" in text
    assert "reference" in text
    assert "import torch" in text
    assert blocks(chapter, "{attention}")
    assert len(re.findall(r"^\d\. ", text.split("\n## Exercises\n")[1], flags=re.MULTILINE)) >= 2


def test_a_live_picture_has_the_language_and_the_caption_of_its_page(tmp_path):
    code = "import regard\nimport torch\nmap = regard.AttentionMap.from_weights(torch.eye(2))\n"
    shown = {
        "records": "map",
        "page": "regard.viewer.html([regard.Record(name='a', layer=0, kind='self', map=map)], title='Own')",
        "untitled": "regard.viewer.html([regard.Record(name='a', layer=0, kind='self', map=map)])",
    }
    for kind, last in shown.items():
        english = f"```{{attention}} Two words. See?\n{code}{last}\n```\n"
        chinese = english.replace("Two words. See?", "两个词。看到了吗？")
        page_code.write_pictures(english, kind, tmp_path, {"zh": chinese})
    titles = {"records": ("Two words", "两个词"), "page": ("Own", "Own"), "untitled": ("Two words", "两个词")}
    for kind, (title, translated) in titles.items():
        page = (tmp_path / f"{kind}-1.html").read_text("utf-8")
        assert '<html lang="en"' in page
        assert f"<title>{title} · Regard</title>" in page
        page = (tmp_path / f"{kind}-1.zh.html").read_text("utf-8")
        assert '<html lang="zh-CN"' in page
        assert "<noscript>本页需要" in page
        assert f"<title>{translated} · Regard</title>" in page


@pytest.mark.parametrize(("name", "least"), [("page_code.py", 5), ("signatures.py", 3)])
def test_the_examples_in_the_modules_of_the_site_run(name, least):
    names = runpy.run_path(str(SITE / name))
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    for value in names.values():
        if callable(value) and getattr(value, "__module__", None) == "<run_path>":
            for test in finder.find(value, globs=names):
                runner.run(test)
    found = runner.summarize(verbose=False)
    assert found.failed == 0
    assert found.attempted >= least
