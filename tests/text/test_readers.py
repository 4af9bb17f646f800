"""Tests that every format gives the same pairs, that errors name the line, and that memory stays small."""

import gzip
import io
import itertools
import json
import os
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import ArgumentError, FileError, MissingExtraError, UnknownNameError
from regard.text import Skipped, deduplicate, read_lines, read_pairs
from regard.text import lines as text_lines
from support.attention_cases import examples
from support.paths import data_folder

PAIRS = [("The cat.", "Le chat."), ("I saw 我.", "Je 看见 l'eau\u2028là\x85!"), ("bell \a", "ok")]
SPLIT = [{"translation": {"en": left, "fr": right}, "id": place} for place, (left, right) in enumerate(PAIRS)]


def write(path: Path, data: str | bytes) -> Path:
    data = data.encode() if isinstance(data, str) else data
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def tsv(pairs, end="\n") -> str:
    return "".join(f"{left}\t{right}{end}" for left, right in pairs)


def jsonl(rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


# -- the formats -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gz", ["", ".gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_tsv_file_is_read(tmp_path, gz, end, mark):
    path = write(tmp_path / f"a.tsv{gz}", mark + tsv(PAIRS, end))
    assert list(read_pairs(path)) == PAIRS
    assert list(read_pairs(str(path), columns=(1, 0))) == [(right, left) for left, right in PAIRS]


def test_a_last_line_without_an_end_counts(tmp_path):
    assert list(read_pairs(write(tmp_path / "a.tsv", "a\tb\nc\td"))) == [("a", "b"), ("c", "d")]


def test_columns_are_chosen_by_the_names_in_the_first_line(tmp_path):
    path = write(tmp_path / "a.tsv", "\ufeffid\ten\tfr\n7\tcat\tchat\n")
    assert list(read_pairs(path, columns=("fr", "en"))) == [("chat", "cat")]
    with pytest.raises(
        FileError, match=r"a\.tsv, line 1: there is no column 'de': its columns are id, en, fr"
    ):
        list(read_pairs(path, columns=("en", "de")))


@pytest.mark.parametrize("gz", ["", ".gz"])
def test_two_parallel_files_are_read(tmp_path, gz):
    left = write(tmp_path / f"a.en{gz}", "".join(pair[0] + "\n" for pair in PAIRS))
    right = write(tmp_path / f"a.fr{gz}", "\ufeff" + "".join(pair[1] + "\r\n" for pair in PAIRS))
    assert list(read_pairs(left, right)) == PAIRS


@pytest.mark.parametrize("gz", ["", ".gz"])
def test_json_lines_are_read(tmp_path, gz):
    path = write(tmp_path / f"a.jsonl{gz}", jsonl(SPLIT))
    assert list(read_pairs(path, columns=("translation.en", "translation.fr"))) == PAIRS
    path = write(tmp_path / "dots.jsonl", jsonl([{"a.b": "x", "a": {"b": "not this", "c": "y"}}]))
    assert list(read_pairs(path, columns=("a.b", "a.c"))) == [("x", "y")]


@pytest.mark.parametrize(("format", "text"), [(None, tsv(PAIRS)), ("jsonl", jsonl(SPLIT))])
def test_standard_input_is_read(monkeypatch, format, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), "latin1"))
    columns = ("translation.en", "translation.fr") if format else (0, 1)
    assert list(read_pairs("-", format=format, columns=columns)) == PAIRS
    assert not sys.stdin.buffer.closed


def test_a_format_that_is_said_wins_over_the_name(tmp_path):
    path = write(tmp_path / "a.jsonl", tsv(PAIRS))
    assert list(read_pairs(path, format="tsv")) == PAIRS
    odd = write(tmp_path / "a.data", tsv(PAIRS))
    assert list(read_pairs(odd, format="tsv")) == PAIRS
    with pytest.raises(
        ArgumentError,
        match=r"format: cannot be told from the name .*a\.data: say it with format=, one of tsv",
    ):
        read_pairs(odd)
    with pytest.raises(UnknownNameError, match="format: unknown name 'json': did you mean 'jsonl'"):
        read_pairs(odd, format="json")


