"""Tests of ``regard summarize``, its texts from files and pipes, its pictures, and its errors."""

import io
import json
import sys

import pytest

from support.command_line import assert_one_line, run_here
from support.summarizers import TEXT, small_summarizer


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "small"
    small_summarizer().save(folder)
    return str(folder)


@pytest.fixture
def paper(tmp_path):
    path = tmp_path / "paper.txt"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


def summarize(model, *words, **more):
    return run_here("summarize", "--model", model, "--max-length", "6", *words, **more)


class Pipe(io.TextIOWrapper):
    """Standard input with some bytes."""

    def __init__(self, content: bytes):
        super().__init__(io.BytesIO(content), encoding="utf-8")


def test_a_file_is_one_text(model, paper):
    done = summarize(model, paper)
    assert done.returncode == 0, done.stderr
    assert done.stdout == summarize(model, TEXT).stdout
    assert len(done.stdout.splitlines()) == 1


def test_a_pipe_is_one_text(model, monkeypatch):
    expected = summarize(model, TEXT).stdout
    monkeypatch.setattr(sys, "stdin", Pipe(TEXT.encode()))
    assert summarize(model).stdout == expected
    monkeypatch.setattr(sys, "stdin", Pipe(TEXT.encode()))
    assert summarize(model, "-").stdout == expected


def test_the_lines_of_a_named_file_are_texts(model, tmp_path):
    lines = tmp_path / "texts.txt"
    lines.write_text("A corpus of songs.\n\nFew tools.\n", encoding="utf-8")
    done = summarize(model, "--file", str(lines), "--out", str(tmp_path / "out.txt"))
    assert done.returncode == 0, done.stderr
    summaries = (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()
    assert len(summaries) == 3
    assert summaries[1] == ""


def test_attention_tells_where_each_word_is_from(model, paper):
    done = summarize(model, paper, "--attention")
    assert "copied from '" in done.stdout
    assert "at character " in done.stdout
    assert "largest weights: " in done.stdout


def test_json_has_the_origins_with_attention_only(model, paper):
    plain = json.loads(summarize(model, paper, "--json").stdout)
    assert set(plain) == {"source", "summary", "score", "cut_off", "far_from_training"}
    values = json.loads(summarize(model, paper, "--json", "--attention").stdout)
    assert values["summary"] == plain["summary"]
    for origin in values["origins"]:
        assert TEXT[origin["start"] : origin["end"]] == origin["source_word"]


def test_the_attention_is_saved_as_a_page(model, paper, tmp_path):
    path = tmp_path / "attention.html"
    done = summarize(model, paper, "--save-attention", str(path))
    assert done.returncode == 0, done.stderr
    content = path.read_text(encoding="utf-8")
    assert f"<h1>{summarize(model, paper).stdout.strip()}</h1>" in content
    assert "Faroese</span>" in content
    assert "copied from &#x27;" in content


def test_the_attention_is_saved_as_a_picture(model, paper, tmp_path, fonts):
    path = tmp_path / "attention.png"
    done = summarize(model, paper, "--save-attention", str(path))
    assert done.returncode == 0, done.stderr
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_long_text_is_said_to_be_cut(paper, tmp_path):
    small_summarizer(max_tokens=5).save(tmp_path / "five")
    done = summarize(str(tmp_path / "five"), paper, "A tool.")
    assert "regard: 1 of 2 texts have more than 5 tokens: their end was not read" in done.stderr
    assert "was not read" not in summarize(str(tmp_path / "five"), "A tool.").stderr


def test_several_summaries_are_shown_with_scores(model, paper):
    lines = summarize(model, paper, "--n-best", "2").stdout.splitlines()
    assert len(lines) == 2
    assert all(float(line.split("\t")[1]) < 0 for line in lines)


@pytest.mark.parametrize("name", ["papr.txt", "notes/paper.md", "./paper"])
def test_a_file_that_does_not_exist_is_not_taken_for_a_text(model, name, tmp_path):
    assert_one_line(summarize(model, name, cwd=tmp_path), 1, f"TEXT: no file {name}")


BAD = {
    "empty": (b" \n", 1, "is empty"),
    "not UTF-8": (b"caf\xe9 society", 1, "is not UTF-8"),
    "null": (b"a\0b c", 1, "holds a null character"),
}


@pytest.mark.parametrize(("content", "code", "problem"), BAD.values(), ids=BAD)
def test_bad_files_and_pipes_are_one_line(model, tmp_path, monkeypatch, content, code, problem):
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    assert_one_line(summarize(model, str(path)), code, "TEXT: ", problem)
    monkeypatch.setattr(sys, "stdin", Pipe(content))
    assert_one_line(summarize(model), code, "TEXT: ", problem)


def test_an_argument_that_is_not_utf8_is_one_line(model):
    assert_one_line(summarize(model, "caf\udce9 society"), 2, r"not UTF-8: caf\xe9 society")


def test_wrong_calls_are_one_line(model, paper, tmp_path):
    assert_one_line(summarize(model, ""), 2, "TEXT: is empty")
    assert_one_line(summarize(model, str(tmp_path) + "/"), 1, "is a folder")
    assert_one_line(summarize(model, "a text", "--file", paper), 2, "--file: given together with texts")
    assert_one_line(summarize(model, "--file", paper, "--out", paper), 2, "is the file to summarize")
    assert_one_line(
        summarize(model, paper, "--beams", "1", "--n-best", "2"), 2, "--n-best: expected at most 1"
    )
    picture = str(tmp_path / "no" / "a.png")
    assert_one_line(summarize(model, paper, "--save-attention", picture), 1, "--save-attention")


def test_the_text_of_another_file_is_written_nowhere_on_failure(model, tmp_path):
    out = tmp_path / "out.txt"
    assert summarize(model, "papr.txt", "--out", str(out)).returncode == 1
    assert not out.exists()


def test_no_repeat_is_passed_to_the_search(model):
    words = ["--beams", "1", "--max-length", "30"]
    free, guarded = (summarize(model, TEXT, *words, "--no-repeat", size).stdout for size in ("0", "1"))
    assert free != guarded
    tokens = small_summarizer().vocabulary.encode(guarded.strip().lower())
    assert len(set(tokens)) == len(tokens)
