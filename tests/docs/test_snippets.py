"""Tests that the Python snippets of each page run in order, and that both languages agree."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import ROOT

PAGES = sorted([*ROOT.glob("README*.md"), *(ROOT / "docs").rglob("*.md")])
# The pages that exist in English and in Chinese, without their endings.
TRANSLATED = [
    str(page.relative_to(ROOT)).removesuffix(".zh-CN.md") for page in PAGES if page.name.endswith(".zh-CN.md")
]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str | None = None) -> list[tuple[str, str]]:
    found = [(kind, body) for kind, body in FENCE.findall(page.read_text(encoding="utf-8"))]
    return [block for block in found if language is None or block[0] == language]


def run(source: str, folder: Path) -> subprocess.CompletedProcess[str]:
    script = folder / "snippets.py"
    script.write_text(source, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=folder,
        env={**os.environ, "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
    )


def code_of(page: Path) -> str:
    return "\n".join(body for _, body in blocks(page, "python"))


def draws(page: Path) -> bool:
    return re.search(r"\b(?:plot_|visualize_|show\()|matplotlib", code_of(page)) is not None


# The Chinese pages have the code of the English ones, as test_both_languages_have_the_same_code checks.
EXECUTED = [page for page in PAGES if blocks(page, "python") and not page.name.endswith(".zh-CN.md")]
DRAWN = [page for page in EXECUTED if draws(page)]
UNDRAWN = [page for page in EXECUTED if not draws(page)]


@pytest.mark.parametrize("page", UNDRAWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets_run_and_print_what_the_page_says(page, tmp_path):
    run_page(page, tmp_path)


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize("page", DRAWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets_that_draw_run_with_all_fonts_and_with_few(page, tmp_path):
    run_page(page, tmp_path)


def run_page(page: Path, folder: Path) -> None:
    code = code_of(page)
    result = run(code, folder)
    assert result.returncode == 0, result.stderr
    said = [match.strip() for match in re.findall(r"print\(.*\)\s*# (.*)$", code, flags=re.MULTILINE)]
    printed = result.stdout.splitlines()
    assert [line for line in said if line not in printed] == []


def test_a_snippet_that_fails_would_be_seen(tmp_path):
    assert run("import regard\nregard.nothing_of_this_name", tmp_path).returncode != 0


@pytest.mark.parametrize("name", TRANSLATED)
def test_both_languages_have_the_same_code(name):
    english, chinese = (blocks(ROOT / f"{name}{ending}") for ending in (".md", ".zh-CN.md"))
    assert english == chinese
    assert any(kind == "python" for kind, _ in english)


def test_the_page_on_translation_shows_what_python_users_need():
    code = code_of(ROOT / "docs/translate.md")
    for name in (
        "Translator.load",
        "align(",
        "train_translator(",
        "resume_translator(",
        "evaluate(",
        " train(",
    ):
        assert name in code, name


@pytest.mark.parametrize("name", TRANSLATED)
def test_both_languages_have_as_many_headings(name):
    english, chinese = (
        (ROOT / f"{name}{ending}").read_text(encoding="utf-8") for ending in (".md", ".zh-CN.md")
    )
    levels = [re.findall(r"^(#+) ", FENCE.sub("", page), flags=re.MULTILINE) for page in (english, chinese)]
    assert levels[0] == levels[1]
    assert len(levels[0]) > 2


@pytest.mark.parametrize("name", TRANSLATED)
def test_both_languages_link_to_each_other(name):
    for page, other in ((f"{name}.md", f"{name}.zh-CN.md"), (f"{name}.zh-CN.md", f"{name}.md")):
        first_lines = (ROOT / page).read_text(encoding="utf-8").splitlines()[:8]
        assert any(f"]({Path(other).name})" in line for line in first_lines), page


# ---- names in tables

SPAN = re.compile(r"`([^`]+)`")
NAME = re.compile(r"(?:regard|Recording|seen)(?:\.\w+)+|(?<=`)\.\w+(?=\()|(?<=\)\.)\w+(?=\()")


def bertviz_answers(ending: str) -> list[str]:
    """The column for Regard of the table for those who come from BertViz."""
    page = (ROOT / f"docs/see{ending}").read_text(encoding="utf-8")
    rows = page.split("| BertViz | Regard |\n")[1].splitlines()[1:]
    return [row.strip("|").split(" | ")[-1] for row in rows if row.startswith("|")]


def regard_names(answer: str) -> list[str]:
    """Dotted names and methods of call results, which are looked up on the class of a recording."""
    return [
        name if name.startswith("regard.") else f"Recording.{name.split('.', 1)[-1]}"
        for span in SPAN.findall(answer)
        for name in NAME.findall(f"`{span}`")
    ]


def is_there(name: str) -> bool:
    import regard
    from regard.capture import Recording

    found: object = regard if name.startswith("regard.") else Recording
    for part in name.split(".")[1:]:
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


@pytest.mark.parametrize("ending", [".md", ".zh-CN.md"])
def test_the_bertviz_table_names_what_is_there(ending):
    answers = bertviz_answers(ending)
    names = [name for answer in answers for name in regard_names(answer)]
    assert {"regard.show", "regard.capture", "Recording.by", "Recording.show", "Recording.save_html"} <= {
        *names
    }
    assert [name for name in names if not is_there(name)] == []
    assert not is_there("regard.no_such_name")
    assert not is_there("Recording.no_such_name")
    # A slice is of records, a model speaks of layers.
    assert not any("seen[" in answer for answer in answers)