@examples(60, 1000)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"), max_size=9)))
def test_lines_with_any_characters_are_read_unchanged(tmp_path_factory, lines):
    path = write(
        tmp_path_factory.mktemp("lines") / "a.txt", "\ufeff" + "".join(f"{line}\r\n" for line in lines)
    )
    assert list(read_lines(path)) == lines


def test_empty_and_long_lines_are_left_out_only_on_request(tmp_path, monkeypatch):
    path = write(tmp_path / "a.txt.gz", "one\n\n two three four\n")
    assert list(read_lines(path)) == ["one", "", " two three four"]
    skipped = Skipped()
    assert list(read_lines(path, keep_empty=False, max_words=2, skipped=skipped)) == ["one"]
    assert (skipped.empty, skipped.too_long, skipped.total) == (1, 1, 2)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("é\n\n".encode())))
    assert list(read_lines("-")) == ["é", ""]


# -- Hugging Face data sets ------------------------------------------------------------------------------------------


@pytest.fixture
def datasets(monkeypatch, tmp_path):
    library = pytest.importorskip("datasets")
    monkeypatch.setattr(library.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return library


FIELDS = {"columns": ("translation.en", "translation.fr")}


@pytest.mark.parametrize("kind", ["disk", "disk of splits", "folder", "jsonl", "parquet"])
def test_hugging_face_data_sets_on_the_disk_are_read(datasets, tmp_path, kind):
    rows = datasets.Dataset.from_list(SPLIT)
    where = tmp_path / "data"
    if kind == "disk":
        rows.save_to_disk(where)
    elif kind == "disk of splits":
        datasets.DatasetDict({"test": rows.select([0]), "train": rows}).save_to_disk(where)
    elif kind == "folder":
        where.mkdir()
        write(where / "train.jsonl", jsonl(SPLIT))
    elif kind == "jsonl":
        where = write(tmp_path / "a.jsonl", jsonl(SPLIT))
    else:
        where = tmp_path / "a.parquet"
        rows.to_parquet(where)
    assert list(read_pairs(f"hf:{where}", **FIELDS)) == PAIRS
    if kind == "disk of splits":
        assert list(read_pairs(f"hf:{where}", split="test", **FIELDS)) == PAIRS[:1]
        with pytest.raises(FileError, match=r"cannot load hf:.*split 'valid'"):
            list(read_pairs(f"hf:{where}", split="valid", **FIELDS))
    with pytest.raises(FileError, match=r"row 1: there is no field 'en': its fields are .*translation\.en"):
        list(read_pairs(f"hf:{where}", columns=("en", "fr")))
    with pytest.raises(
        ArgumentError, match=r"columns: not given, and hf:.*row 1 has fields without known names: "
    ):
        list(read_pairs(f"hf:{where}"))


def test_a_missing_data_set_is_refused(datasets, tmp_path):
    with pytest.raises(FileError, match=r"source: cannot load hf:no-such/data-set, split 'train': "):
        list(read_pairs("hf:no-such/data-set", **FIELDS))
    with pytest.raises(FileError, match=r"expected a file of the kinds \.jsonl"):
        list(read_pairs(f"hf:{write(tmp_path / 'a.xml', '')}", **FIELDS))
    broken = write(tmp_path / "b.jsonl", '{"a": ')  # is met only while reading
    with pytest.raises(FileError, match="cannot load hf:"):
        list(read_pairs(f"hf:{broken}", **FIELDS))


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"reading hf:x needs datasets: .*\[hf\]"):
        read_pairs("hf:x")


# -- errors and their places -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("longer", "counts"), [("a.en", "a.en has 5 lines, .*a.fr has 3"), ("a.fr", "a.fr has 5")]
)
def test_parallel_files_of_different_length_are_refused(tmp_path, longer, counts):
    for name in ("a.en", "a.fr"):
        write(tmp_path / name, "x\n" * (5 if name == longer else 3))
    pairs = read_pairs(tmp_path / "a.en", tmp_path / "a.fr")
    assert list(itertools.islice(pairs, 3)) == [("x", "x")] * 3
    with pytest.raises(FileError, match=f"{counts}.*line 4 of .*{longer} is the first without a partner"):
        list(pairs)


