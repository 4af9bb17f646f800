"""A small model to train, and a host that trains it in separate processes, for the tests of training.

The host imports torch once and forks, so that a process to be killed costs a hundredth of a second, not two.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.errors import RegardError
from regard.training import Outcome, TrainingOptions, load_checkpoint, loop, output_cross_entropy, train

# 7 batches an epoch: an odd number, so that groups of 2 leave a rest.
WORDS, WIDTH, BATCHES = 13, 5, 7


class Toy(nn.Module):
    """143 weights that learn what follows each of 13 words."""

    def __init__(self, dropout: float = 0.0, width: int = WIDTH):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, width)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, WORDS)
        self.register_buffer("seen", torch.zeros(()))

    def hidden(self, words: Tensor) -> Tensor:
        if self.training:
            self.seen += 1
        return self.dropout(self.embedding(words))  # (n,m)


def toy(dropout: float = 0.0, width: int = WIDTH) -> Toy:
    torch.manual_seed(5)
    return Toy(dropout, width)


Batch = tuple[Tensor, Tensor]  # words (n,), what follows them (n,)


@dataclass
class ToyTask:
    """28 short texts, four a batch, of lengths from 1 to 11."""

    metric: str = "loss"
    higher_is_better: bool = False
    # What validations give, one after the other.
    scores: list[float] = field(default_factory=list)
    log: Path | None = None  # a byte for each batch that is begun
    die_at: int = 0  # at this batch the process kills itself
    signal_at: int = 0  # Ctrl-C arrives at this batch
    nan_at: int = 0
    pause: float = 0.0
    per_epoch: int = BATCHES
    calls: int = 0
    validated: list[float] = field(default_factory=list)
    saved: int = 0

    def batches_per_epoch(self, world: int) -> int:
        return self.per_epoch

    def batches(self, epoch: int, start: int, rank: int, world: int) -> Iterator[Any]:
        order = torch.randperm(28, generator=torch.Generator().manual_seed(1000 + epoch))
        for i in range(start, self.per_epoch):
            texts = [self.text(int(n)) for n in order[4 * i : 4 * i + 4]][rank::world]
            words = torch.cat(texts)
            yield words, (3 * words + 1) % WORDS

    def text(self, n: int) -> Tensor:
        return torch.arange(1 + n * 5 % 11) * (n + 2) % WORDS  # (t,)

    def count(self, batch: Batch) -> int:
        return len(batch[0])

    def tokens_read(self, batch: Batch) -> int:
        return len(batch[0])

    def to_device(self, batch: Batch, device: torch.device) -> Batch:
        return batch

    def loss(self, model: Any, batch: Batch) -> Tensor:
        self.calls += 1
        self._mishaps()
        words, following = batch
        hidden = model.hidden(words)
        loss = output_cross_entropy(hidden, model.output.weight, model.output.bias, following, smoothing=0.1)
        return loss * torch.nan if self.calls == self.nan_at else loss

    def _mishaps(self) -> None:
        if self.log is not None:
            with open(self.log, "ab") as file:
                file.write(b".")
        if self.calls == self.die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.calls == self.signal_at:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(self.pause)

    def validate(self, model: Any) -> dict[str, float]:
        assert not model.training
        torch.rand(3)  # what must not disturb the training
        weight, bias = model.output.weight, model.output.bias
        words = torch.arange(WORDS)
        loss = output_cross_entropy(model.hidden(words), weight, bias, (3 * words + 1) % WORDS) / WORDS
        score = self.scores[len(self.validated)] if self.scores else float(loss)
        self.validated.append(score)
        return {self.metric: score, "infinite": float("inf")}

    def save(self, model: nn.Module, folder: Path, results: dict[str, Any]) -> None:
        self.saved += 1
        folder.mkdir(parents=True, exist_ok=True)
        save_file(dict(model.state_dict()), folder / "model.safetensors")
        (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")


def options(**values: Any) -> TrainingOptions:
    given = {"epochs": None, "steps": 12, "learning_rate": 0.05, "warmup": 3, "average": 0.9}
    return TrainingOptions(**{**given, **values})


def run(folder: Path, *, resume: bool = False, dropout: float = 0.0, task: Any = None, **values) -> Outcome:
    task = task or ToyTask()
    return train(toy(dropout), task, options(**values), folder, resume=resume, show=False)


def checkpoints(folder: Path) -> list[Path]:
    return sorted((folder / "checkpoints").glob("step-*"))


def digest(checkpoint: Path, *, numbers: bool = True) -> str:
    """Return a hash of the tensors and the state of a checkpoint, without the seconds it took."""
    held = load_checkpoint(checkpoint)
    for name in ("seconds", "training_seconds"):
        del held.state["progress"][name]
    found = hashlib.sha256(json.dumps(held.state, sort_keys=True).encode() if numbers else b"")
    for table in sorted(held.tensors):
        for name in sorted(held.tensors[table]):
            tensor = held.tensors[table][name]
            found.update(f"{table} {name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            found.update(tensor.numpy().tobytes())
    return found.hexdigest()


def digests(folder: Path, *, numbers: bool = True) -> dict[str, str]:
    return {path.name: digest(path, numbers=numbers) for path in checkpoints(folder)}


def losses(folder: Path) -> list[float]:
    """Return the loss of each step, if every step is in the log."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "learning_rate" in line]


