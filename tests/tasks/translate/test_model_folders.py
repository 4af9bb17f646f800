"""Tests of folders of translators, with wrong settings, duplicate names, runs and packing."""

import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from regard.corpus import generate
from regard.errors import ArgumentError, FileError
from regard.models import Transformer, TransformerConfig
from regard.tasks import pack
from regard.tasks.registry import SHIPPED
from regard.tasks.sampling import sample
from regard.tasks.translate import Translator, align, find_translator, installed_models
from regard.text import train_vocabulary
from support.command_line import assert_one_line, run_here


@pytest.fixture(scope="module")
def translator():
    texts = [text for triple in generate(300) for text in (triple.english.text, triple.french.text)]
    vocabulary = train_vocabulary("bpe", texts, 400)
    torch.manual_seed(0)
    sizes = {"source_size": len(vocabulary), "target_size": len(vocabulary), "width": 16}
    model = Transformer(TransformerConfig(**sizes, heads=2, feed_forward=32, decoder_layers=3))
    return Translator(model.eval(), vocabulary, vocabulary, source_language="en", target_language="fr")


@pytest.fixture
def folder(translator, tmp_path):
    translator.save(tmp_path / "mine")
    return tmp_path / "mine"


def change(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **values}), encoding="utf-8")


# ---- settings


WRONG = [
    ({"max_tokens": "abc"}, "max_tokens: expected a whole number of 1 or more, got 'abc'"),
    ({"max_tokens": 0}, "max_tokens: expected a whole number of 1 or more, got 0"),
    ({"max_tokens": None}, "max_tokens: expected a whole number of 1 or more, got None"),
    ({"max_tokens": 1.5}, "max_tokens: expected a whole number of 1 or more, got 1.5"),
    ({"max_tokens": True}, "max_tokens: expected a whole number of 1 or more, got True"),
    ({"alignment": {"layer": 99}}, "alignment.layer: expected a number below 3, got 99"),
    ({"alignment": {"layer": -1}}, "alignment.layer: expected a whole number of 0 or more, got -1"),
    ({"alignment": {"layer": "1"}}, "alignment.layer: expected a whole number of 0 or more, got '1'"),
    ({"alignment": {"layer": 1, "head": 2}}, "alignment.head: expected a number below 2, got 2"),
    ({"alignment": {"layer": 1, "after": "no"}}, "alignment.after: expected true or false, got 'no'"),
    ({"alignment": {"layer": 1, "more": 1}}, "alignment: expected layer, head and after, got {"),
    ({"alignment": {}}, "alignment: expected layer, head and after, got {}"),
    ({"alignment": "last"}, "alignment: expected layer, head and after, got 'last'"),
    ({"source_language": 7}, "source_language: expected the name of a language, got 7"),
    ({"target_language": ["fr"]}, "target_language: expected the name of a language, got ['fr']"),
]


@pytest.mark.parametrize(("values", "message"), WRONG)
def test_every_setting_is_checked_when_a_translator_is_loaded(folder, values, message):
    change(folder, **values)
    with pytest.raises(FileError) as raised:
        Translator.load(folder)
    assert f"{folder / 'config.json'}: {message}" in str(raised.value)


def test_settings_that_are_right_are_kept(folder):
    change(folder, max_tokens=31, alignment={"layer": 2, "head": 1, "after": True})
    loaded = Translator.load(folder)
    assert loaded.longest == 31
    assert align(loaded, loaded.translate(["A dog."])[0]).source_words == ["A", "dog", "."]


def test_a_vocabulary_of_another_model_is_refused(folder, translator):
    train_vocabulary("bpe", ["a dog", "a cat"], 300).save(folder / "tokenizer.json")
    with pytest.raises(FileError, match="source_size is 400, but the vocabulary beside it has 2.. tokens"):
        Translator.load(folder)


def test_a_missing_vocabulary_is_named(folder):
    (folder / "tokenizer.json").unlink()
    with pytest.raises(FileError, match="tokenizer.json: no such file"):
        Translator.load(folder)
    train_vocabulary("bpe", ["a dog", "a cat"], 300).save(folder / "source.json")
    with pytest.raises(FileError, match="target.json: no such file"):
        Translator.load(folder)


def test_settings_of_a_huge_model_are_a_one_line_error(folder):
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    change(folder, model={**settings["model"], "encoder_layers": 1_000_000_000})
    result = run_here("translate", "--model", str(folder), "A dog.")
    assert_one_line(result, 1, "config.json", "encoder_layers is 1000000000, but the file of weights has 3")


# ---- names


@pytest.fixture
def models(folder, monkeypatch):
    monkeypatch.setenv("REGARD_MODELS", str(folder.parent))
    return folder.parent


def test_a_model_named_like_a_shipped_one_is_used_and_said(models, folder):
    folder.rename(models / "en-fr")
    (one,) = [one for one in installed_models() if one.name == "en-fr"]
    assert (one.folder, one.instead_of) == (models / "en-fr", (SHIPPED / "en-fr",))
    told = f"model: en-fr is the one in {models / 'en-fr'}, not the shipped one"
    for asked in ({"model": "en-fr"}, {"target": "fr"}):
        with pytest.warns(UserWarning, match=told):
            assert find_translator(**asked) == models / "en-fr"
    listed = run_here("models", REGARD_MODELS=str(models)).stdout
    assert f"in {models / 'en-fr'}, not the shipped one" in " ".join(listed.split())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert find_translator("en-zh") == SHIPPED / "en-zh"


def test_of_two_folders_the_one_named_first_is_used(folder, tmp_path, monkeypatch):
    shutil.copytree(folder, tmp_path / "other" / "mine")
    monkeypatch.setenv("REGARD_MODELS", os.pathsep.join([str(tmp_path / "other"), str(tmp_path)]))
    with pytest.warns(UserWarning, match="model: mine is the one in .*other/mine, not .*/mine"):
        assert find_translator("mine") == tmp_path / "other" / "mine"


