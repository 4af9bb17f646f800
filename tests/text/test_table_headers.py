"""The first row of a table: names of columns that are known, and a warning about those that are not."""

import warnings

import pytest

from regard.text import LABEL_FIELDS, read_pairs


def rows_of(path, text, **options):
    path.write_text(text, encoding="utf-8")
    return list(read_pairs(path, **options))


@pytest.mark.parametrize(("name", "sign"), [("x.csv", ","), ("x.tsv", "\t")])
def test_an_unknown_header_is_warned_of(tmp_path, name, sign):
    text = f"english_text{sign}french_text\na dog{sign}un chien\n"
    with pytest.warns(UserWarning, match="line 1: the first row is read as data: english_text, french_text"):
        rows_of(tmp_path / name, text)
    named = rows_of(tmp_path / name, text, columns=("english_text", "french_text"))
    assert named == [("a dog", "un chien")]


@pytest.mark.parametrize("first", ["dog\tchien", "A dog.\tUn chien.", "no\tnon"])
def test_words_are_not_taken_for_a_header(tmp_path, first):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(rows_of(tmp_path / "x.tsv", f"{first}\na cat\tun chat\n")) == 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.tsv", "label\ttext\n1\tgood\n0\tbad\n"),
        ("x.csv", "id,text,label\n7,good,1\n8,bad,0\n"),
        ("x.jsonl", '{"text": "good", "label": 1}\n{"text": "bad", "label": 0}\n'),
    ],
)
def test_texts_and_labels_are_found_by_their_names(tmp_path, name, text):
    assert rows_of(tmp_path / name, text, fields=LABEL_FIELDS) == [("good", "1"), ("bad", "0")]
