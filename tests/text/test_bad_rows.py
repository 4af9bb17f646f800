"""Tests of rows that cannot be read, which are an error with their lines, or skipped and counted."""

import json

import pytest

from regard.errors import ArgumentError, FileError
from regard.text import LABEL_FIELDS, Skipped, read_lines, read_pairs

GOOD = [("a dog", "un chien"), ("a cat", "un chat")]

# By name: the file, its content with two bad rows among two good ones, the problem of the first and both lines.
BAD = {
    "too few columns": ("a.tsv", b"a dog\tun chien\nalone\na cat\tun chat\nalone\n", "no column 1", "2, 4"),
    "first row": ("a.tsv", b"alone\na dog\tun chien\nalone\na cat\tun chat\n", "no column 1", "1, 3"),
    "not UTF-8": ("a.tsv", b"a dog\tun chien\n\xe9\tx\na cat\tun chat\nx\t\xe9\n", "not UTF-8", "2, 4"),
    "null": ("a.tsv", b"a dog\tun chien\na\0b\tx\na cat\tun chat\nx\ty\0\n", "null character", "2, 4"),
    "short CSV": ("a.csv", b"a dog,un chien\nalone\na cat,un chat\nalone\n", "no column 1", "2, 4"),
    "short first CSV": ("a.csv", b"alone\na dog,un chien\nalone\na cat,un chat\n", "no column 1", "1, 3"),
    "long CSV": ("a.csv", b"a dog,un chien\n1,2,3\na cat,un chat\n1,2,3\n", "3 cells", "2, 4"),
    "CSV not UTF-8": ("a.csv", b"\xe9,x\na dog,un chien\na cat,un chat\n\xe9,x\n", "not UTF-8", "1, 4"),
    "open quote": ("a.csv", b'a dog,un chien\nx,"y\na cat,un chat\nz,"z\n', "not CSV up to line 4", "2, 4"),
    "quote at the end": ("a.csv", b'x"y"\n\na dog,un chien\na cat,un chat\nz,"z\n', "no column 1", "1, 5"),
    "not JSON": ("a.jsonl", b'{"source": "a dog", "target": "un chien"}\n{\n', "not JSON", ""),
}


