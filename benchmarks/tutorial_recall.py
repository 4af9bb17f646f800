"""Compare convolutions, a recurrent network and attention by what they recall, and by their time and memory.

python benchmarks/tutorial_recall.py                         both parts
python benchmarks/tutorial_recall.py recall --only gru --distances 16,64
python benchmarks/tutorial_recall.py recall --only attention --distances 256 --rate 0.001   from new weights
python benchmarks/tutorial_recall.py cost

Recall: a sequence starts with two pairs of a key and a value. A number of steps with other keys and random
values follow, which is the distance. The last step has one of the two keys without its value, and the model
has to give the value. Each model is trained at the shortest distance first, and then goes on at the next one. At
each distance it is trained on new sequences in every batch, until it has solved the task, has made 3,000 updates or
has taken ten minutes of processor time. It is measured on 1,000 other sequences. Guessing one of the two values is
right in 50 % of the cases, and guessing any value in 12.5 %.

Cost: one layer of each kind reads sequences of different lengths, forward and backward. The time is that of
the processor, on one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from harness import peak_bytes
from torch import Tensor, nn

from regard import MultiHeadAttention, causal, window

KEYS, VALUES, PAIRS = 8, 8, 2
WIDTH, BATCH, UPDATES, WARMUP = 64, 32, 3000, 50
RATE = 2e-3
# The most processor time at one distance, in seconds.
MOST_SECONDS = 600
DISTANCES = (16, 64, 256, 1024)
LENGTHS = (256, 512, 1024, 2048, 4096)
MEASURED, CHECK_EVERY = 1000, 50  # sequences that a trained model is measured on; updates between checks


def sequences(count: int, distance: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Return the keys ``(b,n)`` and the values ``(b,n)`` of the steps, and the values to recall ``(b,)``."""
    steps = PAIRS + distance + 1
    # The keys of the steps between are other ones, from KEYS on.
    keys = torch.randint(KEYS, 2 * KEYS, (count, steps), generator=generator)  # (b,n)
    values = torch.randint(VALUES, (count, steps), generator=generator)  # (b,n)
    chosen = torch.rand(count, KEYS, generator=generator).argsort(dim=1)[
        :, :PAIRS
    ]  # (b,pairs), all different
    keys[:, :PAIRS] = chosen
    asked = torch.randint(PAIRS, (count, 1), generator=generator)  # (b,1)
    keys[:, -1:] = chosen.gather(1, asked)
    answers = values.gather(1, asked)[:, 0]  # (b,)
    # The value VALUES stands for the question.
    values[:, -1] = VALUES
    return keys, values, answers


# ---- the models, each from (b,n,m) to (b,n,m)


class Convolutions(nn.Module):
    """Convolutions over the steps before each step, with a residual connection around each."""

    def __init__(self, width: int, size: int, dilations: list[int]):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in dilations)
        self.layers = nn.ModuleList(nn.Conv1d(width, width, size, dilation=step) for step in dilations)
        self.reach = [(size - 1) * step for step in dilations]

    def forward(self, x: Tensor) -> Tensor:
        """Return the states after all convolutions."""
        for norm, layer, reach in zip(self.norms, self.layers, self.reach, strict=True):
            y = nn.functional.pad(norm(x).transpose(1, 2), (reach, 0))  # (b,m,reach+n)
            x = x + nn.functional.gelu(layer(y)).transpose(1, 2)  # (b,n,m)
        return x


class Recurrent(nn.Module):
    """A GRU."""

    def __init__(self, width: int):
        super().__init__()
        self.layer = nn.GRU(width, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Return the states of all steps."""
        return self.layer(x)[0]


class Attention(nn.Module):
    """Blocks of causal multi-head attention and a feed-forward layer, without positions."""

    def __init__(self, width: int, layers: int = 2, heads: int = 4):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.attentions = nn.ModuleList(MultiHeadAttention(width, heads) for _ in range(layers))
        self.feeds = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            for _ in range(layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the states after all blocks."""
        for place, (attend, feed) in enumerate(zip(self.attentions, self.feeds, strict=True)):
            y = self.norms[2 * place](x)
            x = x + attend(y, y, y, causal(), need_weights=False)[0]  # (b,n,m)
            x = x + feed(self.norms[2 * place + 1](x))
        return x


BODIES: dict[str, Callable[[], nn.Module]] = {
    "convolution": lambda: Convolutions(WIDTH, 9, [1] * 4),
    "dilated": lambda: Convolutions(WIDTH, 3, [2**place for place in range(10)]),
    "gru": lambda: Recurrent(WIDTH),
    "attention": lambda: Attention(WIDTH),
}


class Recaller(nn.Module):
    """A model that reads keys and values, and predicts the value of the last key."""

    def __init__(self, body: nn.Module):
        super().__init__()
        self.keys, self.values = nn.Embedding(2 * KEYS, WIDTH), nn.Embedding(VALUES + 1, WIDTH)
        self.body = body
        self.output = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, VALUES))

    def forward(self, keys: Tensor, values: Tensor) -> Tensor:
        """Return the logits ``(b,values)`` after the last step."""
        return self.output(self.body(self.keys(keys) + self.values(values))[:, -1])


