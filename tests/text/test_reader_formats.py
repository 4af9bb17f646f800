"""CSV, Parquet, files whose lines end in CR, fields guessed from the languages, and limits in characters."""

import gzip
import json

import pytest

from regard.errors import ArgumentError, FileError
from regard.text import LABEL_FIELDS, Skipped, read_lines, read_pairs
from regard.text import lines as text_lines

PAIRS = [("a dog", "un chien"), ("a cat", "un chat"), ("a cow", "une vache")]


def write(path, text):
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


# ---- lines that end in CR


@pytest.mark.parametrize("name", ["old.tsv", "old.tsv.gz"])
@pytest.mark.parametrize("last", ["\r", "", "\n", "\r\n"])
def test_a_file_of_an_old_mac_has_lines(tmp_path, name, last):
    """Such a file was one line, and trained a model on one pair."""
    path = write(tmp_path / name, "\r".join(f"{a}\t{b}" for a, b in PAIRS) + last)
    assert list(read_pairs(path)) == PAIRS
    assert [line.count("\t") for line in read_lines(path)] == [1, 1, 1]


def test_a_return_inside_a_line_is_no_end_where_there_are_other_ends(tmp_path):
    source = write(tmp_path / "a.en", "a\rb\nc\n")
    target = write(tmp_path / "a.fr", "x\r\ny\r\n")
    assert list(read_lines(source)) == ["a\rb", "c"]
    assert list(read_pairs(source, target)) == [("a\rb", "x"), ("c", "y")]


def test_lines_that_end_in_returns_are_read_a_chunk_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(text_lines, "LONGEST", 40)
    monkeypatch.setattr(text_lines, "_CHUNK", 7)  # cuts lines and CRLFs anywhere
    texts = ["x" * (i * 5 % 23) for i in range(60)]
    path = write(tmp_path / "cr.txt", "\r".join(texts) + "\r")
    assert list(read_lines(path)) == texts
    mixed = write(
        tmp_path / "mixed.txt", "a" * 30 + "\r" + "b" * 30 + "\r\n" * 5 + "é\r" + "c" * 99 + "\rend"
    )
    skipped = Skipped()
    assert list(read_lines(mixed, max_words=9, skipped=skipped)) == [
        "a" * 30,
        "b" * 30,
        *[""] * 4,
        "é",
        "end",
    ]
    assert skipped.too_long == 1
    write(mixed, "a\r" * 9 + "\xff")
    mixed.write_bytes(b"a\r" * 9 + b"\xff\r")
    with pytest.raises(FileError, match="line 10: byte 0xff at offset 18"):
        list(read_lines(mixed))


# ---- CSV


@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize("header", ["", "a,b", "target,source", "french,English", "fr,en_XX"])
def test_csv_files_are_read(tmp_path, separator, header):
    """A header with the languages gives their order. Without a header, the first column is the source."""
    lines = [f"{a},{b}" for a, b in PAIRS]
    swapped = [(b, a) for a, b in PAIRS]
    path = write(
        tmp_path / "a.csv", "\n".join([*([header] if header else []), *lines]).replace(",", separator)
    )
    expected = PAIRS if not header else [("a", "b"), *PAIRS] if header == "a,b" else swapped
    assert list(read_pairs(path, languages=("en", "fr"))) == expected


def test_semicolons_separate_cells_that_contain_commas(tmp_path):
    path = write(tmp_path / "a.csv", "Hello, you;Bonjour, toi\nWell, no;Eh bien, non\n")
    assert list(read_pairs(path)) == [("Hello, you", "Bonjour, toi"), ("Well, no", "Eh bien, non")]


def test_quotes_and_named_columns_of_csv_are_read(tmp_path):
    text = 'id,to,from\r\n1,"un chat, ""gris""","a cat"\r\n\r\n2,"deux\r\nlignes",two\r\n'
    path = write(tmp_path / "a.csv.gz", text)
    assert list(read_pairs(path, columns=("from", "to"))) == [
        ("a cat", 'un chat, "gris"'),
        ("two", "deux\nlignes"),
    ]
    assert list(read_pairs(path, columns=(0, 1)))[1] == ("1", 'un chat, "gris"')  # numbers take every row


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ('a,b\nc,"d\n' * 2, {}, "a.csv, line 2: not CSV up to line 4: .* is a quote not closed"),
        ("a,b\nc\n", {}, "a.csv, line 2: there is no column 1: the row has 1"),
        (
            "en,fr\nHello, you,Bonjour toi\n",
            {},
            "a.csv, line 2: the row has 3 cells, the first row has 2: put quotes",
        ),
        ("a,b\n", {"columns": ("en", "fr")}, "a.csv, line 1: there is no column 'en': its columns are a, b"),
        ("", {}, "a.csv is empty"),
    ],
)
def test_broken_csv_files_are_refused(tmp_path, text, options, message):
    with pytest.raises(FileError, match=message):
        list(read_pairs(write(tmp_path / "a.csv", text), **options))


# ---- Parquet


@pytest.fixture
def parquet(tmp_path):
    pyarrow, tables = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [{"id": n, "translation": {"fr": b, "en": a}} for n, (a, b) in enumerate(PAIRS * 1000)]
    tables.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=700)
    return tmp_path / "a.parquet"