def test_an_empty_side_is_left_out_and_counted(tmp_path):
    skipped = Skipped()
    path = write(tmp_path / "a.tsv", "a\tb\n\tc\nd\t \n\n  \ne\tf\n")
    assert list(read_pairs(path, skipped=skipped)) == [("a", "b"), ("e", "f")]
    assert skipped.empty == skipped.total == 4
    assert str(skipped) == f"4 with an empty side (the first: {path}, line 2)"
    rows = write(tmp_path / "a.jsonl", '{"a": null, "b": "x"}\n\n{"a": "y", "b": "z"}\n')
    assert list(read_pairs(rows, columns=("a", "b"), skipped=skipped)) == [("y", "z")]
    assert skipped.empty == 6


def test_a_file_without_a_pair_is_an_error(tmp_path):
    with pytest.raises(FileError, match=r"a\.tsv is empty: expected pairs"):
        list(read_pairs(write(tmp_path / "a.tsv", "")))
    with pytest.raises(FileError, match=r"no row to use in .*a\.tsv: 2 with an empty side"):
        list(read_pairs(write(tmp_path / "a.tsv", "\tb\na\t\n")))
    with pytest.raises(FileError, match="is empty"):
        list(read_pairs(write(tmp_path / "a.en", ""), write(tmp_path / "a.fr", "")))


def test_lines_of_ten_thousand_words_are_left_out_and_counted(tmp_path):
    skipped = Skipped()
    long = ["word " * 10_000, "字" * 10_000]  # Han characters are words, too
    path = write(tmp_path / "a.tsv", tsv([("a", "b"), (long[0], "c"), ("d", long[1]), ("e " * 1000, "f")]))
    assert [right for _, right in read_pairs(path, skipped=skipped)] == ["b", "f"]
    assert str(skipped) == f"2 too long (the first: {path}, line 2)"
    assert len(list(read_pairs(path, max_words=None))) == 4


def test_a_line_without_end_is_not_read_into_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(text_lines, "LONGEST", 100_000)
    path = write(tmp_path / "a.tsv", b"a\tb\n" + b"x" * 20_000_000 + b"\nc\td\n" + b"y" * 200_000)
    skipped = Skipped()
    tracemalloc.start()
    assert list(read_pairs(path, skipped=skipped)) == [("a", "b"), ("c", "d")]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert skipped.too_long == 2
    assert peak < 1_000_000
    with pytest.raises(FileError, match=r"a\.tsv, line 2: longer than"):
        list(read_lines(path))


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_another_encoding_is_named_with_its_place(tmp_path, mark):
    data = mark + b"caf\xc3\xa9\tb\r\ncaf\xe9\tb\n"
    path = write(tmp_path / "a.tsv.gz", data)
    place = data.index(b"\xe9\t")
    with pytest.raises(
        FileError, match=rf"a\.tsv\.gz, line 2: byte 0xe9 at offset {place} of .* not UTF-8: .*iconv"
    ):
        list(read_pairs(path))


def test_utf16_and_gzip_are_recognised_in_errors(tmp_path):
    with pytest.raises(FileError, match=r"offset 0 of .*it seems to be UTF-16"):
        list(read_lines(write(tmp_path / "a.txt", "abc\n".encode("utf-16"))))
    zipped = write(tmp_path / "a.txt", gzip.compress(b"abc"))
    with pytest.raises(FileError, match=r"line 1: .*compressed by gzip: give it a name that ends in \.gz"):
        list(read_lines(zipped))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a\tb\nabc\n", "line 2: there is no column 1: the row has 1 of them, counted from 0"),
        ("a b\n", "line 1: there is no column 1"),
    ],
)
def test_a_missing_column_is_named(tmp_path, text, problem):
    with pytest.raises(FileError, match=rf"a\.tsv, {problem}"):
        list(read_pairs(write(tmp_path / "a.tsv", text)))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"a": "x"', "not JSON: .*: expected one object a line"),
        ("[" * 100_000, "not JSON"),
        ('{"a": "x", "c": {"d": "y"}}', "there is no field 'b': its fields are a, c.d"),
        ('["x"]', "there is no field 'a': its fields are none, it is a list"),
        ('{"a": "x", "b": ["y"]}', r"the field 'b' is not text, but \[\"y\"\]"),
        ('{"a": "\\ud800", "b": "y"}', "the field 'a' holds half of a surrogate pair"),
    ],
)
def test_broken_json_lines_are_named(tmp_path, line, problem):
    path = write(tmp_path / "a.jsonl", '{"a": "x", "b": "y"}\n' + line + "\n")
    with pytest.raises(FileError, match=rf"a\.jsonl, line 2: {problem}"):
        list(read_pairs(path, columns=("a", "b")))


