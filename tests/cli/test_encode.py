"""``regard encode`` and ``regard similar``."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from support.command_line import assert_one_line, run_here
from support.pretrained_folders import write_encoder

pytest.importorskip("tokenizers", reason="the extra text is not installed")

LINES = ["a lazy dog", "The quick fox.", "", "unaffordable café"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("model")
    write_encoder(place)
    (place.parent / "lines.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return place


def test_vectors_are_lines_of_json_or_one_array(folder, tmp_path):
    lines = str(folder.parent / "lines.txt")
    result = run_here("encode", "--file", lines, "--model", str(folder))
    assert result.returncode == 0, result.stderr
    values = [json.loads(line) for line in result.stdout.splitlines()]
    assert [value["source"] for value in values] == LINES
    vectors = np.array([value["vector"] for value in values], dtype=np.float32)
    for name in ("v.npy", "v.safetensors", "v.jsonl"):
        result = run_here("encode", "--file", lines, "--model", str(folder), "--out", str(tmp_path / name))
        assert result.returncode == 0, result.stderr
    assert np.load(tmp_path / "v.npy").dtype == np.float32
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), vectors, atol=1e-6)
    np.testing.assert_allclose(load_file(tmp_path / "v.safetensors")["vectors"], vectors, atol=1e-6)
    assert len((tmp_path / "v.jsonl").read_text().splitlines()) == 4


def test_a_long_text_is_cut_with_a_word(folder):
    result = run_here("encode", "dog " * 50, "fox", "--model", str(folder))
    assert "1 of 2 texts have more than 32 tokens: only their beginning was read" in result.stderr
    assert [json.loads(line)["cut_off"] for line in result.stdout.splitlines()] == [True, False]


def test_attention_is_drawn_and_saved(folder, tmp_path):
    picture = tmp_path / "a.html"
    words = ["encode", "a lazy dog", "--model", str(folder), "--attention", "--save-attention", str(picture)]
    result = run_here(*words)
    assert result.returncode == 0, result.stderr
    assert "lazy" in result.stdout.splitlines()[1]
    assert "lazy" in picture.read_text(encoding="utf-8")
    array = str(tmp_path / "v.npy")
    assert_one_line(run_here(*words[:4], "--attention", "--out", array), 2, "--attention: of no use with")


def test_a_file_without_its_flag_is_explained(folder):
    result = run_here("similar", "a dog", "my lines.txt", "--model", str(folder))
    assert_one_line(result, 2, "extra argument", ": to read a file, say --file 'my lines.txt'")
    assert "--file" not in run_here("doctor", "x.txt").stderr


def test_similar_lines_come_with_their_cosine(folder):
    result = run_here(
        "similar", "a lazy dog", "--file", str(folder.parent / "lines.txt"), "--model", str(folder)
    )
    assert result.returncode == 0, result.stderr
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert rows[0] == ["1.000", "a lazy dog"]
    assert len(rows) == 3
    scores = [float(score) for score, _ in rows]
    assert scores == sorted(scores, reverse=True)
    words = ["similar", "dog", "--file", str(folder.parent / "lines.txt"), "--model", str(folder)]
    result = run_here(*words, "--top", "1", "--json")
    assert set(json.loads(result.stdout)) == {"line", "similarity", "text"}


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["encode", "--file", "no-such.txt"], 1, "no-such.txt"),
        (["similar", " ", "--file", "lines.txt"], 2, "there is nothing to look for"),
        (["similar", "dog", "--file", "empty.txt"], 2, "--file: there is no line to search"),
        (["encode", "dog", "--model", "no-such"], 1, "no-such is neither a folder with a model nor a name"),
        (["encode", "dog", "--out", "no/such/folder/x.npy"], 1, "--out"),
    ],
)
def test_wrong_calls_are_one_line(folder, words, code, text):
    (folder.parent / "empty.txt").write_text("\n\n")
    words = words if "--model" in words else [*words, "--model", str(folder)]
    assert_one_line(run_here(*words, cwd=folder.parent), code, text)