def test_parquet_files_are_read(parquet):
    assert list(read_pairs(parquet, languages=("en", "fr"))) == PAIRS * 1000
    assert next(read_pairs(parquet, columns=("translation.fr", "translation.en"))) == ("un chien", "a dog")
    other = parquet.rename(parquet.with_suffix(".bin"))
    assert next(read_pairs(other, format="parquet", languages=("fr", "en"))) == ("un chien", "a dog")
    with pytest.raises(FileError, match="a.bin, row 1: there is no field 'en'"):
        next(read_pairs(other, format="parquet", columns=("en", "fr")))


def test_broken_parquet_files_are_refused(tmp_path):
    pytest.importorskip("pyarrow")
    with pytest.raises(FileError, match="a.parquet is not a Parquet file, or is damaged"):
        next(read_pairs(write(tmp_path / "a.parquet", "a\tb\n")))
    with pytest.raises(ArgumentError, match="parquet cannot be read from standard input"):
        read_pairs("-", format="parquet")


# ---- folders by class


def folders(root, texts):
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        write(root / name, text)
    return root


TEXTS = {
    "good/10.txt": "ten",
    "good/2.txt": "two\nlines",
    "bad/a/7": "seven",
    "bad/.x.txt": "",
    "bad/x.csv": "a,b",
}


def test_the_texts_of_a_folder_by_class_have_the_names_of_their_folders_as_labels(tmp_path):
    root, skipped = folders(tmp_path / "data", TEXTS), Skipped()
    expected = [("seven", "bad"), ("two\nlines", "good"), ("ten", "good")]
    assert list(read_pairs(root, fields=LABEL_FIELDS, skipped=skipped)) == expected
    assert skipped.columns == ["each file", "name of its folder"]
    folders(root, {"read me.txt": "about"})
    with pytest.warns(UserWarning, match=r"read me.txt is in no folder of a class"):
        assert list(read_pairs(root, fields=LABEL_FIELDS)) == expected


def test_the_folder_of_a_part_is_chosen_by_the_split(tmp_path):
    for split, text in (("train", "a"), ("test", "b"), ("val", "c")):
        folders(tmp_path / split, {"x/1.txt": text, "y/1.txt": text})
    for split, text in (("train", "a"), ("test", "b"), ("validation", "c")):
        rows = read_pairs(tmp_path, fields=LABEL_FIELDS, split=split)
        assert list(rows) == [(text, "x"), (text, "y")]
    with pytest.raises(FileError, match="has no folder other"):
        list(read_pairs(tmp_path, fields=LABEL_FIELDS, split="other"))


def test_folders_that_are_not_by_class_are_refused_in_words(tmp_path):
    root = folders(tmp_path / "data", {"good/1.txt": b"\xff", "good/2.txt": " ", "bad/3.txt": "fine"})
    with pytest.raises(
        FileError, match=r"data, file good/1.txt: line 1: byte 0xff.*\(files good/1.txt, good/2.txt\)"
    ):
        list(read_pairs(root, fields=LABEL_FIELDS))
    skipped = Skipped()
    rows = list(read_pairs(root, fields=LABEL_FIELDS, skip_bad_rows=True, skipped=skipped))
    assert (rows, skipped.bad) == ([("fine", "bad")], 2)
    with pytest.raises(
        ArgumentError, match="columns: of no use for .*data, where the labels are the names of"
    ):
        read_pairs(root, fields=LABEL_FIELDS, columns=(0, 1))
    with pytest.raises(FileError, match="one has one folder, good: expected one for each class"):
        list(read_pairs(folders(tmp_path / "one", {"good/1.txt": "x"}), fields=LABEL_FIELDS))
    with pytest.raises(ArgumentError, match="data is a folder, not a file: name a file"):
        read_pairs(root)


# ---- fields guessed


@pytest.mark.parametrize(
    "row",
    [
        {"fr": "un chat", "en": "a cat"},
        {"id": 7, "translation": {"fr": "un chat", "en": "a cat"}},
        {"EN": "a cat", "FR": "un chat", "de": "eine Katze"},
        {"en-GB": "a cat", "fr_XX": "un chat"},
        {"English": "a cat", "French": "un chat"},
        {"target": "un chat", "source": "a cat"},
        {"src": "a cat", "tgt": "un chat"},
    ],
)
def test_fields_are_those_of_the_languages(tmp_path, row):
    path = write(tmp_path / "a.jsonl", json.dumps(row) + "\n")
    assert list(read_pairs(path, languages=("en", "fr"))) == [("a cat", "un chat")]


@pytest.mark.parametrize("row", [{"first": "a", "second": "b"}, {"en-GB": "a", "en-US": "b", "fr": "c"}])
def test_fields_that_cannot_be_guessed_are_named(tmp_path, row):
    path = write(tmp_path / "a.jsonl", json.dumps(row) + "\n")
    with pytest.raises(ArgumentError, match=f"columns: not given, .*: {', '.join(row)}: name two"):
        list(read_pairs(path, languages=("en", "fr")))


# ---- limits


def test_a_text_of_few_words_may_still_be_too_long(tmp_path):
    path = write(tmp_path / "a.tsv", f"{'x' * 200_000}\ta\nb\t{'y' * 199_999}\n{'z' * 200}\tc\n")
    skipped = Skipped()
    assert list(read_pairs(path, skipped=skipped)) == [("z" * 200, "c")]
    assert str(skipped) == f"2 too long (the first: {path}, line 1)"
    assert len(list(read_pairs(path, max_words=None))) == 3