def test_a_folder_that_is_named_twice_hides_nothing(models, folder, monkeypatch):
    monkeypatch.setenv("REGARD_MODELS", os.pathsep.join([str(models), f"{models}/."]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert find_translator("mine") == folder


def test_runs_are_listed_by_the_name_of_their_folder(models, folder):
    (models / "run").mkdir()
    folder.rename(models / "run" / "best")
    assert [one.name for one in installed_models()] == ["en-fr", "en-zh", "run"]
    assert find_translator("run") == models / "run" / "best"


def test_a_folder_that_is_missing_is_told(folder, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    monkeypatch.setenv("REGARD_MODELS", os.pathsep.join([str(gone), str(tmp_path)]))
    with pytest.warns(UserWarning, match=f"REGARD_MODELS: {gone}: no such folder"):
        assert "mine" in [one.name for one in installed_models()]
    words = [sys.executable, "-c", "from regard.cli import main; main(['models'])"]
    environment = {**os.environ, "REGARD_MODELS": str(gone)}
    result = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0
    assert f"{gone}: no such folder" in result.stderr
    monkeypatch.setenv("REGARD_MODELS", str(folder / "config.json"))
    with pytest.warns(UserWarning, match="config.json: not a folder"):
        installed_models()


@pytest.mark.parametrize(
    "values", [{"source_language": 1}, {"task": None}, {"model": "x"}, {"model": {"kind": []}}]
)
def test_a_model_whose_settings_are_of_a_wrong_kind_is_not_listed(models, folder, values):
    change(folder, **values)
    assert "mine" not in [one.name for one in installed_models()]


# ---- packing


def test_packing_over_a_model_has_to_be_asked_for(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.tasks.translate.task.CHOOSING", 5)
    (tmp_path / "run").mkdir()
    best = folder.rename(tmp_path / "run" / "best")
    before = {path: path.read_bytes() for path in best.iterdir()}
    with pytest.raises(
        ArgumentError, match="out: .*best holds a model already: choose another folder, or say"
    ):
        pack(tmp_path / "run", best, sentences=[])
    assert {path: path.read_bytes() for path in best.iterdir()} == before
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "README.md").write_text("mine", encoding="utf-8")
    result = run_here("pack", "run", "--out", "full", cwd=tmp_path)
    assert_one_line(result, 2, "--out: full holds README.md already", "--overwrite")
    assert (tmp_path / "full" / "README.md").read_text(encoding="utf-8") == "mine"
    (tmp_path / "empty").mkdir()
    pack(tmp_path / "run", tmp_path / "empty", sentences=[])
    pack(tmp_path / "run", best, sentences=[], overwrite=True)
    assert (best / "model.safetensors").stat().st_size < len(before[best / "model.safetensors"])


# ---- samples


def test_a_sample_takes_all_of_a_key_and_from_everywhere():
    pairs = [(str(i // 2), i) for i in range(2000)]
    found = sample(pairs, 50, seed=3, key=lambda pair: pair[0])
    assert len(found) == 100
    assert found == sorted(found, key=lambda pair: pair[1])
    assert {key for key, _ in found} == {key for key, number in found if number % 2}
    places = [number for _, number in found]
    assert min(places) < 200
    assert max(places) > 1800
    backwards = sample(reversed(pairs), 50, seed=3, key=lambda pair: pair[0])
    assert set(backwards) == set(found)  # the order of the file does not matter
    assert set(sample(pairs, 50, seed=4, key=lambda pair: pair[0])) != set(found)
    assert sample(pairs, 0, seed=3) == pairs
    assert sample(pairs, 9999, seed=3) == pairs


def test_evaluation_measures_a_sample_by_seed(folder, tmp_path):
    texts = [triple.english.text for triple in generate(40, seed=3)]
    lines = [f"{text}\t{'same' if i < 20 else 'other'}" for i, text in enumerate(texts)]
    (tmp_path / "sorted.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = ["evaluate", "translate", "--model", "mine", "--data", "sorted.tsv", "--beams", "1", "--json"]

    def lengths(*more):
        found = run_here(*words, "--limit", "12", *more, cwd=tmp_path)
        assert found.returncode == 0, found.stderr
        values = json.loads(found.stdout)
        assert values["sentences"] == 12
        return [(row["words"], row["sentences"]) for row in values["bleu_by_length"]], values["chrf"]["score"]

    assert lengths() == lengths("--seed", "0")
    assert lengths() != lengths("--seed", "1")
    assert_one_line(run_here(*words, "--seed", "1", cwd=tmp_path), 2, "--seed: of no use without a sample")
    refused = run_here(*words, "--limit", "3", "--out", "x.txt", cwd=tmp_path)
    assert_one_line(refused, 2, "--out: its lines would be those of a sample")
    assert not Path(tmp_path / "x.txt").exists()


# ---- options without a value


@pytest.mark.parametrize(
    "words",
    [
        ["train", "translate", "--out", ""],
        ["train", "translate", "--out="],
        ["train", "translate", "--data", ""],
        ["translate", "hello", "--out", ""],
        ["translate", "hello", "--save-attention", ""],
        ["evaluate", "translate", "--save-lengths="],
        ["pack", "run", "--out", ""],
        ["look", "hello", "--out", ""],
    ],
)
def test_an_empty_value_is_refused(tmp_path, words):
    flag = words[-2] if words[-1] == "" else words[-1].removesuffix("=")
    assert_one_line(run_here(*words, cwd=tmp_path), 2, f"{flag}: expected a value, got an empty text")
    assert os.listdir(tmp_path) == []