def write(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(("name", "content", "problem", "lines"), BAD.values(), ids=BAD)
def test_bad_rows_are_an_error_that_names_their_lines(tmp_path, name, content, problem, lines):
    path = write(tmp_path, name, content)
    first = lines.partition(",")[0] or "2"
    told = rf"2 rows cannot be read \(lines {lines}\): correct them" if lines else "; correct the row"
    with pytest.raises(FileError, match=rf"{name}, line {first}: .*{problem}.*{told}.* skip_bad_rows=True"):
        list(read_pairs(path))


@pytest.mark.parametrize(("name", "content", "problem", "lines"), BAD.values(), ids=BAD)
def test_bad_rows_are_left_out_and_counted_if_asked(tmp_path, name, content, problem, lines):
    path, skipped = write(tmp_path, name, content), Skipped()
    found = list(read_pairs(path, skip_bad_rows=True, skipped=skipped))
    assert found == (GOOD if lines else GOOD[:1])
    assert skipped.total == skipped.bad == (2 if lines else 1)
    assert f"{skipped.bad} that cannot be read (the first: {path}, line " in str(skipped)
    assert problem in str(skipped)
    # An error marks the options that it mentions, and this is not one.
    assert str(skipped).isprintable()


@pytest.mark.parametrize(
    "bad",
    ['{"source": "x"}', '{"source": "x", "target": [1]}', "[1]", '{"source": "\\ud800", "target": "x"}'],
)
@pytest.mark.parametrize("first", [False, True])
def test_objects_without_the_fields_are_bad_rows(tmp_path, bad, first):
    rows = [json.dumps({"source": source, "target": target}) for source, target in GOOD]
    if first and bad == "[1]":
        rows.insert(0, bad)
    rows.append(bad)
    path, skipped = write(tmp_path, "a.jsonl", "\n".join(rows).encode()), Skipped()
    assert list(read_pairs(path, skip_bad_rows=True, skipped=skipped)) == GOOD
    assert skipped.bad == len(rows) - 2
    with pytest.raises(FileError, match=f"line {1 if len(rows) == 4 else 3}: "):
        list(read_pairs(path))


def test_a_bad_row_of_one_file_skips_the_pair(tmp_path):
    left = write(tmp_path, "a.en", b"a dog\n\xe9\nx\na cat\n")
    right = write(tmp_path, "a.fr", b"un chien\ny\n\xe9\nun chat\n")
    skipped = Skipped()
    assert list(read_pairs(left, right, skip_bad_rows=True, skipped=skipped)) == GOOD
    assert skipped.bad == 2
    with pytest.raises(FileError, match=r"a\.en, line 2: .*2 rows cannot be read \(lines 2, 3\)"):
        list(read_pairs(left, right))


def test_only_the_first_five_lines_are_named(tmp_path):
    path = write(tmp_path, "a.tsv", b"a dog\tun chien\n" + b"alone\n" * 1200)
    with pytest.raises(FileError, match=r"1,200 rows cannot be read \(lines 2, 3, 4, 5, 6, …\)"):
        list(read_pairs(path))


def test_a_file_of_bad_rows_only_is_an_error_all_the_same(tmp_path):
    path = write(tmp_path, "a.tsv", b"alone\nalone\n")
    with pytest.raises(FileError, match=r"no row to use in .*a\.tsv: 2 that cannot be read"):
        list(read_pairs(path, skip_bad_rows=True))


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl"])
def test_a_file_of_another_kind_is_no_bad_row(tmp_path, name):
    path = write(tmp_path, name, "a\tb\n".encode("utf-16"))
    with pytest.raises(FileError, match="it seems to be UTF-16"):
        list(read_pairs(path, skip_bad_rows=True))


def test_a_row_of_several_lines_is_read_again_after_a_bad_one(tmp_path):
    text = b'x,"never closed\na dog,"un\nchien"\na cat,un chat\n'
    skipped = Skipped()
    pairs = list(read_pairs(write(tmp_path, "a.csv", text), skip_bad_rows=True, skipped=skipped))
    assert pairs == [("a dog", "un\nchien"), ("a cat", "un chat")]
    assert skipped.bad == 1


def test_bad_lines_of_training_text_are_skipped_and_counted(tmp_path):
    path = write(tmp_path, "a.txt", b"one\n\n\xe9\ntwo\nx\0\n")
    skipped = Skipped()
    assert list(read_lines(path, keep_empty=False, skip_bad_rows=True, skipped=skipped)) == ["one", "two"]
    assert (skipped.bad, skipped.empty) == (2, 1)
    with pytest.raises(FileError, match=r"line 3: .*2 rows cannot be read \(lines 3, 5\)"):
        list(read_lines(path, keep_empty=False))


def test_lines_to_answer_cannot_be_skipped(tmp_path):
    path = write(tmp_path, "a.txt", b"one\nx\0\n\xe9\n")
    lines = read_lines(path)
    assert [next(lines), next(lines)] == ["one", "x\0"]
    with pytest.raises(FileError, match=r"a\.txt, line 3: byte 0xe9"):
        next(lines)
    with pytest.raises(ArgumentError, match="skip_bad_rows: the remaining lines would not match"):
        read_lines(path, skip_bad_rows=True)


# Two good rows, an empty label, an empty text, and an empty row.
LABELLED = {
    "a.tsv": "good\tpos\n\ntext only\t\n\tneg\nbad\tneg\n",
    "a.csv": "good,pos\n,\ntext only,\n,neg\nbad,neg\n",
    "a.jsonl": '{"text": "good", "label": "pos"}\n\n{"text": "text only", "label": null}\n'
    '{"text": " ", "label": "neg"}\n{"text": "bad", "label": "neg"}\n',
}


@pytest.mark.parametrize("name", LABELLED)
def test_an_empty_text_or_label_is_a_bad_row_of_labelled_data(tmp_path, name):
    path, skipped = write(tmp_path, name, LABELLED[name].encode()), Skipped()
    told = rf"{name}, line 3: the label is empty; 2 rows cannot be read \(lines 3, 4\)"
    with pytest.raises(FileError, match=told):
        list(read_pairs(path, fields=LABEL_FIELDS, labels={"pos"}))
    options = {"fields": LABEL_FIELDS, "labels": {"pos"}, "skip_bad_rows": True}
    rows = list(read_pairs(path, **options, skipped=skipped))
    assert rows == [("good", "pos"), ("bad", "neg")]
    assert (skipped.bad, skipped.empty) == (2, 1)


def test_the_lines_of_all_rows_that_a_check_refuses_are_named(tmp_path):
    path = write(tmp_path, "a.tsv", b"a\tx\nb\ty\nc\tx\n")
    with pytest.raises(FileError, match=r"line 1: x is bad; 2 rows cannot be read \(lines 1, 3\)"):
        list(read_pairs(path, check=lambda _, right: "x is bad" if right == "x" else ""))
