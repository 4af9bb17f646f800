"""Tests of the first row of a table, with known column names or a warning."""

import re
import warnings

import pytest

from regard.errors import ArgumentError
from regard.text import LABEL_FIELDS, Skipped, read_pairs
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
    "Comment?{s}Happy?\na good film{s}yes\na bad film{s}no\nfine{s}yes\n",
    "Q1: what did you think{s}Q2 (mood) 1-5\na good film{s}5\na bad film{s}1\n",
    "您觉得怎么样？{s}满意吗？\n很好{s}是\n不好{s}否\n不错{s}是\n",
]


@pytest.mark.parametrize(("name", "sign"), [("x.csv", ","), ("x.tsv", "\t")])
@pytest.mark.parametrize("text", LABELLED)
def test_a_header_of_labelled_rows_is_known_by_its_label(tmp_path, name, sign, text):
    text = text.format(s=sign)
    first = ", ".join(text.split("\n")[0].split(sign))
    with pytest.warns(
        UserWarning, match=f"line 1: the first row, {re.escape(first)}, is taken for the names"
    ):
        found = rows_of(tmp_path / name, text, fields=LABEL_FIELDS)
    assert len(found) == text.count("\n") - 1


@pytest.mark.parametrize(
    "text",
    [
        "good film\tgood\nbad film\tbad\nfine\tgood\nfine too\tgood\n",  # the label comes again
        "good film\tgood\nbad film\tbad\nfine\tfine\n",  # no label comes twice
        "good film\t5\nbad film\t1\nfine film\t1\n",  # a number is no name
        "good\tpositive\n",
    ],
)
def test_a_first_row_that_may_be_data_is_kept(tmp_path, text):
    assert len(rows_of(tmp_path / "x.tsv", text, fields=LABEL_FIELDS)) == text.count("\n")


@pytest.mark.parametrize(
    "first",
    [
        "I liked it.\todd",  # a sentence is no name
        "good film\t5",  # nor is a number
        f"{'a long text of many words ' * 9}\tmood",
    ],
)
def test_a_first_row_whose_label_is_alone_is_kept_with_a_warning(tmp_path, first):
    text = f"{first}\nbad film\tbad\nfine\tbad\n"
    with pytest.warns(UserWarning, match="the first row is read as data: .* 3 rows, no other has this label"):
        assert len(rows_of(tmp_path / "x.tsv", text, fields=LABEL_FIELDS)) == 3


NAMED = ['"what, if any?",mood,when', '"it is late",sad,"on Monday, of course"']
UNKNOWN = [
    ("x.csv", "\n".join(NAMED), "line 1 has 3 columns without known names: 0 'what, if any?', 1 'mood', 2"),
    ("x.tsv", "\n".join(NAMED).replace(",", "\t"), "line 1 has 4 columns without known names: "),
    (
        "x.jsonl",
        '{"a, b": "good", "mood": 1, "when": ""}',
        "line 1 has fields without known names: a, b, mood, when",
    ),
]


@pytest.mark.parametrize("fields", [(), LABEL_FIELDS])
@pytest.mark.parametrize(("name", "text", "told"), UNKNOWN)
def test_more_columns_than_two_have_to_be_named_unless_their_names_are_known(
    tmp_path, name, text, told, fields
):
    with pytest.raises(ArgumentError, match=f"columns: not given, and .*{name}, {re.escape(told)}"):
        rows_of(tmp_path / name, text, fields=fields)


def test_the_first_two_columns_are_read_if_they_are_given(tmp_path):
    text = "id;what;when\n1;good;now\n"
    assert len(rows_of(tmp_path / "x.csv", text, columns=(0, 1))) == 2
    # Empty columns, as at the end of each row of a spreadsheet, do not count.
    assert len(rows_of(tmp_path / "y.csv", "a,b,,\nc,d,,\n")) == 2


@pytest.mark.parametrize(
    ("text", "options", "columns"),
    [
        ("text\tlabel\ngood\t1\n", {"fields": LABEL_FIELDS}, ['column "text"', 'column "label"']),
        (LABELLED[0].format(s="\t"), {"fields": LABEL_FIELDS}, ['column "review"', 'column "stars"']),
        ("good\t1\t\n", {"columns": (1, 0)}, ["column 1", "column 0"]),
        ("en\tfr\na\tb\n", {"languages": ("fr", "en")}, ['column "fr"', 'column "en"']),
    ],
)
@pytest.mark.filterwarnings("ignore:.*taken for the names")
def test_the_columns_that_are_read_are_noted(tmp_path, text, options, columns):
    skipped = Skipped()
    rows_of(tmp_path / "x.tsv", text, skipped=skipped, **options)
    assert skipped.columns == columns


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
