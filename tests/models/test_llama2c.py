"""Flat files of llama2.c loaded into LanguageModel, compared with Transformers."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import torch

from regard.errors import FileError
from regard.models import load_language_model
from support.language_models import greedy, make_model, random_tokens, real_model, write_flat


@pytest.mark.parametrize("tied", [True, False])
@torch.no_grad()
def test_a_flat_file_gives_the_logits_of_transformers(tied, tmp_path):
    theirs, tokens = make_model("Llama", tie_word_embeddings=tied, rms_norm_eps=1e-5), random_tokens()
    write_flat(tmp_path / "model.bin", theirs)
    ours = load_language_model(tmp_path / "model.bin")
    assert ours.config.max_length == 64
    torch.testing.assert_close(ours(tokens), theirs(tokens).logits, atol=1e-5, rtol=1e-5)


def test_files_of_another_size_or_format_are_named(tmp_path):
    path = tmp_path / "model.bin"
    write_flat(path, make_model("Llama"))
    content = path.read_bytes()
    for changed in (content[:-4], content + b"\0", content[:11], b"", content[:28]):
        path.write_bytes(changed)
        with pytest.raises(FileError, match="cut short, or not a file of llama2.c"):
            load_language_model(path)
    for numbers in ((32, 64, 2**31 - 1, 4, 2, 352, 64), (2**31 - 8, 2**31 - 1, 2, 4, 2, 352, 64)):
        path.write_bytes(struct.pack("<7i", *numbers) + content[28:])
        with pytest.raises(FileError, match="cut short, or not a file"):
            load_language_model(path)
    path.write_bytes(struct.pack("<7i", 32, 64, 2, 5, 2, 352, 64) + content[28:])
    with pytest.raises(FileError, match="heads: 5 heads do not divide"):
        load_language_model(path)
    path.write_bytes(struct.pack("<I", 0x616B3432) + content[4:])
    with pytest.raises(FileError, match="version 1 or 2"):
        load_language_model(path)
    path.write_bytes(content[:40] + struct.pack("<f", float("inf")) + content[44:])
    with pytest.raises(FileError, match="token_embd.weight holds numbers that are not finite"):
        load_language_model(path)


@pytest.mark.slow
@torch.no_grad()
def test_stories15m_gives_the_logits_and_the_text_of_transformers():
    transformers = pytest.importorskip("transformers", reason="the peers are in the extra hf")
    path = real_model("REGARD_STORIES15M", "stories15M.bin, the flat file of llama2.c")
    ours, theirs = load_language_model(path), peer_of_flat_file(path, transformers)
    torch.manual_seed(0)
    tokens = torch.randint(32000, (2, 50))
    torch.testing.assert_close(ours(tokens), theirs(tokens).logits, atol=1e-4, rtol=1e-4)
    state, last, written = ours.start(), torch.tensor([[1]]), []
    for _ in range(100):
        last = ours.output(ours.step(last, state)).argmax(dim=-1)
        written.append(int(last))
    assert written == greedy(theirs, torch.tensor([[1]]), 100)


def peer_of_flat_file(path, transformers):
    """Return a flat file as a model of Transformers, read here without the code of Regard."""
    content = path.read_bytes()
    m, f, layers, heads, kv, v, n = struct.unpack_from("<7i", content)
    numbers = torch.from_numpy(np.frombuffer(content, "<f4", offset=28).copy())
    config = transformers.LlamaConfig(
        vocab_size=v,
        hidden_size=m,
        intermediate_size=f,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv,
        max_position_embeddings=n,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    d, place = m // heads, 0

    def take(*shape: int) -> torch.Tensor:
        nonlocal place
        place += int(np.prod(shape))
        return numbers[place - int(np.prod(shape)) : place].reshape(shape)

    def halves(x: torch.Tensor, count: int) -> torch.Tensor:
        return x.reshape(layers, count, d // 2, 2, m).transpose(2, 3).reshape(layers, count * d, m)

    model.model.embed_tokens.weight.copy_(take(v, m))
    parts = {"input_layernorm": take(layers, m)}
    parts["self_attn.q_proj"] = halves(take(layers, m, m), heads)
    parts["self_attn.k_proj"] = halves(take(layers, kv * d, m), kv)
    parts["self_attn.v_proj"] = take(layers, kv * d, m)
    parts["self_attn.o_proj"] = take(layers, m, m)
    parts["post_attention_layernorm"] = take(layers, m)
    parts["mlp.gate_proj"] = take(layers, f, m)
    parts["mlp.down_proj"] = take(layers, m, f)
    parts["mlp.up_proj"] = take(layers, f, m)
    for name, stacked in parts.items():
        for layer, tensor in enumerate(stacked):
            model.model.layers[layer].get_submodule(name).weight.copy_(tensor)
    model.model.norm.weight.copy_(take(m))
    return model
