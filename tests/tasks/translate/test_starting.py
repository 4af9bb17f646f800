"""Training that starts from a trained translator."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from regard.errors import RegardError
from regard.tasks import resume, train
from regard.tasks.translate import TranslationSettings, Translator
from regard.tasks.translate.starting import starting_model

SMALL = {"embedded": 60, "vocabulary_size": 300, "width": 16, "heads": 2, "feed_forward": 16, "steps": 1}
SMALL |= {"validate_sentences": 2}
FURTHER = {"embedded": 50, "embedded_seed": 3, "steps": 1, "validate_sentences": 2}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("start") / "run"
    train("translate", SMALL, folder, show=False)
    return folder


def test_the_weights_and_the_vocabulary_are_those_of_the_start(run: Path, tmp_path: Path):
    model = starting_model(TranslationSettings(start=str(run), dropout=0.3))
    before = Translator.load(run)
    assert model.training
    assert model.config.dropout == 0.3
    for name, values in before.model.state_dict().items():
        assert torch.equal(model.state_dict()[name], values), name

    # A learning rate near 0 leaves the weights of the start as they are.
    train(
        "translate", FURTHER | {"start": str(run), "learning_rate": 1e-12}, tmp_path / "further", show=False
    )
    after = Translator.load(tmp_path / "further")
    assert (tmp_path / "further/tokenizer.json").read_bytes() == (run / "tokenizer.json").read_bytes()
    for name, values in before.model.state_dict().items():
        assert torch.allclose(after.model.state_dict()[name], values, atol=1e-9), name


def test_a_run_with_a_start_goes_on_exactly(run: Path, tmp_path: Path):
    settings = FURTHER | {"start": str(run), "steps": 4, "save_every": 2}
    train("translate", settings, tmp_path, show=False)
    last = tmp_path / "checkpoints/step-00000004"
    before = load_file(last / "model.safetensors")
    shutil.rmtree(last)

    assert resume(tmp_path, show=False).first_step == 2
    after = load_file(last / "model.safetensors")
    assert after.keys() == before.keys()
    for name, values in before.items():
        assert torch.equal(after[name], values), name


def test_a_shipped_model_is_named_by_its_name(tmp_path: Path):
    train("translate", FURTHER | {"start": "en-fr"}, tmp_path / "run", show=False)
    assert json.loads((tmp_path / "run/settings.json").read_text())["start"] == "en-fr"
    assert len(Translator.load(tmp_path / "run").source) == len(Translator.load("en-fr").source)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 32}, r"width: of no use with start=.*, which has its own: leave it out"),
        ({"target_language": "zh"}, r"target_language: .* translates en to fr, not en to zh"),
        ({"shared_vocabulary": False}, r"shared_vocabulary: .* has one vocabulary"),
        ({"start": "nothing"}, r"start: nothing is neither a folder with a model nor a name"),
        ({"start": "sentiment-en"}, r"start: .* is a model for classify, not for translate"),
    ],
)
def test_settings_that_do_not_fit_the_start_are_refused(
    settings: dict[str, Any], message: str, run: Path, tmp_path: Path
):
    with pytest.raises(RegardError, match=message):
        train("translate", FURTHER | {"start": str(run)} | settings, tmp_path / "new", show=False)
    assert not (tmp_path / "new").exists()
