"""Measure what the number of heads, dropout, the place of the norms and the warm-up change in a small language model.

python benchmarks/tutorial_ablations.py            all parts
python benchmarks/tutorial_ablations.py heads      one part: heads, dropout, norm
python benchmarks/tutorial_ablations.py --quick    one seed and few updates, to see that it runs

A decoder of width 64 with 2 layers (6 in the part norm) learns to predict the next word of English sentences
of the embedded corpus. The perplexity is that of 500 other sentences after the last update. Each row is the
mean over the seeds, with the lowest and the highest of them. A run whose loss is no longer finite counts as
diverged.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard import get_linear_schedule_with_warmup
from regard.corpus import generate
from regard.models import LanguageModel, LanguageModelConfig
from regard.text import pad_sequences, train_vocabulary

HELD_OUT = 500  # sentences that the perplexity is measured on
BATCH = 32


@dataclass(frozen=True)
class Row:
    """One setting of the table."""

    name: str
    model: dict[str, Any] = field(default_factory=dict)
    sentences: int = 8000
    updates: int = 300
    warmup: int = 50
    rate: float = 3e-3


PARTS: dict[str, list[Row]] = {
    "heads": [Row(f"{heads} heads of width {64 // heads}", {"heads": heads}) for heads in (1, 4, 16, 64)],
    "dropout": [
        Row(f"{sentences:,} sentences, dropout {share}", {"dropout": share}, sentences, updates=400)
        for sentences in (500, 8000)
        for share in (0.0, 0.3)
    ],
    "norm": [
        Row(
            f"{norm}-norm, {warmup} steps of warm-up",
            {"norm": norm, "layers": 6},
            updates=150,
            warmup=warmup,
        )
        for norm in ("pre", "post")
        for warmup in (0, 50)
    ],
}


class Sentences:
    """Encoded sentences to train on and to measure on, which the generator never repeats."""

    def __init__(self, count: int):
        texts = [triple.english.text for triple in generate(count + HELD_OUT)]
        self.vocabulary = train_vocabulary("word", texts[HELD_OUT:], 2000)
        encoded = self.vocabulary.encode_batch(texts)
        self.measured, self.train = encoded[:HELD_OUT], encoded[HELD_OUT:]

    def batch(self, some: list[list[int]]) -> tuple[Tensor, Tensor]:
        """Return the input and the target tokens, ``(b,n)`` each."""
        tokens, _ = pad_sequences(some, start=self.vocabulary.bos, end=self.vocabulary.eos)  # (b,n+1)
        return tokens[:, :-1], tokens[:, 1:]

    def drawn(self, generator: torch.Generator, sentences: int) -> tuple[Tensor, Tensor]:
        """Return a batch of random sentences out of the first ``sentences`` to train on."""
        places = torch.randint(sentences, (BATCH,), generator=generator).tolist()
        return self.batch([self.train[place] for place in places])


def loss_of(model: LanguageModel, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
    """Return the summed cross-entropy of a batch, and its number of tokens."""
    tokens, target = batch
    real = target != 0  # (b,n); 0 is padding
    loss = nn.functional.cross_entropy(model(tokens)[real], target[real], reduction="sum")
    return loss, int(real.sum())


def perplexity(row: Row, data: Sentences, seed: int, updates: int) -> float:
    """Train a model with the settings of a row, and return its perplexity, or infinity if it diverged."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    settings = {"layers": 2, "heads": 4, "dropout": 0.0, **row.model}
    config = LanguageModelConfig(vocabulary_size=len(data.vocabulary), width=64, feed_forward=128, **settings)
    model = LanguageModel(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=row.rate, weight_decay=0.0)
    schedule = get_linear_schedule_with_warmup(optimizer, min(row.warmup, updates), updates)
    for _ in range(updates):
        loss, tokens = loss_of(model, data.drawn(generator, row.sentences))
        if not loss.isfinite():
            return math.inf
        optimizer.zero_grad()
        (loss / tokens).backward()
        optimizer.step()
        schedule.step()
    model.eval()
    with torch.no_grad():
        parts = [
            loss_of(model, data.batch(data.measured[start : start + BATCH]))
            for start in range(0, HELD_OUT, BATCH)
        ]
    total = sum(float(loss) for loss, _ in parts) / sum(tokens for _, tokens in parts)
    return math.exp(total) if total < 50 else math.inf


def show(name: str, rows: list[Row], data: Sentences, seeds: int, quick: bool) -> None:
    """Train the rows of a part, and print their perplexities."""
    print(f"\n{name}: perplexity of {HELD_OUT} held-out sentences, mean (lowest to highest of {seeds} seeds)")
    for row in rows:
        updates = 20 if quick else row.updates
        began = time.process_time()
        values = [perplexity(row, data, seed, updates) for seed in range(seeds)]
        finite = [one for one in values if one < math.inf]
        shown = "diverged"
        if finite:
            mean = sum(finite) / len(finite)
            shown = f"{mean:8.2f} ({min(finite):.2f} to {max(finite):.2f})"
        lost = f", {len(values) - len(finite)} diverged" if finite and len(finite) < len(values) else ""
        print(f"  {row.name:45} {shown}{lost}   [{time.process_time() - began:.0f} s]", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="?", choices=list(PARTS))
    parser.add_argument("--only", default="", help="only the rows whose name contains this")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one seed and 20 updates")
    given = parser.parse_args()
    torch.set_num_threads(1)
    data = Sentences(max(row.sentences for rows in PARTS.values() for row in rows))
    print(f"{len(data.vocabulary)} words in the vocabulary")
    for name, rows in PARTS.items():
        if given.part in (None, name):
            some = [row for row in rows if given.only in row.name]
            show(name, some, data, 1 if given.quick else given.seeds, given.quick)


if __name__ == "__main__":
    main()
