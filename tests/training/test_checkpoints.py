"""Tests that checkpoints are complete or absent after failures of the disk and of the writing process."""

import errno
import importlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from regard.errors import FileError
from regard.training import Checkpoint, latest_checkpoint, load_checkpoint, save_checkpoint, train
from regard.training import checkpoints as module
from support.training_runs import ToyTask, checkpoints, digest, options, run, toy


def made(value: float = 1.0) -> Checkpoint:
    tensors = {"model": {"a": torch.full((3,), value), "b": torch.eye(2)}, "empty": {}}
    return Checkpoint({"step": value, "text": "naïve 猫"}, tensors)


def save(folder: Path, *steps: int, keep: int = 99) -> list[Path]:
    return [save_checkpoint(folder, step, made(step), keep=keep) for step in steps]


# ---- files of a checkpoint


def test_a_saved_checkpoint_is_loaded_unchanged(tmp_path):
    (path,) = save(tmp_path, 7)
    found = load_checkpoint(path)
    assert path.name == "step-00000007"
    assert found.state == made(7).state
    assert found.tensors.keys() == {"model", "empty"}
    assert torch.equal(found.tensors["model"]["a"], torch.full((3,), 7.0))
    assert torch.equal(found.tensors["model"]["b"], torch.eye(2))


def test_a_checkpoint_has_only_safetensors_and_json_files(tmp_path):
    run(tmp_path)
    (path,) = checkpoints(tmp_path)[-1:]
    names = {file.name for file in path.iterdir()}
    tensors = {f"{name}.safetensors" for name in ("model", "optimizer", "random", "average")}
    assert names == {"manifest.json", "state.json", *tensors}
    for name in tensors:
        assert load_file(path / name)

    def refuse(word: str):
        raise AssertionError(f"{word} is not JSON")

    for name in ("manifest.json", "state.json"):
        json.loads((path / name).read_text(), parse_constant=refuse)


def test_the_newest_are_kept_by_number_not_by_name(tmp_path):
    save(tmp_path, 99999999, 100000000, 5, keep=2)
    assert {path.name for path in tmp_path.iterdir()} == {"step-99999999", "step-100000000"}
    assert latest_checkpoint(tmp_path).name == "step-100000000"


def test_files_are_on_the_disk_before_the_name_is(tmp_path, monkeypatch):
    events = []
    fsync, rename = os.fsync, os.rename

    def flush(handle):
        events.append(("fsync", Path(os.readlink(f"/proc/self/fd/{handle}")).name))
        fsync(handle)

    def renamed(old, new):
        events.append(("rename", Path(new).name))
        rename(old, new)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "rename", renamed)
    save(tmp_path, 3)
    at = events.index(("rename", "step-00000003"))
    files = {"manifest.json", "state.json", "model.safetensors", "empty.safetensors", ".step-00000003.part"}
    assert {name for kind, name in events[:at] if kind == "fsync"} == files
    assert events[at + 1 :] == [("fsync", tmp_path.name)]


def test_a_checkpoint_of_the_same_step_is_replaced(tmp_path):
    save(tmp_path, 3)
    save_checkpoint(tmp_path, 3, made(4), keep=2)
    assert load_checkpoint(tmp_path / "step-00000003").state["step"] == 4
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000003"]


