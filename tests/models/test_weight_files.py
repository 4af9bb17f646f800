"""Tests of files of weights that were altered since they were saved, or that hold something else."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from regard.errors import FileError
from regard.models import load_huggingface, load_model
from regard.models.weight_files import CONFIG, WEIGHTS
from regard.tasks.bundle import load_bundle, save_bundle
from support.paths import ROOT
from support.pretrained_folders import write_encoder
from support.small_models import build, remove_hash

SHIPPED = sorted((ROOT / "src" / "regard" / "weights").iterdir())
ALTERED = (
    rf"{WEIGHTS}: altered since it was saved: its SHA-256 is not the weights_sha256 in {CONFIG}.*copy the"
)


def alter(path, place=0.5):
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[int(place * len(data))] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("place", [0.5, 0.999])
def test_an_altered_file_of_weights_is_named(tmp_path, place):
    build({}).save_pretrained(tmp_path)
    load_model(tmp_path)
    alter(tmp_path / WEIGHTS, place)
    with pytest.raises(FileError, match=ALTERED) as raised:
        load_model(tmp_path)
    assert str(raised.value).count(str(tmp_path)) == 1


def test_a_folder_without_a_hash_loads_as_before(tmp_path):
    model = build({})
    model.save_pretrained(tmp_path)
    remove_hash(tmp_path)
    alter(tmp_path / WEIGHTS)
    loaded = load_model(tmp_path).state_dict()
    assert loaded.keys() == model.state_dict().keys()
    assert not all(torch.equal(x, loaded[name]) for name, x in model.state_dict().items())


def test_a_model_that_is_saved_again_has_the_hash_of_its_new_weights(tmp_path):
    build({}).save_pretrained(tmp_path)
    old = json.loads((tmp_path / CONFIG).read_text(encoding="utf-8"))
    build({}, seed=5).save_pretrained(tmp_path, extra=old)
    new = json.loads((tmp_path / CONFIG).read_text(encoding="utf-8"))
    assert new["weights_sha256"] != old["weights_sha256"]
    load_model(tmp_path)


def test_the_weights_of_a_model_that_is_not_ours_are_checked_too(tmp_path):
    save_bundle(tmp_path, nn.Linear(3, 2), task="own", vocabularies={}, settings={})
    load_bundle(tmp_path, "own").fill(nn.Linear(3, 2))
    alter(tmp_path / WEIGHTS, 0.999)
    with pytest.raises(FileError, match=ALTERED):
        load_bundle(tmp_path, "own").fill(nn.Linear(3, 2))


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_an_altered_copy_of_a_shipped_model_is_named(tmp_path, folder):
    for name in (CONFIG, WEIGHTS):
        shutil.copy(folder / name, tmp_path)
    load_model(tmp_path)
    alter(tmp_path / WEIGHTS)
    with pytest.raises(FileError, match=ALTERED):
        load_model(tmp_path)


def test_a_pickle_in_place_of_the_weights_is_refused_by_name(tmp_path):
    build({}).save_pretrained(tmp_path)
    (tmp_path / WEIGHTS).rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(FileError, match=r"pytorch_model\.bin is a pickle, .* there is no model\.safetensors"):
        load_model(tmp_path)


@pytest.mark.parametrize("kind", ["ours", "Hugging Face"])
def test_a_pointer_of_git_lfs_is_named(tmp_path, kind):
    if kind == "ours":
        build({}).save_pretrained(tmp_path)
    else:
        write_encoder(tmp_path)
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 123\n"
    (tmp_path / WEIGHTS).write_text(pointer)
    with pytest.raises(FileError, match=r"model\.safetensors: a pointer of Git LFS.*`git lfs pull`"):
        (load_model if kind == "ours" else load_huggingface)(tmp_path)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn, torch.float32])
def test_an_error_about_a_tensor_has_the_path_once(tmp_path, dtype):
    write_encoder(tmp_path)
    tensors = load_file(tmp_path / WEIGHTS)
    name = next(name for name in tensors if name.endswith("word_embeddings.weight"))
    tensors[name] = torch.full_like(tensors[name], float("nan") if dtype == torch.float32 else 1).to(dtype)
    save_file(tensors, tmp_path / WEIGHTS)
    with pytest.raises(FileError, match="holds numbers that are not finite|expected float32") as raised:
        load_huggingface(tmp_path)
    assert str(raised.value).count(str(tmp_path)) == 1


def test_tensors_of_no_known_part_are_warned_of(tmp_path):
    write_encoder(tmp_path)
    tensors = load_file(tmp_path / WEIGHTS) | {"classifier.bias": torch.ones(2)}
    save_file(tensors, tmp_path / WEIGHTS)
    load_huggingface(tmp_path)
    save_file(tensors | {"foo.lora": torch.ones(2)}, tmp_path / WEIGHTS)
    with pytest.warns(
        UserWarning, match=r"model\.safetensors: not used: 1 tensor .*\(the first: foo\.lora\)"
    ):
        load_huggingface(tmp_path)
