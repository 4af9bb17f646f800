"""Compare `regard train write` with nanoGPT's recipe for a CPU, on tiny_shakespeare by character.

python benchmarks/bench_write.py                 nanoGPT's recipe (2,000 steps), then Regard for 3 minutes
python benchmarks/bench_write.py --minutes 60 -- --width 256 --layers 6    other settings of `regard train write`

nanoGPT's recipe (its README, "i only have a macbook") is 4 layers, 4 heads, width 128, context 64, 12 parts of text in
a batch, 2,000 steps, a learning rate from 1e-3 to 1e-4 on a cosine, and no dropout. The network and the loop of that
recipe are written here in plain torch. The text is the file of tiny_shakespeare in REGARD_DATA or ../shared/data, of
which the last tenth is validated on. Both losses are over every character of it, once.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard import tasks
from regard.cli.task_commands import with_settings
from regard.tasks.write.data import read_chunks
from regard.tasks.write.scoring import nats_of_tokens
from regard.tasks.write.settings import WritingSettings

DATA = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[2] / "shared" / "data"))
TEXT = DATA / "tiny_shakespeare" / "input.txt.gz"
LAYERS, HEADS, WIDTH, CONTEXT, ROWS, STEPS, WARMUP = 4, 4, 128, 64, 12, 2000, 100
HIGHEST, LOWEST = 1e-3, 1e-4  # learning rates


class Line(NamedTuple):
    """One row of the table."""

    model: str
    parameters: int
    steps: int
    seconds: float
    tokens: int
    loss: float


class Layer(nn.Module):
    """One layer of GPT-2, with the norms before its two parts and without biases."""

    def __init__(self):
        super().__init__()
        self.before_attention, self.before_mlp = (nn.LayerNorm(WIDTH, bias=False) for _ in range(2))
        self.qkv, self.mixed = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.wide, self.narrow = (
            nn.Linear(WIDTH, 4 * WIDTH, bias=False),
            nn.Linear(4 * WIDTH, WIDTH, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the states (b,n,m) after attention and the feed-forward layer."""
        b, n, m = x.shape
        q, k, v = self.qkv(self.before_attention(x)).view(b, n, 3, HEADS, m // HEADS).permute(2, 0, 3, 1, 4)
        context = functional.scaled_dot_product_attention(q, k, v, is_causal=True)  # (b,h,n,d)
        x = x + self.mixed(context.transpose(1, 2).reshape(b, n, m))
        return x + self.narrow(functional.gelu(self.wide(self.before_mlp(x))))


class PlainGPT(nn.Module):
    """The network of GPT-2 in plain torch, with learned positions and a tied output."""

    def __init__(self, size: int):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(size, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.output = nn.LayerNorm(WIDTH, bias=False), nn.Linear(WIDTH, size, bias=False)
        for name, p in self.named_parameters():
            if p.ndim > 1:
                last = name.endswith(("mixed.weight", "narrow.weight"))
                nn.init.normal_(p, std=0.02 / (math.sqrt(2 * LAYERS) if last else 1))
        self.output.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Return the logits (b,n,v) of the next token."""
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))  # (b,n,m)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def rate(step: int) -> float:
    """Return the learning rate of a step, from 0 on."""
    if step < WARMUP:
        return HIGHEST * (step + 1) / (WARMUP + 1)
    share = (step - WARMUP) / (STEPS - WARMUP)
    return LOWEST + 0.5 * (1 + math.cos(math.pi * share)) * (HIGHEST - LOWEST)


def plain_gpt(text: str) -> Line:
    """Train the plain network by nanoGPT's recipe, and measure it."""
    letters = sorted(set(text))
    ids = torch.tensor([letters.index(letter) for letter in text])  # (n,)
    first = int(0.9 * len(ids))
    torch.manual_seed(1337)
    model = PlainGPT(len(letters))
    matrices = [p for p in model.parameters() if p.ndim > 1]
    groups = [
        {"params": matrices, "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=HIGHEST, betas=(0.9, 0.99), fused=True)
    began = time.perf_counter()
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        places = torch.randint(first - CONTEXT, (ROWS, 1)) + torch.arange(CONTEXT + 1)  # (b,n+1)
        batch = ids[places]
        logits = model(batch[:, :-1])  # (b,n,v)
        loss = functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    seconds = time.perf_counter() - began
    nats = nats_of_tokens(model.eval(), ids.numpy()[first - CONTEXT :], context=CONTEXT, before=CONTEXT)
    count = sum(p.numel() for p in model.parameters())
    tokens = STEPS * ROWS * CONTEXT
    return Line("plain GPT, nanoGPT's recipe", count, STEPS, seconds, tokens, nats / (len(ids) - first))


def regard_writer(settings: dict[str, Any]) -> Line:
    """Train a writer, and measure it on the same characters."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = tasks.train("write", {"data": str(TEXT), "validate_every": 10**9, **settings}, folder)
        writer = tasks.load(folder)
        batch = tasks.settings_of_run(folder).batch_tokens
    loss = tasks.evaluate("write", writer, {"data": str(TEXT), "last": 0.1}).to_json()["loss"]
    count = sum(p.numel() for p in writer.model.parameters())
    seconds = outcome.training_seconds
    return Line("regard train write", count, outcome.step, seconds, outcome.step * batch, loss)


def _settings(words: list[str]) -> dict[str, Any]:
    """Return the settings that flags of `regard train write` stand for."""
    import typer

    found: dict[str, Any] = {}

    def keep(settings: dict[str, Any]) -> None:
        found.update(settings)

    app = typer.Typer(add_completion=False)
    app.command()(with_settings(WritingSettings, keep))
    app(words, standalone_mode=False)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=3.0, help="minutes of training of Regard")
    parser.add_argument("settings", nargs="*", help="settings of `regard train write`, after --")
    given = parser.parse_args()
    if not TEXT.is_file():
        sys.exit(f"the text is not in {TEXT}: set REGARD_DATA to the folder that holds tiny_shakespeare")
    text = "".join(read_chunks(str(TEXT)))
    lines = [plain_gpt(text), regard_writer({"minutes": given.minutes, **_settings(given.settings)})]
    print("| model | parameters | steps | seconds | tokens read | validation loss |")
    print("|---|---|---|---|---|---|")
    for line in lines:
        numbers = f"{line.parameters:,} | {line.steps:,} | {line.seconds:.0f} | {line.tokens:,}"
        print(f"| {line.model} | {numbers} | {line.loss:.4f} |")


if __name__ == "__main__":
    main()
