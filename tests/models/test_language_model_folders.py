"""Hugging Face folders of Llama, Mistral, Qwen2 and GPT-2 loaded into LanguageModel, compared with Transformers."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.errors import FileError
from regard.models import Encoder, LanguageModel, load_huggingface, load_language_model, load_model
from support.language_models import greedy, make_model, random_tokens

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama tied, another epsilon": ("Llama", {"tie_word_embeddings": True, "rms_norm_eps": 0.03}),
    "llama with all biases": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "llama with biases of attention": ("Llama", {"attention_bias": True}),
    "llama with biases of the feed-forward layer": ("Llama", {"mlp_bias": True}),
    "llama, one group and another base": (
        "Llama",
        {"num_key_value_heads": 1, "rope_parameters": {"rope_type": "default", "rope_theta": 77.0}},
    ),
    "llama, linear scaling": (
        "Llama",
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 100.0, "factor": 4.0}},
    ),
    "llama, llama3 scaling": ("Llama", {"rope_parameters": LLAMA3}),
    "llama, yarn": (
        "Llama",
        {"rope_parameters": {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0}},
    ),
    "mistral without a window": ("Mistral", {"sliding_window": None}),
    "mistral with a window": ("Mistral", {"sliding_window": 7}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "gpt2": ("GPT2", {}),
    "gpt2, untied, relu": (
        "GPT2",
        {
            "tie_word_embeddings": False,
            "activation_function": "relu",
            "n_inner": 48,
            "layer_norm_epsilon": 0.02,
        },
    ),
}


@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_a_folder_gives_the_logits_and_the_greedy_text_of_transformers(case, tmp_path):
    family, settings = CASES[case]
    theirs, tokens = make_model(family, **settings), random_tokens()
    theirs.save_pretrained(tmp_path)
    ours = load_huggingface(tmp_path, LanguageModel)
    torch.testing.assert_close(ours(tokens), theirs(tokens).logits, atol=1e-5, rtol=1e-5)
    state, written = ours.start(), tokens[:1, :5].tolist()[0]
    for token in written[:-1]:
        ours.step(torch.tensor([[token]]), state)
    for _ in range(40):
        hidden = ours.step(torch.tensor([[written[-1]]]), state)
        written.append(int(ours.output(hidden).argmax()))
    assert written[5:] == greedy(theirs, tokens[:1, :5], 40)


def test_settings_of_transformers_4_are_read(tmp_path):
    theirs, tokens = make_model("Llama", rope_parameters=LLAMA3), random_tokens()
    theirs.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    settings = json.loads(path.read_text())
    scaling = settings.pop("rope_parameters")
    settings |= {"rope_theta": scaling.pop("rope_theta"), "rope_scaling": scaling}
    path.write_text(json.dumps(settings))
    with torch.no_grad():
        ours = load_language_model(tmp_path)(tokens)
        torch.testing.assert_close(ours, theirs(tokens).logits, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_folder_of_several_files_without_the_prefix_and_a_saved_copy(tmp_path):
    theirs, tokens = make_model("GPT2"), random_tokens()
    theirs.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    ours = load_language_model(tmp_path / "shards")
    torch.testing.assert_close(ours(tokens), theirs(tokens).logits, atol=1e-5, rtol=1e-5)
    ours.save_pretrained(tmp_path / "ours")
    assert torch.equal(load_model(tmp_path / "ours")(tokens), ours(tokens))
    assert torch.equal(load_language_model(tmp_path / "ours")(tokens), ours(tokens))
    # The files of the first GPT-2 have no prefix, and hold its causal mask.
    theirs.save_pretrained(tmp_path / "old")
    path = tmp_path / "old" / "model.safetensors"
    tensors = {name.removeprefix("transformer."): x for name, x in load_file(path).items()}
    save_file({**tensors, "h.0.attn.bias": torch.ones(1, 1, 64, 64).tril()}, path)
    assert torch.equal(load_language_model(tmp_path / "old")(tokens), ours(tokens))


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "another architecture": ("Llama", {"model_type": "mamba"}, "model_type is 'mamba'.*expected llama"),
    "wide heads": ("Llama", {"head_dim": 16}, "head_dim: 16 columns in each of 4 heads"),
    "an unknown scaling": (
        "Llama",
        {"rope_parameters": {"rope_type": "longrope", "rope_theta": 100.0}},
        "rotary_scaling: unknown name 'longrope'",
    ),
    "a part of the columns rotated": (
        "Llama",
        {"partial_rotary_factor": 0.5},
        "partial_rotary_factor is 0.5",
    ),
    "another activation": ("Llama", {"hidden_act": "gelu"}, "hidden_act: 'gelu'"),
    "heads that do not divide": (
        "Llama",
        {"num_attention_heads": 5, "head_dim": None},
        "num_attention_heads: 5",
    ),
    "a number as a word": ("Llama", {"hidden_size": "wide", "head_dim": None}, "hidden_size: "),
    "another number of layers": ("Llama", {"num_hidden_layers": 3}, "num_hidden_layers is 3, but .* has 2"),
    "no end of layers": ("Llama", {"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000, but"),
    "another size": (
        "Llama",
        {"intermediate_size": 65},
        r"mlp.up_proj.weight is \(64, 32\), but .* \(65, 32\)",
    ),
    "an absurd size": ("Llama", {"vocab_size": 2**62}, "vocab_size|no machine|embed_tokens"),
    "windows in some layers": ("Qwen2", {"use_sliding_window": True}, "use_sliding_window is True"),
    "scaled scores": ("GPT2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
    "no heads said": ("Mistral", {"num_key_value_heads": None}, "num_key_value_heads: is missing"),
    "a tied output that differs": ("Llama", {"tie_word_embeddings": True}, "lm_head.weight differs from"),
    "a quantised folder": ("Llama", {"quantization_config": {"bits": 4}}, "quantization_config is"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_settings_that_regard_cannot_compute_are_named(case, tmp_path):
    family, changes, told = REFUSED[case]
    make_model(family).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(FileError, match="config.json|safetensors") as raised:
        load_language_model(tmp_path)
    assert re.search(told, str(raised.value)), raised.value


def test_tensors_that_regard_has_not_are_refused(tmp_path):
    make_model("Llama").save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    save_file({**tensors, "model.layers.0.self_attn.q_norm.weight": torch.ones(8)}, path)
    with pytest.raises(FileError, match="q_norm.weight is a part of the model that Regard's"):
        load_language_model(tmp_path)
    del tensors["model.layers.1.mlp.gate_proj.weight"]
    save_file(tensors, path)
    with pytest.raises(FileError, match="layers.1.mlp.gate_proj.weight is missing"):
        load_language_model(tmp_path)


def test_a_language_model_is_no_encoder(tmp_path):
    make_model("Llama").save_pretrained(tmp_path)
    with pytest.raises(FileError, match="a language model: load it with load_huggingface"):
        load_huggingface(tmp_path, Encoder)


@pytest.mark.parametrize("name", ["model.pt", "weights.bin", "model.gguf"])
def test_a_pickle_is_refused(name, tmp_path):
    torch.save({"a": torch.ones(2)}, tmp_path / name)
    with pytest.raises(FileError, match="pickle|not a GGUF file"):
        load_language_model(tmp_path / name)


def test_other_files_are_named(tmp_path):
    (tmp_path / "model.txt").write_text("hello")
    with pytest.raises(FileError, match="not a model that Regard can read"):
        load_language_model(tmp_path / "model.txt")
    with pytest.raises(FileError, match="no such file or folder"):
        load_language_model(tmp_path / "none")