@pytest.mark.parametrize("columns", ["ab", (1,), (0, 1, 2), (0, "a"), (-1, 0), (0.5, 1)])
def test_wrong_columns_are_refused(columns):
    with pytest.raises(ArgumentError, match="columns: expected two"):
        read_pairs("-", columns=columns)


def test_files_are_checked_before_anything_is_read(tmp_path, monkeypatch):
    good = write(tmp_path / "a.tsv", "a\tb\n")
    with pytest.raises(FileError, match=r"source: no file .*none\.tsv"):
        read_pairs(tmp_path / "none.tsv")
    with pytest.raises(FileError, match=r"target: no file .*none\.fr"):
        read_pairs(good, tmp_path / "none.fr")
    (tmp_path / "folder.tsv").mkdir()
    with pytest.raises(FileError, match="source: .* is a folder: name a file in it"):
        read_pairs(tmp_path / "folder.tsv")
    with pytest.raises(FileError, match="path: no file"):
        read_lines(tmp_path / "none.txt")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(FileError, match=r"source: no permission to read .*a\.tsv"):
        read_pairs(good)


def test_wrong_combinations_of_source_and_target_are_refused(tmp_path):
    good = write(tmp_path / "a.tsv", "a\tb\n")
    for source, target, format in [
        ("-", "-", None),
        ("hf:x", good, None),
        (good, good, "tsv"),
        (good, None, "lines"),
    ]:
        with pytest.raises(ArgumentError, match="target"):
            read_pairs(source, target, format=format)
    with pytest.raises(ArgumentError, match="source: expected hf:name"):
        read_pairs("name", format="hf")


def test_a_damaged_gzip_file_is_refused(tmp_path):
    whole = gzip.compress(tsv([("a", str(n)) for n in range(999)]).encode())
    path = tmp_path / "a.tsv.gz"
    for data, problem in [
        (whole[: len(whole) // 2], "is cut short or damaged"),
        (whole[:20] + b"\xff" * 40 + whole[60:], "damaged"),
        (b"a\tb\n", "is not a gzip file"),
    ]:
        path.write_bytes(data)
        with pytest.raises(FileError, match=rf"source: .*a\.tsv\.gz .*{problem}"):
            list(read_pairs(path))


# -- memory and duplicates -------------------------------------------------------------------------------------------


def test_a_long_file_takes_no_more_memory_than_a_short_one(tmp_path):
    peaks = []
    for count in (1_000, 20_000):
        path = write(tmp_path / "a.tsv.gz", tsv([(f"sentence {n}", f"phrase {n}") for n in range(count)]))
        tracemalloc.start()
        assert sum(1 for _ in read_pairs(path)) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 200_000


def test_the_first_of_equal_pairs_is_kept():
    skipped = Skipped()
    pairs = [("a", "b"), ("ab", ""), ("", "ab"), ("a", "b"), ("b", "a"), ("a\0", "b"), ("a", "\0b")]
    assert list(deduplicate(pairs, skipped)) == [*pairs[:3], *pairs[4:]]
    assert skipped.duplicates == 1


@examples(60, 1000)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.text(max_size=1))))
def test_deduplication_equals_that_of_a_dictionary(pairs):
    assert list(deduplicate(pairs)) == list(dict.fromkeys(pairs))


def test_deduplication_takes_little_memory():
    count = 20_000
    pairs = ((str(n % count), "x") for n in range(2 * count))  # everything comes twice, the table grows
    tracemalloc.start()
    assert sum(1 for _ in deduplicate(pairs)) == count
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * count


def test_tatoeba_and_multi30k_are_read_completely():
    skipped = Skipped()
    path = data_folder("tatoeba_eng_fra") / "valid.tsv.gz"
    assert len(list(read_pairs(path, skipped=skipped))) == 4332
    assert skipped.total == 0
    folder = data_folder("multi30k")
    assert len(list(read_pairs(folder / "val.en.gz", folder / "val.de.gz"))) == 1014
