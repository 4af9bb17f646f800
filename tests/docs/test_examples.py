"""Tests that the examples run in a process of their own in an empty folder and write their pictures."""

from __future__ import annotations

import base64
import doctest
import gzip
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from regard import tasks
from regard.images import read_image, resize_images
from support.paths import ROOT, data_folder

pytest.importorskip("matplotlib", reason="the examples draw: pip install 'regard[plot]'")

PNG = b"\x89PNG\r\n\x1a\n"


def run(name: str, folder: Path, *options: str, fails: int = 0) -> str:
    """Run an example in ``folder`` and return its output."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / name), *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == fails, done.stderr
    assert fails or not done.stderr, done.stderr
    return done.stdout + done.stderr


def pictures(folder: Path) -> list[str]:
    for path in folder.iterdir():
        assert path.read_bytes()[:8] == PNG
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", ["encoder_decoder.py", "imdb_attention.py"])
def test_the_doctests_of_the_examples_pass(name):
    names = runpy.run_path(str(ROOT / "examples" / name))
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    for value in names.values():
        if callable(value) and getattr(value, "__module__", None) == "<run_path>":
            for test in finder.find(value, globs=names):
                runner.run(test)
    assert runner.summarize(verbose=False) == doctest.TestResults(failed=0, attempted=1)


@pytest.mark.usefixtures("fonts")
def test_the_additive_attention_example_prints_shapes_and_draws(tmp_path):
    printed = run("additive_attention.py", tmp_path)
    assert "Context shape: torch.Size([2, 10])" in printed
    assert "Weights shape: torch.Size([2, 5])" in printed
    assert "Three queries at once: torch.Size([2, 3, 10]) torch.Size([2, 3, 5])" in printed
    assert "one after the other: True" in printed
    assert re.search(r"shorter sequence: \[0\.\d+, 0\.\d+, 0\.\d+, 0\.0, 0\.0\]", printed)
    assert pictures(tmp_path) == ["additive_attention.png"]


@pytest.mark.usefixtures("fonts")
def test_the_encoder_decoder_example_prints_shapes_and_draws(tmp_path):
    printed = run("encoder_decoder.py", tmp_path, "--out", "pictures")
    assert "Attention Output: (1, 3, 4)" in printed
    assert "Attention Weights: (1, 3, 5)" in printed
    assert "Source, 7 tokens: The cat sits on the mat ." in printed
    assert "Target, 8 tokens: Le chat est assis sur le tapis ." in printed
    assert "Weights: (1, 8, 7)" in printed
    assert "untrained" in printed
    rows = re.findall(r"^ +(\S+)((?: +\d\.\d\d){7})$", printed, flags=re.MULTILINE)
    assert [word for word, _ in rows] == ["Le", "chat", "est", "assis", "sur", "le", "tapis", "."]
    for _, numbers in rows:
        assert sum(map(float, numbers.split())) == pytest.approx(1, abs=0.04)
    assert pictures(tmp_path / "pictures") == ["alignment.png"]


def test_the_classifier_example_runs(tmp_path):
    printed = run("classifier.py", tmp_path)
    (accuracy,) = re.findall(r"accuracy on 1000 other sentences: (\d\.\d+)", printed)
    assert float(accuracy) > 0.9
    assert re.search(r": 0\.\d\d of the attention is on '\w+'", printed)
    assert pictures(tmp_path) == []


IMDB_PICTURES = ["attention_heatmap.png", "attention_heatmap_unmasked.png"]


@pytest.mark.usefixtures("fonts")
def test_the_imdb_example_runs_on_its_sample(tmp_path):
    printed = run("imdb_attention.py", tmp_path, "--data", "sample")
    assert "48 reviews (not 1000, and not IMDb)" in printed
    assert "Dataset size: 48" in printed
    assert "Sample text: A small film with a big heart" in printed
    assert "Output shape: torch.Size([48, 20, 64])" in printed
    assert "Attention weights shape: torch.Size([48, 20, 20])" in printed
    assert "Attention heatmap saved as 'attention_heatmap.png'" in printed
    pads, unmasked, masked = re.search(
        r"has (\d+) <pad>. They take (\S+)% .* (\S+)% masked", printed
    ).groups()
    assert int(pads) > 0
    assert float(unmasked) > 0
    assert float(masked) == 0
    assert pictures(tmp_path) == IMDB_PICTURES
    assert (tmp_path / IMDB_PICTURES[0]).read_bytes() != (tmp_path / IMDB_PICTURES[1]).read_bytes()


def test_the_sample_has_48_different_reviews():
    lines = (ROOT / "examples" / "imdb_sample.tsv").read_text(encoding="utf-8").splitlines()
    texts = [line.split("\t")[3] for line in lines]
    assert len(set(texts)) == len(texts) == 48


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize("zipped", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_imdb_example_runs_on_a_file_of_the_user(tmp_path, zipped):
    """Write two reviews more than the example reads, of which the first has no padding."""
    line = "1\t9\ttrain/pos/{0}\t" + "Fine<br /><br />film " * 12 + "{0}\n"
    text = "".join(line.format(n) for n in range(1002))
    data = tmp_path / "data"
    data.mkdir()
    if zipped:
        (data / "train.tsv.gz").write_bytes(gzip.compress(text.encode()))
    else:
        (data / "train.tsv").write_text(text, encoding="utf-8")
    printed = run("imdb_attention.py", tmp_path, "--data", "data", "--out", "out", "--review", "3")
    assert "Dataset size: 1000" in printed
    assert "Output shape: torch.Size([1000, 20, 64])" in printed
    assert "<br" not in printed
    assert "Review 3 has no <pad>, so both pictures are the same" in printed
    assert pictures(tmp_path / "out") == IMDB_PICTURES


@pytest.mark.slow
@pytest.mark.usefixtures("fonts")
def test_the_imdb_example_runs_on_the_reviews_of_imdb(tmp_path):
    printed = run("imdb_attention.py", tmp_path, "--data", str(data_folder("imdb")))
    assert "Dataset size: 1000" in printed
    assert "Attention weights shape: torch.Size([1000, 20, 20])" in printed
    assert pictures(tmp_path) == IMDB_PICTURES


FAKE_DATASETS = """
class Rows(list):
    pass

