"""Tests of the first row of a table, with known column names or a warning."""

import warnings

import pytest

from regard.text import LABEL_FIELDS, read_pairs
from regard.text.headers import without_header


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


LABELLED = [
    "review{s}stars\na good film{s}5\na bad film{s}1\n",
    "review{s}verdict\na good film{s}good\na bad film{s}bad\nfine{s}good\n",
    "评论{s}情感\n很好{s}正面\n不好{s}负面\n不错{s}正面\n",
    "movie review{s}star rating\nA good film.{s}5\nA bad film.{s}1\n",
]


@pytest.mark.parametrize(("name", "sign"), [("x.csv", ","), ("x.tsv", "\t")])
@pytest.mark.parametrize("text", LABELLED)
def test_a_header_of_labelled_rows_is_known_by_its_label(tmp_path, name, sign, text):
    text = text.format(s=sign)
    first = ", ".join(text.split("\n")[0].split(sign))
    with pytest.warns(UserWarning, match=f"line 1: the first row, {first}, is taken for the names of the"):
        found = rows_of(tmp_path / name, text, fields=LABEL_FIELDS)
    assert len(found) == text.count("\n") - 1


@pytest.mark.parametrize(
    "text",
    [
        "good film\tgood\nbad film\tbad\nfine\tgood\nfine too\tgood\n",  # the label comes again
        "I liked it.\todd\nbad film\tbad\nfine\tbad\n",  # a sentence is no name
        "good film\tgood\nbad film\tbad\nfine\tfine\n",  # no label comes twice
        "good film\t5\nbad film\t1\nfine film\t1\n",  # a number is no name
        "good\tpositive\n",
    ],
)
def test_a_first_row_that_may_be_data_is_kept(tmp_path, text):
    assert len(rows_of(tmp_path / "x.tsv", text, fields=LABEL_FIELDS)) == text.count("\n")


def test_a_header_above_a_row_that_looks_like_one_keeps_the_row(tmp_path):
    text = "text\tlabel\nreview\tstars\na good film\t5\na bad film\t1\n"
    assert len(rows_of(tmp_path / "x.tsv", text, fields=LABEL_FIELDS)) == 3


@pytest.mark.parametrize(("name", "sign"), [("x.csv", ","), ("x.tsv", "\t")])
def test_short_names_above_sentences_are_warned_of(tmp_path, name, sign):
    text = "".join(
        f"{a}{sign}{b}\n" for a, b in [("Original", "Traduction"), *[("A dog runs.", "Il court.")] * 3]
    )
    with pytest.warns(UserWarning, match="the first row is read as data: Original, Traduction"):
        assert len(rows_of(tmp_path / name, text)) == 4


def test_the_rows_that_are_read_to_judge_a_header_are_bounded(tmp_path):
    rows = [("a.tsv, line 1", "review", "stars"), *[("a.tsv, line 2", "x" * 2**20, "5")] * 50]
    left = iter(rows)
    with pytest.warns(UserWarning, match="is taken for the names"):
        next(without_header(left, labelled=True))
    assert len(list(left)) > 40


@pytest.mark.parametrize(("name", "sign"), [("x.csv", ","), ("x.tsv", "\t")])
def test_a_first_row_with_a_known_label_is_data(tmp_path, name, sign):
    text = f"good film{sign}pos\nbad film{sign}neg\nbad book{sign}neg\n"
    known = rows_of(tmp_path / name, text, fields=LABEL_FIELDS, labels={"pos", "neg"})
    assert known[0] == ("good film", "pos")
    with pytest.warns(
        UserWarning, match="the first row, good film, pos, is taken for the names of the columns"
    ):
        assert len(rows_of(tmp_path / name, text, fields=LABEL_FIELDS, labels={"positive"})) == 2
