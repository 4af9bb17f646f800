"""`regard look` with models of Hugging Face that write, and which models it finds by itself."""

import json
import types

import pytest
import torch

from regard.cli.main import main
from regard.errors import ArgumentError
from regard.tasks import hf_reader

transformers = pytest.importorskip("transformers", reason="needs  pip install 'regard[hf]'")

WORDS = ["<pad>", "</s>", "<unk>", "the", "cat", "sat"]
SIZES = {
    "t5": {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2, "decoder_start_token_id": 0},
    "marian": {
        "d_model": 8,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 8,
        "decoder_ffn_dim": 8,
        "decoder_start_token_id": 0,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "forced_eos_token_id": 1,
        "num_beams": 3,
    },
}


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **special)


@pytest.mark.parametrize("kind", SIZES)
def test_look_records_the_generated_text(kind, tmp_path):
    transformers.logging.set_verbosity_error()
    config = transformers.AutoConfig.for_model(kind, vocab_size=len(WORDS), **SIZES[kind])
    torch.manual_seed(0)
    transformers.AutoModelForSeq2SeqLM.from_config(config).save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    records = hf_reader.recorded_by_hugging_face("the cat sat", tmp_path)
    assert {record.kind for record in records} == {"self", "causal", "cross"}
    assert all(record.dropped is None for record in records)
    cross = next(record for record in records if record.kind == "cross")
    assert cross.key_tokens == [["the", "cat", "sat"]]


def folder(cache, name, **settings):
    place = cache / f"models--x--{name}" / "snapshots" / "1"
    place.mkdir(parents=True)
    (place / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    for file in ("model.safetensors", "tokenizer.json"):
        (place / file).touch()
    return place


def test_only_models_that_read_text_are_found(tmp_path, monkeypatch):
    cache, package = tmp_path / "hub", tmp_path / "package"
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    bert = folder(cache, "bert", model_type="bert", vocab_size=7)
    folder(cache, "clip", model_type="clip", vocab_size=7, vision_config={})
    folder(cache, "whisper", model_type="whisper", vocab_size=7, num_mel_bins=80)
    folder(cache, "vit", model_type="vit")
    (package / "model").mkdir(parents=True)
    (package / "model" / "config.json").touch()
    found = types.SimpleNamespace(submodule_search_locations=[str(package)])
    for spec, expected in ((found, [bert, package / "model"]), (None, [bert])):
        monkeypatch.setattr("importlib.util.find_spec", lambda name, spec=spec: spec)
        assert hf_reader.cached_models() == expected


# ---- texts that are longer than the model reads

READERS = {
    "bert": {"max_position_embeddings": 16},
    "roberta": {"max_position_embeddings": 17, "pad_token_id": 0},  # counts from the number after padding
    "gpt2": {"n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 2, "bos_token_id": 1, "eos_token_id": 1},
}


def reader(kind, place):
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    sizes = READERS[kind] | ({} if kind == "gpt2" else sizes)
    config = transformers.AutoConfig.for_model(kind, vocab_size=len(WORDS), **sizes)
    transformers.AutoModel.from_config(config).save_pretrained(place)
    tokenizer().save_pretrained(place)
    return place


@pytest.mark.parametrize("kind", READERS)
def test_a_text_longer_than_the_model_reads_is_refused(kind, tmp_path):
    place = reader(kind, tmp_path)
    assert hf_reader.recorded_by_hugging_face("cat " * 16, place)[0].map.shape[2:] == (16, 16)
    with pytest.raises(
        ArgumentError, match="^text: the text has 17 tokens, the model reads 16: give a shorter one"
    ):
        hf_reader.recorded_by_hugging_face("cat " * 17, place)


def test_the_command_names_the_text_that_is_too_long(tmp_path, capsys):
    place = reader("bert", tmp_path)
    with pytest.raises(SystemExit) as left:
        main(["look", "cat " * 20, "--model", str(place), "--no-open"])
    assert left.value.code == 2
    assert "regard: TEXT: the text has 20 tokens, the model reads 16" in capsys.readouterr().err


def test_a_translation_ends_at_the_last_position_of_the_model(tmp_path):
    sizes = SIZES["marian"] | {
        "max_position_embeddings": 12,
        "forced_eos_token_id": None,
        "bos_token_id": None,
    }
    config = transformers.AutoConfig.for_model("bart", vocab_size=len(WORDS), **sizes)
    torch.manual_seed(0)
    transformers.AutoModelForSeq2SeqLM.from_config(config).save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    records = hf_reader.recorded_by_hugging_face("the cat sat", tmp_path)
    assert max(record.map.shape[2] for record in records) == 11  # the last generated token is not read
