"""Hugging Face folders loaded into Regard's models, compared with Transformers."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.errors import ArgumentError, FileError
from regard.models import (
    Encoder,
    HuggingFaceFolder,
    MaskedLanguageModel,
    SpanReader,
    TextClassifier,
    load_huggingface,
    load_model,
)

transformers = pytest.importorskip("transformers", reason="the peers are in the extra hf")

V, B, N = 37, 3, 11  # vocabulary, batch, tokens
LENGTHS = torch.tensor([11, 7, 2])
BERT = {
    "vocab_size": V,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 13,
    "max_position_embeddings": 19,
    "initializer_range": 0.3,
}
DISTILBERT = {
    "vocab_size": V,
    "dim": 24,
    "n_layers": 2,
    "n_heads": 4,
    "hidden_dim": 13,
    "max_position_embeddings": 19,
    "initializer_range": 0.3,
}
CONFIGS: dict[str, Any] = {
    "Bert": lambda **more: transformers.BertConfig(**{**BERT, **more}),
    "Roberta": lambda **more: transformers.RobertaConfig(**{**BERT, "type_vocab_size": 1, **more}),
    "XLMRoberta": lambda **more: transformers.XLMRobertaConfig(**{**BERT, "type_vocab_size": 1, **more}),
    "Camembert": lambda **more: transformers.CamembertConfig(**{**BERT, "type_vocab_size": 1, **more}),
    "DistilBert": lambda **more: transformers.DistilBertConfig(**{**DISTILBERT, **more}),
}


def saved(family: str, kind: str, folder: Any, **settings: Any) -> Any:
    """Save a model with random weights, also in its biases and norms, and return it."""
    torch.manual_seed(3)
    model = getattr(transformers, family + kind)(CONFIGS[family](**settings)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return model


def texts(family: str, *, left: bool = False) -> tuple[dict[str, Any], torch.Tensor, torch.Tensor | None]:
    """Return the inputs of the peer, padded on one side, and the tokens and types of ours, padded on the right."""
    torch.manual_seed(5)
    tokens = torch.randint(5, V, (B, N))
    types = torch.randint(2, (B, N)) if family == "Bert" else None
    real = torch.arange(N) < LENGTHS[:, None]
    padding = 0 if family in ("Bert", "DistilBert") else 1
    tokens = tokens.masked_fill(~real, padding)
    order = torch.stack([_moved(int(length), left) for length in LENGTHS])  # (b,n)
    inputs = {"input_ids": tokens.gather(1, order), "attention_mask": real.long().gather(1, order)}
    if types is not None:
        inputs["token_type_ids"] = types.gather(1, order)
    if left and family == "Bert":
        # BERT counts positions from the first column, unless it is told otherwise.
        inputs["position_ids"] = torch.arange(N).expand(B, N).gather(1, order)
    return inputs, tokens, types


def _moved(length: int, left: bool) -> torch.Tensor:
    """Return where the columns of a padded row come from."""
    return torch.arange(N).roll(N - length) if left else torch.arange(N)


def at_real_tokens(states: torch.Tensor, *, left: bool = False) -> torch.Tensor:
    rows = [row[N - n :] if left else row[:n] for row, n in zip(states, LENGTHS.tolist(), strict=True)]
    return torch.cat(rows)


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("family", CONFIGS)
@torch.no_grad()
def test_states_are_those_of_hugging_face(family, left, tmp_path):
    if left and family == "DistilBert":
        pytest.skip("DistilBERT counts positions from the first column and takes no others")
    theirs = saved(family, "Model", tmp_path)
    inputs, tokens, types = texts(family, left=left)
    ours = load_huggingface(tmp_path)
    expected = theirs(**inputs).last_hidden_state
    close(at_real_tokens(ours(tokens, LENGTHS, types=types)), at_real_tokens(expected, left=left))


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
@pytest.mark.parametrize("family", ["Bert", "Roberta", "DistilBert"])
@torch.no_grad()
def test_masked_language_models_give_the_logits_of_hugging_face(family, activation, tmp_path):
    name = "activation" if family == "DistilBert" else "hidden_act"
    theirs = saved(family, "ForMaskedLM", tmp_path, **{name: activation})
    inputs, tokens, types = texts(family)
    ours = load_huggingface(tmp_path, MaskedLanguageModel)
    close(at_real_tokens(ours(tokens, LENGTHS, types=types)), at_real_tokens(theirs(**inputs).logits))
    assert ours.output.weight is ours.encoder.embedding.tokens.weight


@pytest.mark.parametrize("family", ["Bert", "Roberta", "DistilBert"])
@torch.no_grad()
def test_classifiers_give_the_logits_of_hugging_face(family, tmp_path):
    names = {0: "bad", 1: "good", 2: "so so"}
    theirs = saved(family, "ForSequenceClassification", tmp_path, id2label=names, num_labels=3)
    inputs, tokens, types = texts(family)
    ours = load_huggingface(tmp_path, TextClassifier)
    close(ours(tokens, LENGTHS, types=types), theirs(**inputs).logits)
    assert HuggingFaceFolder(tmp_path).labels == list(names.values())


@pytest.mark.parametrize("family", ["Bert", "Roberta", "DistilBert"])
@torch.no_grad()
def test_span_readers_give_the_logits_of_hugging_face(family, tmp_path):
    theirs = saved(family, "ForQuestionAnswering", tmp_path)
    inputs, tokens, types = texts(family)
    start, end = load_huggingface(tmp_path, SpanReader)(tokens, LENGTHS, types=types)
    expected = theirs(**inputs)
    close(at_real_tokens(start), at_real_tokens(expected.start_logits))
    close(at_real_tokens(end), at_real_tokens(expected.end_logits))
    assert bool((start[2, 2:] == -torch.inf).all())


@torch.no_grad()
def test_an_output_table_that_is_not_tied_is_loaded(tmp_path):
    theirs = saved("Roberta", "ForMaskedLM", tmp_path, tie_word_embeddings=False)
    inputs, tokens, _ = texts("Roberta")
    ours = load_huggingface(tmp_path, MaskedLanguageModel)
    close(at_real_tokens(ours(tokens, LENGTHS)), at_real_tokens(theirs(**inputs).logits))
    assert ours.output.weight is not ours.encoder.embedding.tokens.weight


@torch.no_grad()
def test_shards_float16_and_old_names_load_the_same(tmp_path):
    theirs = saved("Bert", "Model", tmp_path / "one")
    expected = load_huggingface(tmp_path / "one").state_dict()
    theirs.save_pretrained(tmp_path / "many", max_shard_size="3KB")
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 2
    tensors = load_file(tmp_path / "one" / "model.safetensors")
    old = {name.replace("LayerNorm.weight", "LayerNorm.gamma"): x for name, x in tensors.items()}
    old = {name.replace("LayerNorm.bias", "LayerNorm.beta"): x for name, x in old.items()}
    for name, kept in (("old", old), ("half", {name: x.half() for name, x in tensors.items()})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_bytes((tmp_path / "one" / "config.json").read_bytes())
        save_file(kept, tmp_path / name / "model.safetensors")
    for name, tolerance in (("many", 0.0), ("old", 0.0), ("half", 2e-3)):
        found = load_huggingface(tmp_path / name).state_dict()
        for key, tensor in expected.items():
            torch.testing.assert_close(found[key], tensor, rtol=tolerance, atol=tolerance)


@torch.no_grad()
def test_a_loaded_folder_is_saved_as_a_model_of_regard(tmp_path):
    saved("Bert", "ForMaskedLM", tmp_path / "theirs")
    ours = load_huggingface(tmp_path / "theirs", MaskedLanguageModel)
    ours.save_pretrained(tmp_path / "ours")
    _, tokens, types = texts("Bert")
    again = load_model(tmp_path / "ours")
    assert torch.equal(again(tokens, LENGTHS, types=types), ours(tokens, LENGTHS, types=types))


def test_a_loaded_model_can_be_trained_without_touching_its_file(tmp_path):
    saved("Bert", "Model", tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    model = load_huggingface(tmp_path).train()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert (tmp_path / "model.safetensors").read_bytes() == before


@pytest.fixture
def folder(tmp_path):
    saved("Bert", "ForMaskedLM", tmp_path)
    return tmp_path


def change(folder: Any, **settings: Any) -> None:
    values = json.loads((folder / "config.json").read_text()) | settings
    values = {name: value for name, value in values.items() if value != "gone"}
    (folder / "config.json").write_text(json.dumps(values))


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"model_type": "t5"}, "model_type is 't5', which Regard cannot load: expected bert, roberta"),
        ({"model_type": "gone"}, "model_type is None"),
        ({"is_decoder": True}, "is_decoder is True, which Regard's encoder does not have"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"hidden_act": "silu"}, "hidden_act is 'silu', which Regard cannot compute: expected gelu"),
        ({"hidden_act": ["gelu"]}, "hidden_act is \\['gelu'\\]"),
        ({"hidden_size": "gone"}, "hidden_size is missing"),
        ({"hidden_size": "24"}, "hidden_size: expected"),
        ({"num_attention_heads": 5}, "num_attention_heads: 5 heads do not divide"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000, but the file of weights has 2"),
        ({"vocab_size": 10**12}, "word_embeddings.weight is \\(37, 24\\), but config.json says"),
        (
            {"intermediate_size": 14},
            "intermediate.dense.weight is \\(13, 24\\), but config.json says \\(14, 24\\)",
        ),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads is"),
        ({"quantization_config": {"bits": 8}}, "quantization_config is"),
    ],
)
def test_settings_that_cannot_be_computed_are_named(folder, settings, text):
    change(folder, **settings)
    with pytest.raises(FileError, match=text):
        load_huggingface(folder, MaskedLanguageModel)


def test_a_pickle_is_refused_with_the_fix(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(FileError, match=r"pytorch_model.bin is a pickle.* save_pretrained\(\), which writes"):
        load_huggingface(folder)


@pytest.mark.parametrize("damage", ["cut", "header", "empty", "missing", "nan", "integers"])
def test_damaged_weights_are_refused(folder, damage):
    path = folder / "model.safetensors"
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage in ("nan", "integers"):
        tensors = load_file(path)
        name = "bert.embeddings.LayerNorm.bias"
        tensors[name] = tensors[name] * float("nan") if damage == "nan" else tensors[name].to(torch.int8)
        save_file(tensors, path)
    else:
        changed = {"cut": content[:-50], "header": content[:20] + b"#" + content[21:], "empty": b""}
        path.write_bytes(changed[damage])
    with pytest.raises(FileError, match="model.safetensors"):
        load_huggingface(folder)


def test_a_wrong_index_of_shards_is_refused(tmp_path):
    model = saved("Bert", "Model", tmp_path / "one")
    model.save_pretrained(tmp_path / "many", max_shard_size="3KB")
    path = tmp_path / "many" / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    name, file = next(iter(index["weight_map"].items()))
    for value, text in (
        ("../x.safetensors", "is not a file of this folder"),
        ("x.safetensors", "no such file"),
    ):
        path.write_text(json.dumps({"weight_map": index["weight_map"] | {name: value}}))
        with pytest.raises(FileError, match=text):
            load_huggingface(tmp_path / "many")
    path.write_text(json.dumps({"weight_map": index["weight_map"] | {"x.weight": file}}))
    with pytest.raises(FileError, match=r"x.weight is missing, which model.safetensors.index.json says"):
        load_huggingface(tmp_path / "many")


def test_parts_that_the_encoder_does_not_have_are_refused(folder):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors["bert.encoder.layer.0.attention.self.distance_embedding.weight"] = torch.zeros(3, 6)
    save_file(tensors, path)
    with pytest.raises(
        FileError, match="distance_embedding.weight is a part of the model that Regard's encoder"
    ):
        load_huggingface(folder)


@pytest.mark.parametrize(
    ("model", "text"), [(TextClassifier, "no output for classes"), (SpanReader, "no output for spans")]
)
def test_a_head_that_is_missing_is_named(folder, model, text):
    with pytest.raises(FileError, match=text):
        load_huggingface(folder, model)


def test_a_tied_table_that_differs_is_refused(folder):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"] + 1
    save_file(tensors, path)
    with pytest.raises(FileError, match=r"decoder.weight differs from .*tie_word_embeddings: false"):
        load_huggingface(folder, MaskedLanguageModel)
    assert isinstance(load_huggingface(folder), Encoder)


def test_other_classes_of_models_are_refused(folder):
    with pytest.raises(ArgumentError, match="model: expected Encoder, MaskedLanguageModel"):
        load_huggingface(folder, dict)


@pytest.mark.parametrize("family", ["Bert", "Roberta", "DistilBert"])
@pytest.mark.parametrize(
    ("kind", "model"),
    [
        ("Model", None),
        ("ForMaskedLM", MaskedLanguageModel),
        ("ForSequenceClassification", TextClassifier),
        ("ForQuestionAnswering", SpanReader),
    ],
)
def test_a_folder_says_which_output_layers_it_holds(family, kind, model, tmp_path):
    saved(family, kind, tmp_path)
    source = HuggingFaceFolder(tmp_path)
    assert source.has(Encoder)
    held = [each for each in (MaskedLanguageModel, TextClassifier, SpanReader) if source.has(each)]
    assert held == ([] if model is None else [model])
