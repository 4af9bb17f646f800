"""Tests of training on two machines without a shared disk, which both have the data."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.corpus import generate
from support.forked_commands import CommandHost
from support.training_runs import free_port

WORDS = [
    *("train", "translate", "--data", "train.tsv", "--valid", "valid.tsv", "--out", "run"),
    *("--vocabulary-size", "300", "--width", "16", "--heads", "2", "--feed-forward", "32", "--dropout", "0"),
    *("--encoder-layers", "1", "--decoder-layers", "1", "--batch-tokens", "400", "--validate-sentences", "5"),
]

# A thread of the process group that needs Python while Python ends would abort the process, so a process of several has
# to end before.
TELLS_THE_END = 'import atexit; atexit.register(lambda: print("Python ends"))'


@pytest.fixture(scope="module")
def host():
    held = CommandHost()
    yield held
    held.close()


def machines(*folders: Path) -> None:
    pairs = [f"{triple.english.text}\t{triple.french.text}\n" for triple in generate(120, seed=5)]
    for folder in folders:
        folder.mkdir()
        (folder / "train.tsv").write_text("".join(pairs[:100]), encoding="utf-8")
        (folder / "valid.tsv").write_text("".join(pairs[100:]), encoding="utf-8")


def run(host: CommandHost, folders: list[Path], *words: str) -> list[tuple[int, str]]:
    """Run the same command on each machine, and return the exit codes and outputs."""
    group = {
        "WORLD_SIZE": str(len(folders)),
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    results = host.run(list(words), folders, code=TELLS_THE_END, **group)
    assert all(("Python ends" in output) == (len(folders) == 1) for _, output in results), results
    return results


def losses(folder: Path) -> list[float]:
    lines = (folder / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [value["loss"] for value in map(json.loads, lines) if "loss" in value]


def test_two_machines_train_and_go_on_together(host, tmp_path):
    """They train with the copy mechanism, whose loss needs the source too, and give the losses of one machine."""
    alone, first, second = (tmp_path / name for name in ("alone", "first", "second"))
    machines(alone, first, second)
    (second / "run").mkdir()
    (second / "run" / "tokenizer.json").write_text("{}")  # of another run, long ago
    assert [code for code, _ in run(host, [alone], *WORDS, "--copy", "--steps", "50")] == [0]
    results = run(host, [first, second], *WORDS, "--copy", "--steps", "50")
    assert [code for code, _ in results] == [0, 0], results
    assert abs(losses(first)[-1] - losses(alone)[-1]) < 1e-4
    files = [(folder / "run" / "tokenizer.json").read_bytes() for folder in (alone, first, second)]
    assert files[0] == files[1] == files[2]
    assert not (second / "run" / "settings.json").exists()
    resume = ["train", "translate", "--resume", "--out", "run", "--steps", "60"]
    results = run(host, [first, second], *resume)
    assert [code for code, _ in results] == [0, 0], results
    assert "after 60 steps" in results[0][1]


def test_machines_with_different_data_are_refused(host, tmp_path):
    folders = [tmp_path / "first", tmp_path / "second"]
    machines(*folders)
    with open(folders[1] / "train.tsv", "a", encoding="utf-8") as file:
        file.write("One more.\tUn de plus.\n")
    results = run(host, folders, *WORDS, "--steps", "2")
    assert [code for code, _ in results] == [1, 1], results
    assert all("the processes have different training data" in text for _, text in results)


@pytest.mark.slow
def test_the_command_of_the_guide_trains_and_resumes_under_torchrun(tmp_path):
    machines(tmp_path / "one")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for words in (["--steps", "3"], ["--steps", "5", "--resume"]):
        done = subprocess.run(
            [*launch, "-m", "regard", *WORDS, *words],
            cwd=tmp_path / "one",
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        assert f"finished after {words[1]} steps" in done.stdout