def best_weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "best" / "model.safetensors")


# ---- processes


def job(spec: dict[str, Any]) -> int:
    """Train as requested, and on failure print one line to stderr and return 1, as the command line does."""
    loop._REPORT_EVERY = 1
    mishaps = spec.get("mishaps", {})
    mine = mishaps.get(os.environ.get("RANK", "0"), {})
    log = Path(spec["folder"] + f".log{os.environ.get('RANK', '0')}")
    task = ToyTask(log=log, pause=spec.get("pause", 0.0), **mine)
    try:
        outcome = run(
            Path(spec["folder"]),
            resume=spec.get("resume", False),
            dropout=spec.get("dropout", 0.0),
            task=task,
            **spec.get("options", {}),
        )
    except RegardError as error:
        print(f"regard: {error}", file=sys.stderr, flush=True)
        return 1
    print(f"{outcome.stopped} at {outcome.step}", flush=True)
    return 0


class Host:
    """A process that forks children. :meth:`run` returns the exit code and output of each child."""

    def __init__(self):
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "host"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def run(self, folder: Path, *, world: int = 1, **spec: Any) -> list[tuple[int, str]]:
        """Run until all processes have ended. ``signals`` has [rank, signal, {"batches": n} or {"seconds": s}]."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        order = {"folder": str(folder), "world": world, "port": free_port(), **spec}
        print(json.dumps(order), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        assert answer, "the host has died"
        return [(code, _without_logs(Path(output).read_text())) for code, output in json.loads(answer)]

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


def _without_logs(text: str) -> str:
    """Remove lines that torch itself writes, such as "[Gloo] Rank 0 is connected …"."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("["))


def free_port() -> int:
    """Return a port below the range for outgoing connections, so that no other process takes it before it is used."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as held, contextlib.suppress(OSError):
            held.bind(("127.0.0.1", port))
            return port


def serve() -> None:
    torch.set_num_threads(1)
    for line in sys.stdin:
        spec = json.loads(line)
        children = [_forked(spec, rank) for rank in range(spec["world"])]
        codes = _watched(children, spec)
        outputs = [f"{spec['folder']}.out{rank}" for rank in range(spec["world"])]
        print(json.dumps(list(zip(codes, outputs, strict=True))), flush=True)


def _forked(spec: dict[str, Any], rank: int) -> int:
    log = Path(f"{spec['folder']}.log{rank}")
    log.unlink(missing_ok=True)
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        out = os.open(f"{spec['folder']}.out{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(out, stream)
        if spec["world"] > 1:
            os.environ.update(
                RANK=str(rank),
                LOCAL_RANK=str(rank),
                WORLD_SIZE=str(spec["world"]),
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=str(spec["port"]),
            )
        code = job(spec)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _watched(children: list[int], spec: dict[str, Any]) -> list[int]:
    """Wait for the children, send the signals that are due, and kill the children after two minutes."""
    began, signals = time.monotonic(), list(spec.get("signals", []))
    codes: dict[int, int] = {}
    while len(codes) < len(children):
        for child in children:
            ended, status = os.waitpid(child, os.WNOHANG) if child not in codes else (0, 0)
            if ended:
                codes[child] = os.waitstatus_to_exitcode(status)
        if signals and _due(signals[0][2], spec, signals[0][0], began):
            rank, number, _ = signals.pop(0)
            if children[rank] not in codes:
                os.kill(children[rank], number)
        if time.monotonic() - began > 120:
            for child in children:
                if child not in codes:
                    os.kill(child, signal.SIGKILL)
        time.sleep(0.001)
    return [codes[child] for child in children]


def _due(when: dict[str, float], spec: dict[str, Any], rank: int, began: float) -> bool:
    if "seconds" in when:
        return time.monotonic() - began > when["seconds"]
    log = Path(f"{spec['folder']}.log{rank}")
    return log.exists() and log.stat().st_size >= when["batches"]


if __name__ == "__main__":
    if sys.argv[1] == "host":
        serve()
    else:
        raise SystemExit(job(json.loads(sys.argv[1])))
