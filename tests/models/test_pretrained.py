"""Tests of models that are saved as folders and loaded, and of the errors for damaged ones."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from safetensors.torch import load_model as load_into
from torch import nn

from regard import files
from regard.errors import ArgumentError, FileError, UnknownNameError
from regard.models import Seq2Seq, Transformer, load_model
from regard.models.pretrained import CONFIG, WEIGHTS
from support.small_models import LENGTHS, MODELS, U, V, build, close, remove_hash, sentences


def save(folder: Path, options: dict | None = None, **more):
    model = build(options or {})
    model.save_pretrained(folder, **more)
    return model


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_a_saved_model_is_loaded_bit_for_bit(options, tmp_path):
    model, (source, target) = save(tmp_path / "a" / "b", options), sentences()
    again = load_model(tmp_path / "a" / "b")
    assert type(again) is type(model)
    assert again.config == model.config
    assert not again.training
    expected, found = model.state_dict(), again.state_dict()
    assert list(expected) == list(found)
    for name, tensor in expected.items():
        assert torch.equal(tensor, found[name]), name
        assert found[name].dtype == torch.float32
    assert all(parameter.requires_grad for parameter in again.parameters())
    close(again(source, target, LENGTHS), model(source, target, LENGTHS), 1e-6)  # torch's sums heed alignment


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_files_load_with_the_functions_of_torch_and_safetensors(options, dtype, tmp_path):
    """A strict load has nothing missing and nothing left over, though a tensor with two names is written once."""
    model, (source, target) = save(tmp_path, options, dtype=dtype), sentences()
    stored = load_file(tmp_path / WEIGHTS)
    by_torch, by_safetensors, assigned = (build(options) for _ in range(3))
    for other in (by_torch, by_safetensors, assigned):
        for parameter in other.parameters():
            nn.init.normal_(parameter)
    assert not by_torch.load_state_dict(stored).missing_keys
    load_into(by_safetensors, tmp_path / WEIGHTS)
    assigned.load_state_dict({name: x.float() for name, x in stored.items()}, assign=True)
    expected = load_model(tmp_path).eval()(source, target, LENGTHS)
    for other in (by_torch, by_safetensors, assigned):
        close(other.eval()(source, target, LENGTHS), expected, 1e-6)
        names = [name for name, _ in other.named_parameters()]
        assert names == [name for name, _ in model.named_parameters()]  # shared tensors stay shared


def test_strict_loading_is_still_strict(tmp_path):
    model = save(tmp_path)
    stored = load_file(tmp_path / WEIGHTS)
    held = nn.ModuleDict({"inner": build({})})
    held.load_state_dict({f"inner.{name}": tensor for name, tensor in stored.items()})
    assert torch.equal(held["inner"].output.bias, model.output.bias)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        model.load_state_dict(stored | {"more": torch.ones(1)})
    del stored["output.bias"]
    with pytest.raises(RuntimeError, match="Missing key.*output.bias"):
        model.load_state_dict(stored)
    with pytest.raises(RuntimeError, match="Missing key.*output.bias"):
        held.load_state_dict({f"inner.{name}": tensor for name, tensor in stored.items()})


def test_state_dicts_with_every_name_load_too():
    """Earlier versions wrote a shared tensor under each of its names."""
    model = build({"tied_output": True})
    every = {name: x.detach().clone() for name, x in model.named_parameters(remove_duplicate=False)}
    assert len(every) > len(list(model.named_parameters()))
    every |= dict(model.named_buffers())
    other = build({"tied_output": True})
    other.load_state_dict(every)
    assert other.output.weight is other.decoder.embedding.tokens.weight


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_halves_the_file_and_loads_as_float32(dtype, tmp_path):
    options = {"width": 120, "feed_forward": 211}
    model = save(tmp_path / "whole", options)
    model.save_pretrained(tmp_path / "half", dtype=dtype)
    whole, half = ((tmp_path / name / WEIGHTS).stat().st_size for name in ("whole", "half"))
    assert whole / half == pytest.approx(2, rel=0.03)
    again = load_model(tmp_path / "half")
    for name, parameter in again.named_parameters():
        assert parameter.dtype == torch.float32
        assert torch.equal(parameter, model.get_parameter(name).to(getattr(torch, dtype)).float()), name


def test_numbers_too_large_for_float16_are_not_lost(tmp_path):
    model = build({})
    torch.nn.init.constant_(model.output.bias, 1e5)
    with pytest.raises(
        ArgumentError, match="dtype: output.bias has numbers too large for float16: use bfloat16"
    ):
        model.save_pretrained(tmp_path, dtype="float16")
    assert list(tmp_path.iterdir()) == []


def tables(model: Any) -> tuple[nn.Embedding, nn.Embedding]:
    """Return the embedding tables of source and target."""
    if isinstance(model, Seq2Seq):
        return model.source_embedding, model.target_embedding
    return model.encoder.embedding.tokens, model.decoder.embedding.tokens


@pytest.mark.parametrize("name", ["one table", "default", "untied", "gru dot fed 2"])
def test_tied_weights_are_stored_once_and_tied_again(name, tmp_path):
    options = MODELS[name]
    model = save(tmp_path, options)
    stored = load_file(tmp_path / WEIGHTS)
    parameters = sum(parameter.numel() for parameter in model.parameters())  # each of them once
    assert sum(tensor.numel() for tensor in stored.values()) == parameters
    again = load_model(tmp_path)
    tied = name != "untied"
    for one in (model, again):
        source, target = tables(one)
        assert (one.output.weight is target.weight) == tied
        assert (source.weight is target.weight) == (name == "one table")
    if tied:
        with torch.no_grad():
            again.output.weight[3] = 5.0
        assert (tables(again)[1].weight[3] == 5.0).all()
    assert len(list(again.parameters())) == len(list(model.parameters()))


def test_loading_draws_no_random_numbers(tmp_path, monkeypatch):
    for options in (MODELS["post relative"], MODELS["learned"], MODELS["lstm additive unfed 2"]):
        save(tmp_path, options)
        before = torch.random.get_rng_state()
        load_model(tmp_path)
        assert torch.equal(torch.random.get_rng_state(), before)


def test_a_loaded_model_can_be_trained_and_saved_again(tmp_path):
    save(tmp_path, MODELS["one table"])
    model, (source, target) = load_model(tmp_path).train(), sentences()
    model(source, target).square().sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    model.save_pretrained(tmp_path)
    again = load_model(tmp_path)
    assert torch.equal(again.output.weight, model.output.weight)


def test_extra_settings_go_into_the_file_and_never_over_the_model(tmp_path):
    model = save(tmp_path, extra={"task": "translate", "model": {"kind": "other"}, "名": "é"})
    settings = json.loads((tmp_path / CONFIG).read_text(encoding="utf-8"))
    del settings["weights_sha256"]
    assert settings == {"model": model.config.to_json(), "task": "translate", "名": "é"}
    assert "é" in (tmp_path / CONFIG).read_text(encoding="utf-8")


def test_a_class_loads_its_own_kind(tmp_path):
    save(tmp_path, MODELS["gru dot fed 2"])
    assert isinstance(Seq2Seq.from_pretrained(tmp_path), Seq2Seq)
    with pytest.raises(
        ArgumentError, match=r"holds a Seq2Seq, not a Transformer: use Seq2Seq.from_pretrained"
    ):
        Transformer.from_pretrained(tmp_path)
    with pytest.raises(UnknownNameError, match="dtype: unknown name 'float15': did you mean 'float16'"):
        build({}).save_pretrained(tmp_path, dtype="float15")


# ------------------------------------------------------------------- files that are not as they should be


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def change_tensors(change):
    def changed(path: Path) -> None:
        tensors = load_file(path)
        change(tensors)
        save_file(tensors, path)

    return changed


def change_settings(change):
    def changed(path: Path) -> None:
        settings = json.loads(path.read_text())
        change(settings)
        path.write_text(json.dumps(settings))

    return changed


BROKEN = {
    "weights missing": (WEIGHTS, Path.unlink, "no such file"),
    "weights cut short": (WEIGHTS, cut, "cut short or not a safetensors file"),
    "weights cut to nothing": (WEIGHTS, lambda path: path.write_bytes(b""), "cut short or not a safetensors"),
    "weights of another kind": (
        WEIGHTS,
        lambda path: path.write_text("hello" * 99),
        "not a safetensors file",
    ),
    "a tensor missing": (
        WEIGHTS,
        change_tensors(lambda t: t.pop("encoder.norm.bias")),
        "encoder.norm.bias is missing: the file belongs to another model",
    ),
    "a tensor too many": (
        WEIGHTS,
        change_tensors(lambda t: t.update(more=torch.ones(1))),
        "more is not a part of this model: the file belongs to another one",
    ),
    "a tensor of another size": (
        WEIGHTS,
        change_tensors(lambda t: t.update({"encoder.norm.bias": torch.ones(5)})),
        "encoder.norm.bias is (5,), the settings say (24,)",
    ),
    "settings missing": (CONFIG, Path.unlink, "no such file: is this the folder of a model?"),
    "settings cut short": (CONFIG, cut, "not JSON, or cut short"),
    "settings in Latin-1": (
        CONFIG,
        lambda path: path.write_bytes(b'{"a": "\xe9"}'),
        "not JSON, or cut short",
    ),
    "settings a list": (CONFIG, lambda path: path.write_text("[]"), "expected a JSON object, got list"),
    "settings of nothing": (
        CONFIG,
        lambda path: path.write_text("{}"),
        "not the settings of a model of Regard",
    ),
    "kind a list": (
        CONFIG,
        change_settings(lambda s: s["model"].update(kind=[])),
        "not the settings of a model of Regard (kind is [])",
    ),
    "another kind": (
        CONFIG,
        change_settings(lambda s: s["model"].update(kind="rnn")),
        "not the settings of a model of Regard (kind is 'rnn')",
    ),
    "settings of another kind": (
        CONFIG,
        change_settings(lambda s: s["model"].update(kind="seq2seq")),
        "config.json: heads: not a setting of a seq2seq",
    ),
    "a setting missing": (
        CONFIG,
        change_settings(lambda s: s["model"].pop("source_size")),
        "config.json: source_size: missing from the settings of a transformer",
    ),
    "a setting wrong": (
        CONFIG,
        change_settings(lambda s: s["model"].update(heads=7)),
        "config.json: heads: 7 heads do not divide width = 24",
    ),
    "a setting of another size": (
        CONFIG,
        change_settings(lambda s: s["model"].update(encoder_layers=3)),
        "config.json: encoder_layers is 3, but the file of weights has 2",
    ),
    "a tensor of whole numbers": (
        WEIGHTS,
        change_tensors(lambda t: t.update({"encoder.norm.bias": torch.ones(24, dtype=torch.int64)})),
        "encoder.norm.bias is of torch.int64, expected numbers of torch.float32",
    ),
    "settings too deep": (
        CONFIG,
        lambda path: path.write_text('{"model": ' + "[" * 99_999 + "]" * 99_999 + "}"),
        "not JSON, or cut short",
    ),
    "a number of too many digits": (
        CONFIG,
        lambda path: path.write_text('{"model": ' + "9" * 9999 + "}"),
        "not JSON, or cut short",
    ),
}


@pytest.mark.parametrize(("name", "change", "text"), BROKEN.values(), ids=BROKEN)
def test_a_broken_folder_says_which_file_and_why(name, change, text, tmp_path):
    save(tmp_path)
    remove_hash(tmp_path)
    change(tmp_path / name)
    with pytest.raises(FileError) as raised:
        load_model(tmp_path)
    assert text in str(raised.value)
    assert str(tmp_path / name) in str(raised.value) or "is missing" in text


HUGE = 1_000_000_000
TOO_LARGE = [
    (
        {"classes": 3, "token_types": 2},
        {"token_types": HUGE},
        "token_types is 1000000000, but encoder.embedding.types.weight in the file",
    ),
    ({}, {"encoder_layers": HUGE}, "encoder_layers is 1000000000, but the file of weights has 2"),
    ({}, {"decoder_layers": HUGE}, "decoder_layers is 1000000000, but the file of weights has 2"),
    ({}, {"source_size": HUGE}, "source_size is 1000000000, but encoder.embedding.tokens.weight in the"),
    ({}, {"target_size": HUGE}, "target_size is 1000000000, but decoder.embedding.tokens.weight in the"),
    ({}, {"width": HUGE}, "width is 1000000000, but encoder.embedding.tokens.weight in the file"),
    (
        {},
        {"feed_forward": HUGE},
        "feed_forward is 1000000000, but encoder.layers.0.feed_forward.narrow.weight",
    ),
    ({}, {"max_length": HUGE}, "max_length is 1000000000, expected 5592405 or less"),
    (
        {"positions": "learned"},
        {"max_length": HUGE},
        "max_length is 1000000000, but encoder.embedding.positions.",
    ),
    (
        MODELS["gru dot fed 2"],
        {"encoder_layers": HUGE},
        "encoder_layers is 1000000000, but the file of weights has 2",
    ),
    (
        MODELS["gru dot fed 2"],
        {"decoder_layers": HUGE},
        "decoder_layers is 1000000000, but the file of weights has 2",
    ),
    (
        MODELS["gru dot fed 2"],
        {"width": HUGE},
        "width is 1000000000, but source_embedding.weight in the file",
    ),
]


@pytest.mark.parametrize(("options", "changes", "text"), TOO_LARGE)
def test_settings_larger_than_the_weights_are_refused_by_their_name(options, changes, text, tmp_path):
    save(tmp_path, options)
    change_settings(lambda s: s["model"].update(changes))(tmp_path / CONFIG)
    with pytest.raises(FileError, match=re.escape(text)):
        load_model(tmp_path)


# Tables that are missing from the file of weights. Their size is known from the settings alone.
ABSENT = [
    ({}, {"source_size": HUGE**2}, "encoder.embedding.tokens.weight"),
    ({}, {"source_size": HUGE}, "encoder.embedding.tokens.weight"),
    ({}, {"target_size": HUGE}, "decoder.embedding.tokens.weight"),
    ({"positions": "learned"}, {"max_length": HUGE}, "encoder.embedding.positions.pos_embedding.weight"),
    ({"tied_output": False}, {}, "output.weight"),
    (MODELS["gru dot fed 2"], {"source_size": HUGE}, "source_embedding.weight"),
    ({"classes": 3}, {"vocabulary_size": HUGE}, "encoder.embedding.tokens.weight"),
    ({"classes": 3}, {"classes": HUGE}, "output.linear.weight"),
    ({"classes": 3, "token_types": 2}, {"token_types": HUGE}, "encoder.embedding.types.weight"),
    ({"vocabulary_size": U}, {"vocabulary_size": HUGE}, "decoder.embedding.tokens.weight"),
]


def broken_folders(folder: Path) -> list[Path]:
    """Save models whose settings ask for more than their files hold, a folder for each."""
    folders = []
    for i, (options, changes, _) in enumerate(TOO_LARGE):
        folders.append(folder / f"large {i}")
        save(folders[-1], options)
        change_settings(lambda s, changes=changes: s["model"].update(changes))(folders[-1] / CONFIG)
    for i, (options, changes, name) in enumerate(ABSENT):
        folders.append(folder / f"absent {i}")
        save(folders[-1], options)
        change_settings(lambda s, changes=changes: s["model"].update(changes))(folders[-1] / CONFIG)
        change_tensors(lambda t, name=name: t.pop(name))(folders[-1] / WEIGHTS)
    # A table of the right width lets the other matrices be as large as the settings say.
    folders.append(folder / "wide")
    save(folders[-1])
    names = ("encoder.embedding.tokens.weight", "decoder.embedding.tokens.weight")
    wide = {name: torch.ones(size, 100_000) for name, size in zip(names, (V, U), strict=True)}
    change_tensors(lambda t: t.update(wide))(folders[-1] / WEIGHTS)
    change_settings(lambda s: s["model"].update(width=100_000))(folders[-1] / CONFIG)
    return folders


@pytest.mark.parametrize(("options", "changes", "name"), ABSENT)
def test_a_table_that_is_missing_from_the_file_is_named(options, changes, name, tmp_path):
    save(tmp_path, options)
    change_settings(lambda s: s["model"].update(changes))(tmp_path / CONFIG)
    change_tensors(lambda t: t.pop(name))(tmp_path / WEIGHTS)
    text = f"{re.escape(name)} is missing: the file belongs to another model"
    if HUGE**2 in changes.values():
        text = "the settings ask for tensors that no machine can hold"
    with pytest.raises(FileError, match=text):
        load_model(tmp_path)


LOAD_UNDER_A_LIMIT = """
import resource, sys, pathlib
from regard.errors import FileError
from regard.models import load_model

pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + 300 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for folder in sys.argv[1:]:
    try:
        load_model(folder)
    except FileError as error:
        print("refused", error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit on memory is that of Linux")
def test_broken_settings_are_refused_before_memory_is_allocated(tmp_path):
    folders = broken_folders(tmp_path)
    command = [sys.executable, "-c", LOAD_UNDER_A_LIMIT, *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("refused") == len(folders)


# ------------------------------------------------------------------- files of earlier versions


OLD_NAMES = {
    "encoder.embedding.tokens.weight": "source_embedding.weight",
    "decoder.embedding.tokens.weight": "target_embedding.weight",
    "encoder.embedding.positions.pos_embedding.weight": "positions.pos_embedding.weight",
}


@pytest.mark.parametrize("name", ["default", "one table", "untied", "learned", "post relative"])
def test_files_with_the_names_of_earlier_versions_load_alike(name, tmp_path):
    model, (source, target) = save(tmp_path, MODELS[name]), sentences()
    tensors = load_file(tmp_path / WEIGHTS)
    old = {OLD_NAMES.get(name, name): tensor for name, tensor in tensors.items()}
    assert old.keys() != tensors.keys()
    save_file(old, tmp_path / WEIGHTS)
    remove_hash(tmp_path)
    expected = model(source, target, LENGTHS)
    close(load_model(tmp_path)(source, target, LENGTHS), expected, 1e-6)
    other = build(MODELS[name], seed=5)
    other.load_state_dict(old)
    close(other(source, target, LENGTHS), expected, 1e-6)
    inside = nn.ModuleDict({"inner": build(MODELS[name], seed=6)})
    inside.load_state_dict({f"inner.{name}": tensor for name, tensor in old.items()})
    close(inside["inner"](source, target, LENGTHS), expected, 1e-6)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        other.load_state_dict(old | {"embedding.weight": torch.ones(1)})


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(FileError, match="file.*: cannot be made"):
            build({}).save_pretrained(folder)
        with pytest.raises(FileError, match="config.json: "):
            load_model(folder)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / CONFIG).mkdir()
    with pytest.raises(FileError, match="config.json: cannot be read: Is a directory"):
        load_model(tmp_path / "model")


def test_a_folder_without_write_permission_is_an_error(tmp_path, monkeypatch):
    save(tmp_path)

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(files.tempfile, "mkstemp", refuse)
        with pytest.raises(FileError, match="cannot write in .*: Permission denied"):
            build({}).save_pretrained(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", refuse)
        with pytest.raises(FileError, match="config.json: cannot be read: Permission denied"):
            load_model(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("regard.models.pretrained.load_file", refuse)
        with pytest.raises(FileError, match="model.safetensors: cannot be read: Permission denied"):
            load_model(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "mkdir", refuse)
        with pytest.raises(FileError, match="new: cannot be made: Permission denied"):
            build({}).save_pretrained(tmp_path / "new")


def test_a_stopped_program_leaves_the_old_file(tmp_path, monkeypatch):
    old = save(tmp_path)

    def stopped(tensors, path):
        Path(path).write_bytes(b"half of it")
        raise KeyboardInterrupt

    monkeypatch.setattr("regard.models.weight_files.save_file", stopped)
    with pytest.raises(KeyboardInterrupt):
        build({}, seed=5).save_pretrained(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted([CONFIG, WEIGHTS])
    assert torch.equal(load_model(tmp_path).output.weight, old.output.weight)
