"""Tests that the chapters and the READMEs have the same numbers in both languages, and correct known errors."""

import re
from pathlib import Path

import pytest

from support.pages import CHINESE, ENGLISH, name_of, pages, pages_of_both_languages

MEASURED = [
    pytest.param(*twins, id=name_of(twins[0]))
    for twins in pages_of_both_languages()
    if "tutorial" in twins[0].parts or twins[0].stem == "README"
]


def numbers_in_tables(page: Path) -> list[list[str]]:
    """Return the numbers of each row of the tables, without their order, in which languages differ."""
    rows = re.findall(r"^\|.*\|$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [sorted(re.findall(r"\d+(?:[.,]\d+)*", row)) for row in rows]


@pytest.mark.parametrize(("english", "chinese"), MEASURED)
def test_the_tables_have_the_same_numbers_in_both_languages(english, chinese):
    assert numbers_in_tables(english) == numbers_in_tables(chinese)


def test_the_chapters_have_tables():
    assert sum(len(numbers_in_tables(page)) for page in (ENGLISH / "tutorial").glob("*.md")) > 50


# The page on which a reader meets an error of a tutorial, and what it shows of the error and of the right form.
CORRECTED = {
    "weights of the worked example": (
        "tutorial/02-query-key-value.md",
        ["[0.5, 0, 0.5]", "[[0.4011, 0.1978, 0.4011]]", "[[16.0445, 3.9555]]"],
    ),
    "weights cut off": ("tutorial/02-query-key-value.md", ["15.57", "15.59", "[[15.584]]"]),
    "score without the query": ("tutorial/03-scores.md", ["\\tanh(W k + b)", "\\tanh(W_1 q + W_2 k)"]),
    "-1e9": ("tutorial/04-masks.md", ["masked_fill(mask == 0, -1e9)", "c10::Half without overflow"]),
    "mask with a wrong axis": ("tutorial/04-masks.md", ["`(b,q,k)`", "naive  [0.17 0.  ]"]),
    "dialects of masks": (
        "tutorial/04-masks.md",
        ["key_padding_mask", "wrong 1.0", "from_key_padding_mask", "holds only zeros and ones"],
    ),
    "odd width and long text": ("tutorial/06-positions.md", ["`pe[:, 0::2] = sin(...)`", "(1, 25, 7)"]),
    "padding of reviews": ("tutorial/12-reading-attention.md", ["`<pad>`", "examples/imdb_attention.py"]),
    "torchtext": ("classify.md", ["torchtext", "PyTorch 2.3", "examples/imdb_attention.py"]),
    "torchtext in the example of reviews": ("tutorial/12-reading-attention.md", ["torchtext"]),
    "second article": (
        "tutorial/07-encoder-decoder.md",
        ["*the*", "['The', 'cat', 'sits', 'on', 'the', 'mat', '.']"],
    ),
}


@pytest.mark.parametrize("tree", [ENGLISH, CHINESE], ids=lambda tree: tree.name)
@pytest.mark.parametrize("error", CORRECTED)
def test_an_error_of_common_tutorials_is_corrected_where_a_reader_meets_it(error, tree):
    page, shown = CORRECTED[error]
    text = (tree / page).read_text(encoding="utf-8")
    assert [part for part in shown if part not in text] == []


@pytest.mark.parametrize("page", [page for page in pages() if CHINESE not in page.parents], ids=name_of)
def test_the_english_pages_write_cross_attention_with_a_hyphen(page):
    assert re.findall(r"(?i)cross\s+attention", page.read_text(encoding="utf-8")) == []