def load_dataset(name, split):
    assert (name, split) == ("imdb", "train[:1000]")
    return Rows({"text": f"Fine film<br />number {n}", "label": 1} for n in range(40))
"""


@pytest.mark.slow
@pytest.mark.usefixtures("fonts")
def test_the_imdb_example_runs_through_hugging_face(tmp_path, monkeypatch):
    """The package `datasets` is replaced by a module with the two functions that the example calls."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "datasets.py").write_text(FAKE_DATASETS, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "library"), prepend=os.pathsep)
    printed = run("imdb_attention.py", tmp_path, "--data", "huggingface", "--out", "out")
    assert "IMDb through Hugging Face, 40 reviews" in printed
    assert "Sample text: Fine film number 0" in printed


@pytest.mark.slow
@pytest.mark.usefixtures("fonts")
def test_imdb_offline_says_what_it_uses_instead(tmp_path, monkeypatch):
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "datasets.py").write_text("raise OSError('no network here')", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "library"), prepend=os.pathsep)
    printed = run("imdb_attention.py", tmp_path, "--out", "out")
    assert "IMDb is not available (no network here); using the sample instead." in printed
    assert "Dataset size: 48" in printed
    assert "no network here" in run("imdb_attention.py", tmp_path, "--data", "huggingface", fails=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--data", "nowhere"], "'nowhere' is neither a file nor a folder"),
        (["--data", "sample", "--review", "48"], "there are 48 reviews"),
        (["--data", "."], "neither train.tsv nor train.tsv.gz"),
    ],
)
def test_imdb_with_wrong_options_says_so(tmp_path, options, words):
    assert words in run("imdb_attention.py", tmp_path, *options, fails=2)


def test_the_vision_language_example_writes_a_page_and_a_picture(tmp_path):
    pytest.importorskip("transformers", reason="needs pip install 'regard[hf]'")
    assert "4 words: click them in looks.html" in run("vision_language_model.py", tmp_path)
    page = (tmp_path / "looks.html").read_text(encoding="utf-8")
    assert "word7" in page
    shown = read_image(
        base64.b64decode(re.findall(r"iVBORw0KGgo[\w+/=]+", page)[0])
    )  # the picture of the page
    scene = read_image(tasks.find_model("caption") / "examples" / "scene-2.png", channels=3)
    np.testing.assert_array_equal(shown, resize_images(scene, (56, 56)))
    assert (tmp_path / "words.png").read_bytes()[:8] == PNG


def test_the_canvas_example_moves_drawn_digits_to_places_that_the_seed_decides(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="Pillow reads pictures: pip install '.[images]'")
    digits = sorted((ROOT / "src" / "regard" / "weights" / "mnist" / "examples").glob("*.png"))
    for folder, seed in (("a", "0"), ("b", "0"), ("c", "1")):
        run("pictures_on_canvases.py", tmp_path, *map(str, digits), "--out", folder, "--seed", seed)
    assert pictures(tmp_path / "a") == [f"{digit}.png" for digit in range(10)]
    for path in digits:
        written = [(tmp_path / folder / path.name).read_bytes() for folder in "abc"]
        assert written[0] == written[1] != written[2]
        with image.open(path) as small, image.open(tmp_path / "a" / path.name) as large:
            assert large.size == (60, 60)
            assert large.crop(large.getbbox()).tobytes() == small.crop(small.getbbox()).tobytes()
    assert "expected pictures of one size" in run(
        "pictures_on_canvases.py", tmp_path, str(digits[0]), "a/0.png", "--out", "d", fails=2
    )
    assert not (tmp_path / "d").exists()