def test_leftovers_of_a_killed_process_are_removed(tmp_path):
    save(tmp_path, 1)
    for name in (".step-00000001.part", ".step-00000001.999.part", ".step-00000001.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "state.json").write_text("{")
    save(tmp_path, 2)
    assert {path.name for path in tmp_path.iterdir()} == {"step-00000001", "step-00000002"}


def test_a_folder_renamed_by_a_killed_process_is_put_back(tmp_path):
    save(tmp_path, 1)
    os.rename(tmp_path / "step-00000001", tmp_path / ".step-00000001.old")  # killed before the new one came
    save(tmp_path, 2)
    assert {path.name for path in tmp_path.iterdir()} == {"step-00000001", "step-00000002"}
    assert load_checkpoint(tmp_path / "step-00000001").state["step"] == 1


def test_a_missing_folder_has_no_checkpoint(tmp_path):
    assert latest_checkpoint(tmp_path / "none") is None


# ---- damage


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


FILES = ["model.safetensors", "empty.safetensors", "state.json"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [cut, flip], ids=["cut", "flip"])
def test_altered_files_are_noticed(tmp_path, name, damage):
    (path,) = save(tmp_path, 1)
    damage(path / name)
    with pytest.raises(FileError, match=f"{name}: altered or cut short"):
        load_checkpoint(path)


@pytest.mark.parametrize("name", FILES)
def test_missing_files_are_noticed(tmp_path, name):
    (path,) = save(tmp_path, 1)
    (path / name).unlink()
    with pytest.raises(FileError, match=f"step-00000001: {name} is missing"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        ('{"format": 1, "fi', "not JSON, or cut short"),
        ("[1]", "expected a JSON object, got list"),
        ('{"format": 1, "files": {}}', "not the manifest"),
        ('{"format": 99, "files": {"state.json": ""}}', "not the manifest"),
    ],
)
def test_a_broken_manifest_is_an_error(tmp_path, content, message):
    (path,) = save(tmp_path, 1)
    (path / "manifest.json").unlink()
    if content is not None:
        (path / "manifest.json").write_text(content)
    with pytest.raises(FileError, match=message):
        load_checkpoint(path)


def test_a_broken_tensor_file_with_a_matching_manifest_is_an_error(tmp_path):
    (path,) = save(tmp_path, 1)
    (path / "model.safetensors").write_bytes(b"nothing of the kind")
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["files"]["model.safetensors"] = module._hash(path / "model.safetensors")
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(FileError, match="step-00000001"):
        load_checkpoint(path)


def test_resuming_falls_back_to_the_one_before_and_says_so(tmp_path, capsys):
    run(tmp_path / "whole", steps=8, save_every=2, keep=99)
    folder = tmp_path / "damaged"
    run(folder, steps=8, save_every=2, keep=99)
    cut(folder / "checkpoints" / "step-00000008" / "model.safetensors")
    (folder / "checkpoints" / "step-00000006" / "state.json").unlink()
    capsys.readouterr()
    outcome = run(folder, resume=True, steps=8, save_every=2, keep=99)
    said = capsys.readouterr().err
    assert outcome.step == 8
    assert said.count("WARNING") == 2
    assert "step-00000008/model.safetensors: altered or cut short" in said
    assert "step-00000006: state.json is missing" in said
    assert "goes on from the one before it, at step 4" in said
    names = {path.name for path in (folder / "checkpoints").iterdir()}
    assert {"damaged-step-00000006", "damaged-step-00000008"} < names
    for name in ("step-00000006", "step-00000008"):
        assert digest(folder / "checkpoints" / name) == digest(tmp_path / "whole" / "checkpoints" / name)


def test_a_damaged_newer_one_does_not_push_out_whole_ones(tmp_path):
    run(tmp_path, steps=6, save_every=3, keep=2)
    cut(tmp_path / "checkpoints" / "step-00000006" / "state.json")
    run(tmp_path, resume=True, steps=5, save_every=4, keep=1)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000005"]


def test_without_a_whole_checkpoint_resuming_is_an_error(tmp_path):
    run(tmp_path, steps=4, save_every=2)
    for path in checkpoints(tmp_path):
        cut(path / "state.json")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    with pytest.raises(FileError, match="no checkpoint is complete: .*step-00000004.*step-00000002"):
        run(tmp_path, resume=True)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


# ---- a full disk


def full(*arguments, **keywords):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("what", ["save_file", "_write_json", "_flush", "sync_folder"])
def test_a_full_disk_leaves_the_checkpoint_before(tmp_path, monkeypatch, what):
    (before,) = save(tmp_path, 1)
    monkeypatch.setattr(module, what, full)
    message = (
        "cannot write .*step-00000002: No space left on device: the checkpoint before it, .*1, is complete"
    )
    with pytest.raises(FileError, match=message):
        save(tmp_path, 2)
    assert load_checkpoint(before).state["step"] == 1
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_full_disk_at_the_first_checkpoint_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_write_json", full)
    with pytest.raises(FileError, match="No space left on device: there is no earlier checkpoint"):
        save(tmp_path, 1)


def test_a_full_disk_while_the_best_model_is_written(tmp_path):
    class Full(ToyTask):
        def save(self, model, folder, results):
            super().save(model, folder, results)
            if self.saved == 2:
                full()

    with pytest.raises(FileError, match="cannot write .*best: No space left on device"):
        run(tmp_path, task=Full(scores=[2.0, 1.0, 0.5]), validate_every=2)
    assert json.loads((tmp_path / "best" / "results.json").read_text())["step"] == 2
    assert not list(tmp_path.glob(".best*"))


def test_best_is_put_back_after_a_crash_between_the_renames(tmp_path):
    run(tmp_path, steps=4, save_every=2)
    os.rename(tmp_path / "best", tmp_path / ".best.old")
    run(tmp_path, resume=True, steps=4)
    assert (tmp_path / "best" / "results.json").is_file()


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a disk to fill cannot be mounted here: that takes root")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_run_on_a_full_disk_ends_with_one_line_and_can_be_resumed(small_disk, capsys):
    cli = importlib.import_module("regard.cli.main")  # regard.cli has a function of that name

    def fill():
        chosen = options(steps=500, save_every=1, keep=500, validate_every=500)
        train(toy(), ToyTask(), chosen, small_disk / "run", show=False)

    cli.app.command("fill-the-disk")(fill)
    try:
        with pytest.raises(SystemExit) as stop:
            cli.main(["fill-the-disk"])
    finally:
        cli.app.registered_commands.pop()
    said = capsys.readouterr().err
    assert stop.value.code == 1
    assert len(said.splitlines()) == 1
    assert said.startswith("regard: cannot write ")
    assert "No space left on device" in said or "os error 28" in said
    newest = latest_checkpoint(small_disk / "run" / "checkpoints")
    assert f"the checkpoint before it, {newest}, is complete" in said
    assert load_checkpoint(newest).state["progress"]["step"] > 1
    for path in checkpoints(small_disk / "run")[:-1]:
        shutil.rmtree(path)
    assert run(small_disk / "run", resume=True, steps=40, save_every=20).stopped == "finished"