def right_share(model: Recaller, count: int, distance: int, seed: int) -> float:
    """Return the share of right values in ``count`` new sequences."""
    with torch.no_grad():
        keys, values, answers = sequences(count, distance, torch.Generator().manual_seed(seed))
        return float((model(keys, values).argmax(dim=-1) == answers).float().mean())


def train(model: Recaller, distance: int, seed: int, updates: int, rate: float) -> tuple[int, float]:
    """Train a model at one distance, and return the updates and the processor time in seconds.

    The training ends early if all of 200 sequences are right, which are neither trained on nor measured on.
    """
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / WARMUP))
    began, done = time.process_time(), 0
    for done in range(1, updates + 1):
        keys, values, answers = sequences(BATCH, distance, generator)
        loss = nn.functional.cross_entropy(model(keys, values), answers)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        is_solved = done % CHECK_EVERY == 0 and right_share(model, 200, distance, 20_000 + seed) == 1
        if is_solved or time.process_time() - began > MOST_SECONDS:
            break
    return done, time.process_time() - began


def show_recall(models: list[str], distances: list[int], seeds: int, updates: int, rate: float) -> None:
    """Print the share of right values of each model at each distance, which is trained from short to long."""
    print(
        f"\nRight values in % after training at each distance, its updates of {BATCH} sequences and seconds"
    )
    for name in models:
        size = sum(weights.numel() for weights in Recaller(BODIES[name]()).parameters())
        print(f"  {name:12} {size:7,} parameters")
        for seed in range(seeds):
            torch.manual_seed(seed)
            model = Recaller(BODIES[name]())
            for distance in sorted(distances):
                done, spent = train(model, distance, seed, updates, rate)
                share = right_share(model, MEASURED, distance, 10_000 + seed)
                print(
                    f"    seed {seed}, distance {distance:5}: {100 * share:5.1f} ({done} updates, {spent:.0f} s)",
                    flush=True,
                )


# ---- time and memory


def layers() -> dict[str, Callable[[Tensor], Tensor]]:
    """Return one layer of each kind, as a function from ``(b,n,m)`` to ``(b,n,m)``."""
    convolution, recurrent = Convolutions(WIDTH, 5, [1]), Recurrent(WIDTH)
    attend = MultiHeadAttention(WIDTH, 4)
    return {
        "convolution of 5": convolution,
        "gru": recurrent,
        "attention": lambda x: attend(x, x, x, need_weights=False)[0],
        "attention, weights kept": lambda x: attend(x, x, x)[0],
        "attention, window of 64": lambda x: attend(x, x, x, window(64), need_weights=False)[0],
    }


def processor_seconds(program: Callable[[], None], turns: int) -> float:
    """Return the processor time of the fastest turn, which other programs on the machine change little."""
    best = float("inf")
    for _ in range(turns + 1):
        began = time.process_time()
        program()
        best = min(best, time.process_time() - began)
    return best


def show_cost(only: str, lengths: list[int], turns: int) -> None:
    """Print the time and the memory of the layers whose name contains ``only``, by the length of the sequence."""
    print(
        f"\nOne layer of width {WIDTH}, one sequence, forward and backward: processor time in ms / memory in MB"
    )
    for name, layer in layers().items():
        if only not in name:
            continue
        cells = []
        for length in lengths:
            x = torch.randn(1, length, WIDTH, requires_grad=True)  # (1,n,m)

            def run(layer: Callable[[Tensor], Tensor] = layer, x: Tensor = x) -> None:
                layer(x).sum().backward()

            memory = peak_bytes(run)
            shown = "–" if memory is None else f"{memory / 2**20:.1f}"
            cells.append(f"{length}: {1000 * processor_seconds(run, turns):.1f} / {shown}")
        print(f"  {name:25} " + "   ".join(cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="?", choices=["recall", "cost"])
    parser.add_argument("--only", default="", help="only the models and layers whose name contains this")
    parser.add_argument("--distances", default=",".join(map(str, DISTANCES)))
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--updates", type=int, default=UPDATES)
    parser.add_argument("--rate", type=float, default=RATE, help="the learning rate")
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.part != "cost":
        distances = [int(one) for one in given.distances.split(",")]
        models = [name for name in BODIES if given.only in name]
        show_recall(models, distances, given.seeds, given.updates, given.rate)
    if given.part != "recall":
        show_cost(given.only, [int(one) for one in given.lengths.split(",")], given.turns)


if __name__ == "__main__":
    main()
