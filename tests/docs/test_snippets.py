"""Tests that the Python snippets of each page run in order, and that both languages agree."""

import os
import re
from pathlib import Path

import pytest

from support.pages import (
    CHINESE,
    ENGLISH,
    blocks,
    code_of,
    executed_pages,
    headings,
    name_of,
    page_code,
    pages,
    pages_of_both_languages,
)
from support.paths import ROOT

TWINS = [pytest.param(*pair, id=name_of(pair[0])) for pair in pages_of_both_languages()]


def draws(page: Path) -> bool:
    return re.search(r"\b(?:plot_|visualize_|show\()|matplotlib", code_of(page)) is not None


# The Chinese pages have the code of the English ones, as test_both_languages_have_the_same_code checks.
EXECUTED = executed_pages()
DRAWN = [page for page in EXECUTED if draws(page)]
UNDRAWN = [page for page in EXECUTED if not draws(page)]


@pytest.mark.parametrize("page", UNDRAWN, ids=name_of)
def test_snippets_run_and_print_what_the_page_says(page, tmp_path):
    run_page(page, tmp_path)


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize("page", DRAWN, ids=name_of)
def test_snippets_that_draw_run_with_all_fonts_and_with_few(page, tmp_path):
    run_page(page, tmp_path)


def run_page(page: Path, folder: Path) -> None:
    text = page.read_text(encoding="utf-8")
    result = page_code.run(page_code.program(text, "page", folder), folder)
    assert result.returncode == 0, result.stderr
    assert page_code.wrong_outputs(text, result.stdout) == []
    assert len(list(folder.glob("page-*.html"))) == page_code.pictures_in(text)


def test_a_snippet_that_fails_would_be_seen(tmp_path):
    assert page_code.run("import regard\nregard.nothing_of_this_name", tmp_path).returncode != 0


def test_an_output_that_is_not_printed_would_be_seen():
    page = "```python\nprint(1)  # 2\n```\n\n```output\n3\n```\n\n```python\nprint(4)  # 4\n```\n"
    printed = page_code.END_OF_BLOCK.join(["1\n", "\n4\n", "\n"])
    assert page_code.wrong_outputs(page, printed) == [("2", "1"), ("3\n", "1")]


@pytest.mark.parametrize(("english", "chinese"), TWINS)
def test_both_languages_have_the_same_code(english, chinese):
    code = [[block for block in blocks(page) if block[0] != "{toctree}"] for page in (english, chinese)]
    assert [kind for kind, _ in code[0]] == [kind for kind, _ in code[1]]
    pairs = zip(code[0], code[1], strict=True)
    assert [one for one, other in pairs if one != other and not is_translated(one, other)] == []


def is_translated(english: tuple[str, str], chinese: tuple[str, str]) -> bool:
    """Return whether a block is text of a program that speaks both languages, such as the verdict on an exercise."""
    in_chinese = [any("\u4e00" <= letter <= "\u9fff" for letter in body) for _, body in (english, chinese)]
    return english[0] == chinese[0] == "text" and in_chinese == [False, True]


def test_only_a_text_in_chinese_may_differ():
    assert is_translated(("text", "Not yet."), ("text", "还不对。"))
    assert not is_translated(("text", "Not yet."), ("text", "No."))
    assert not is_translated(("text", "还不"), ("text", "还不对。"))
    assert not is_translated(("python", "x = 1"), ("python", "x = 1  # 一"))


def test_both_languages_have_the_same_pages():
    names = [
        {str(page.relative_to(tree)) for page in pages() if tree in page.parents}
        for tree in (ENGLISH, CHINESE)
    ]
    assert names[0] == names[1]


def test_the_page_on_translation_shows_what_python_users_need():
    code = code_of(ROOT / "docs/en/translate.md")
    for name in (
        "Translator.load",
        "align(",
        "train_translator(",
        "resume_translator(",
        "evaluate(",
        " train(",
    ):
        assert name in code, name


@pytest.mark.parametrize(("english", "chinese"), TWINS)
def test_both_languages_have_as_many_headings(english, chinese):
    assert headings(english) == headings(chinese)
    assert headings(english)


@pytest.mark.parametrize(("english", "chinese"), TWINS)
def test_both_languages_link_to_each_other(english, chinese):
    for page, other in ((english, chinese), (chinese, english)):
        first_lines = page.read_text(encoding="utf-8").splitlines()[:8]
        assert any(f"]({os.path.relpath(other, page.parent)})" in line for line in first_lines), page


# ---- names in tables

SPAN = re.compile(r"`([^`]+)`")
NAME = re.compile(r"(?:regard|Recording|seen)(?:\.\w+)+|(?<=`)\.\w+(?=\()|(?<=\)\.)\w+(?=\()")


def bertviz_answers(language: str) -> list[str]:
    """The column for Regard of the table for those who come from BertViz."""
    page = (ROOT / f"docs/{language}/see.md").read_text(encoding="utf-8")
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


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_bertviz_table_names_what_is_there(language):
    answers = bertviz_answers(language)
    names = [name for answer in answers for name in regard_names(answer)]
    assert {"regard.show", "regard.capture", "Recording.by", "Recording.show", "Recording.save_html"} <= {
        *names
    }
    assert [name for name in names if not is_there(name)] == []
    assert not is_there("regard.no_such_name")
    assert not is_there("Recording.no_such_name")
    # A slice is of records, a model speaks of layers.
    assert not any("seen[" in answer for answer in answers)
