"""GGUF files loaded into LanguageModel, compared with Transformers and with the package gguf."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.errors import FileError, MissingExtraError
from regard.models import load_language_model
from regard.models.gguf import load_gguf
from regard.models.gguf_files import GGUFFile
from support.language_models import (
    gguf_settings,
    gguf_tensors,
    make_model,
    needs_gguf,
    random_tokens,
    real_model,
    write_gguf,
)

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama, tied, another epsilon and base": (
        "Llama",
        {
            "tie_word_embeddings": True,
            "rms_norm_eps": 0.03,
            "rope_parameters": {"rope_type": "default", "rope_theta": 77.0},
        },
    ),
    "llama with biases": ("Llama", {"attention_bias": True, "num_key_value_heads": 4}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "gpt2": ("GPT2", {}),
}


def saved(path: Path, family: str = "Llama", kind: str = "F32", **changes: Any) -> Any:
    """Write a small model as a GGUF file, and return the model of Transformers."""
    model = make_model(family)
    write(path, model, kind, **changes)
    return model


def write(path: Path, model: Any, kind: str = "F32", **changes: Any) -> None:
    needs_gguf()
    name = "llama" if model.config.model_type == "mistral" else model.config.model_type
    metadata = {"general.architecture": name, **gguf_settings(model), **changes}
    metadata = {name: value for name, value in metadata.items() if value is not None}
    write_gguf(path, gguf_tensors(model), metadata, kind)


@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_a_file_gives_the_logits_of_transformers(case, tmp_path):
    family, settings = CASES[case]
    theirs, tokens = make_model(family, **settings), random_tokens()
    write(tmp_path / "model.gguf", theirs)
    ours = load_language_model(tmp_path / "model.gguf")
    torch.testing.assert_close(ours(tokens), theirs(tokens).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q5_0", "Q5_1", "Q4_0", "Q4_1"])
@torch.no_grad()
def test_quantised_matrices_are_those_of_the_package(kind, tmp_path):
    needs_gguf()
    import gguf

    path, tokens = tmp_path / "model.gguf", random_tokens()
    theirs = make_model("Qwen2")
    write(path, theirs, kind)
    file = GGUFFile(path)
    assert file.type_name("blk.0.attn_v.weight") == kind
    for tensor in gguf.GGUFReader(path).tensors:
        expected = gguf.quants.dequantize(np.asarray(tensor.data), tensor.tensor_type)
        read = file.read([tensor.name])[tensor.name]
        assert np.array_equal(read.numpy(), expected.reshape(read.shape)), tensor.name
    # The logits are those of Transformers with the dequantised weights.
    state = theirs.state_dict()
    for name, theirs_name in (("ffn_gate", "mlp.gate_proj"), ("attn_q", "self_attn.q_proj")):
        for layer in range(2):
            read = file.read([f"blk.{layer}.{name}.weight"])[f"blk.{layer}.{name}.weight"]
            exact = state[f"model.layers.{layer}.{theirs_name}.weight"]
            assert 0 <= (read - exact).abs().max() < 0.2
            assert kind in ("F16", "BF16") or not read.equal(exact)
    model = load_gguf(path)
    assert model(tokens).isfinite().all()


@pytest.mark.parametrize("kind", ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"])
def test_k_quants_are_those_of_the_package(kind, tmp_path):
    needs_gguf()
    import gguf

    number = gguf.GGMLQuantizationType[kind]
    _, size = gguf.GGML_QUANT_SIZES[number]
    # Random bytes with scales of float16 that are finite, since the package only writes the simple types.
    blocks = np.random.default_rng(0).integers(0, 0x3C, (3, 2 * size), dtype=np.uint8)
    writer = gguf.GGUFWriter(tmp_path / "k.gguf", "llama")
    writer.add_tensor("x", blocks, raw_dtype=number)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = GGUFFile(tmp_path / "k.gguf")
    expected = gguf.quants.dequantize(blocks, number)
    assert file.shapes["x"] == expected.shape
    assert np.array_equal(file.read(["x"])["x"].numpy(), expected)


def test_the_metadata_is_that_of_the_package(tmp_path):
    gguf = pytest.importorskip("gguf", reason="the extra gguf is not installed")
    values = {"a.text": "naïve 中文", "a.number": 7, "a.share": 0.5, "a.flag": True}
    values |= {"a.words": ["one", "zwei"], "a.list": [1, 2, 3], "a.shares": [0.5, 0.25]}
    saved(tmp_path / "model.gguf", **values)
    read, reader = GGUFFile(tmp_path / "model.gguf").metadata, gguf.GGUFReader(tmp_path / "model.gguf")
    assert {name: read[name] for name in values} == values
    for name, field in reader.fields.items():
        if not name.startswith("GGUF."):
            assert read[name] == field.contents(), name


def test_a_file_cut_anywhere_is_refused_by_name(tmp_path):
    path = tmp_path / "model.gguf"
    saved(path)
    content = path.read_bytes()
    for length in [*range(0, 400, 7), len(content) // 2, len(content) - 32]:
        path.write_bytes(content[:length])
        with pytest.raises(FileError, match="model.gguf: (cut short|not a GGUF|an empty file)"):
            load_gguf(path)


def test_an_altered_header_never_crashes(tmp_path):
    path = tmp_path / "model.gguf"
    saved(path)
    content = path.read_bytes()
    generator = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        altered = bytearray(content)
        place = int(generator.integers(2500))
        altered[place] ^= int(generator.integers(1, 256))
        path.write_bytes(altered)
        # Any other exception fails the test.
        with contextlib.suppress(FileError):
            load_gguf(path)
            continue
        refused += 1
    assert refused > 100


def _with_number(content: bytes, place: int, number: int) -> bytes:
    return content[:place] + struct.pack("<Q", number) + content[place + 8 :]


def test_absurd_sizes_are_refused_before_memory_is_allocated(tmp_path):
    path = tmp_path / "model.gguf"
    saved(path)
    content = path.read_bytes()
    for place, told in ((8, "tensors"), (16, "entries of metadata"), (24, "bytes of a text")):
        path.write_bytes(_with_number(content, place, 2**62))
        with pytest.raises(FileError, match=f"cut short or altered: it says to hold .* {told}"):
            GGUFFile(path)
    axes = content.index(b"token_embd.weight") + len(b"token_embd.weight") + 4
    path.write_bytes(_with_number(content, axes, 2**60))
    with pytest.raises(FileError, match="cut short: token_embd.weight ends at byte"):
        GGUFFile(path)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another architecture": (
        {"general.architecture": "mamba"},
        "general.architecture is 'mamba'.*expected llama",
    ),
    "a missing setting": ({"llama.embedding_length": None}, "llama.embedding_length is missing"),
    "heads that do not divide": (
        {"llama.attention.head_count": 5, "llama.rope.dimension_count": None},
        "llama.attention.head_count: 5 heads do not divide",
    ),
    "wide heads": ({"llama.attention.key_length": 16}, "llama.attention.key_length is 16, but 4 heads"),
    "another number of layers": ({"llama.block_count": 3}, "llama.block_count is 3, but .* has 2"),
    "a part of a model": ({"split.count": 4}, "part 1 of 4"),
    "experts": ({"llama.expert_count": 8}, "mixture of experts"),
    "an adapter": ({"general.type": "adapter"}, "general.type is 'adapter'"),
    "yarn": ({"llama.rope.scaling.type": "yarn"}, "rope.scaling.type is 'yarn'"),
    "another width": ({"llama.feed_forward_length": 96}, r"ffn_up.weight is \(64, 32\), but .* \(96, 32\)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_models_that_regard_cannot_compute_are_named(case, tmp_path):
    changes, told = REFUSED[case]
    saved(tmp_path / "model.gguf", **changes)
    with pytest.raises(FileError, match=told):
        load_gguf(tmp_path / "model.gguf")


def _edited(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))


def test_other_types_and_versions_are_named(tmp_path):
    path = tmp_path / "model.gguf"
    saved(path)
    content = path.read_bytes()
    kind = content.index(b"output_norm.weight") + len(b"output_norm.weight") + 4 + 8
    for number, told in (
        (999, "type 999, which the package gguf does not know"),
        (24, "type I8, which Regard cannot read"),
    ):
        path.write_bytes(content[:kind] + struct.pack("<I", number) + content[kind + 4 :])
        with pytest.raises(FileError, match=f"output_norm.weight is of {told}"):
            GGUFFile(path)
    for version, told in ((1, "version 1 of the format"), (3 << 24, "big-endian")):
        path.write_bytes(content[:4] + struct.pack("<I", version) + content[8:])
        with pytest.raises(FileError, match=told):
            GGUFFile(path)
    path.write_bytes(b"GGML" + content[4:])
    with pytest.raises(FileError, match="not a GGUF file"):
        load_language_model(path)
    path.write_bytes(content)
    start = content.index(b"blk.0.attn_q.weight") + len(b"blk.0.attn_q.weight") + 4 + 16 + 4
    path.write_bytes(_with_number(content, start, 0))
    with pytest.raises(FileError, match="overlap: the file is damaged"):
        GGUFFile(path)
    path.write_bytes(content[:-8] + struct.pack("<2f", float("nan"), 0.0))
    with pytest.raises(FileError, match="not finite: the file is damaged"):
        load_gguf(path)


def test_a_missing_package_is_named_with_its_command(monkeypatch, tmp_path):
    import sys

    monkeypatch.setitem(sys.modules, "gguf", None)
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(MissingExtraError, match=r"pip install .*\[gguf\]'"):
        load_language_model(tmp_path / "model.gguf")


@pytest.mark.slow
@torch.no_grad()
def test_smollm2_gives_the_logits_and_the_text_of_transformers():
    transformers = pytest.importorskip("transformers", reason="the peers are in the extra hf")
    pytest.importorskip("accelerate", reason="Transformers reads GGUF files with accelerate")
    from support.language_models import greedy

    path = real_model("REGARD_SMOLLM2", "the GGUF file of SmolLM2-135M-Instruct")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32
    ).eval()
    ours = load_language_model(path)
    torch.manual_seed(0)
    tokens = torch.randint(ours.config.vocabulary_size, (1, 40))
    torch.testing.assert_close(ours(tokens), theirs(tokens).logits, atol=1e-4, rtol=1e-4)
    state, last, written = ours.start(), tokens[:, :1], []
    for token in tokens[0, :12].tolist():
        last = ours.output(ours.step(torch.tensor([[token]]), state)).argmax(dim=-1)
    for _ in range(100):
        written.append(int(last))
        last = ours.output(ours.step(last, state)).argmax(dim=-1)
    assert written == greedy(theirs, tokens[:, :12], 100)
