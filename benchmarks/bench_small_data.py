"""Train on eight small data sets with the default settings, and compare with ten times as many epochs.

python benchmarks/bench_small_data.py                           all sets, three seeds each
python benchmarks/bench_small_data.py --only topics --only shapes
python benchmarks/bench_small_data.py --seeds 1 --without-long  quick

The rows of every set are made by rules, from a seed: some hundred to train on and 1,000 others to test on. The numbers
are the percentages of the test rows whose prediction is exactly right. A set passes if the mean of the default runs is
at most 3 points below the run with ten times the epochs. A line is printed as soon as a set is done, so the program may
be interrupted. It exits with 1 if a set fails.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from regard import tasks

TEST_ROWS = 1000
LONGER = 10
POINTS = 3.0

Example = tuple[Any, str]  # what a predictor reads, and what it should return


@dataclass(frozen=True)
class SmallSet:
    """A data set made by rules: ``rows`` to train on, each made by ``make`` from random numbers."""

    task: str
    rows: int
    make: Callable[[random.Random], Example]
    settings: tuple[tuple[str, Any], ...] = ()  # that the form of the data needs


def topic(rng: random.Random) -> Example:
    """Return a text of common words with one word of its topic."""
    label = rng.choice(list(TOPICS))
    words = rng.choices(COMMON, k=rng.randint(6, 12))
    words.insert(rng.randint(0, len(words)), rng.choice(TOPICS[label]))
    return " ".join(words), label


def opinion(rng: random.Random) -> Example:
    """Return an opinion whose adjective may be negated."""
    label, negated = rng.choice(("good", "bad")), rng.random() < 0.5
    other = {"good": "bad", "bad": "good"}[label]
    adjective = rng.choice(ADJECTIVES[other if negated else label])
    text = f"the {rng.choice(THINGS)} was {'not' if negated else rng.choice(('very', 'quite'))} {adjective}"
    return f"{text} {rng.choice(ENDS)}".strip(), label


def actor(rng: random.Random) -> Example:
    """Return a sentence in the active or the passive voice, with the animal that acts."""
    one, other = rng.sample(ANIMALS, 2)
    verb, end = rng.choice(VERBS), rng.choice(ENDS)
    if rng.random() < 0.5:
        return f"the {one} {verb} the {other} {end}".strip(), one
    return f"the {other} was {verb} by the {one} {end}".strip(), one


def shape(rng: random.Random) -> Example:
    """Return a grey picture of one shape on a noisy background."""
    name = rng.choice(SHAPES)
    size, noise = 28, np.random.default_rng(rng.getrandbits(32))
    picture = noise.integers(0, 60, (size, size))
    picture[drawn(name, size, rng)] = rng.randint(120, 255)
    return picture.astype(np.uint8), name


def caption(rng: random.Random) -> Example:
    """Return a picture of one coloured shape, with its caption."""
    name, colour, size = rng.choice(SHAPES), rng.choice(list(COLOURS)), 32
    side = rng.choice(("left", "right"))
    picture = np.full((size, size, 3), 20, dtype=np.uint8)
    picture[drawn(name, size, rng, side)] = COLOURS[colour]
    return picture, f"a {colour} {name} on the {side}"


def drawn(name: str, size: int, rng: random.Random, side: str = "") -> np.ndarray:
    """Return which pixels of a picture belong to a shape at a random place, ``(size, size)``."""
    radius = rng.randint(4, 6)
    x, y = (rng.randint(radius + 1, size - radius - 2) for _ in range(2))
    if side:
        x = rng.randint(radius, size // 2 - radius) + (size // 2 - 1 if side == "right" else 0)
    down, across = np.mgrid[:size, :size]
    right, below = across - x, down - y
    inside = np.maximum(abs(right), abs(below)) <= radius
    if name == "square":
        return inside
    if name == "circle":
        return right**2 + below**2 <= radius**2
    return inside & (2 * abs(right) <= below + radius)  # a triangle


def date(rng: random.Random) -> Example:
    """Return a date in words, with the same date in digits."""
    day, month, year = rng.randint(1, 28), rng.randint(1, 12), rng.randint(1990, 2029)
    return f"{day} {MONTHS[month - 1]} {year}", f"{year} - {month:02} - {day:02}"


def sentence(rng: random.Random) -> Example:
    """Return a sentence, with its translation into an invented language whose adjectives follow their nouns."""
    first, second = ((rng.choice(list(NOUNS)), rng.choice([*QUALITIES, ""])) for _ in range(2))
    verb = rng.choice(list(ACTIONS))
    english = " ".join(f"the {quality} {noun}".replace("  ", " ") for noun, quality in (first, second))
    words = [
        " ".join(["lo", NOUNS[noun], QUALITIES.get(quality, "")]).strip() for noun, quality in (first, second)
    ]
    place = english.index("the", 1)
    return f"{english[:place]}{verb} {english[place:]}", f"{words[0]} {ACTIONS[verb]} {words[1]}"


def question(rng: random.Random) -> Example:
    """Return a question on a text of three people, with its answer."""
    people, places, jobs = rng.sample(PEOPLE, 3), rng.sample(PLACES, 3), rng.sample(JOBS, 3)
    text = " ".join(
        f"{name} lives in {place} and works as a {job}."
        for name, place, job in zip(people, places, jobs, strict=True)
    )
    asked = rng.randrange(3)
    if rng.random() < 0.5:
        return (f"Where does {people[asked]} live?", text), places[asked]
    return (f"What does {people[asked]} work as?", text), f"a {jobs[asked]}"


TOPICS = {
    "sport": ["match", "goal", "team", "player", "coach", "league", "score", "race"],
    "food": ["soup", "bread", "oven", "salt", "cook", "recipe", "cheese", "dinner"],
    "law": ["court", "judge", "trial", "lawyer", "crime", "witness", "appeal", "verdict"],
}
COMMON = [
    "the",
    "a",
    "on",
    "in",
    "with",
    "we",
    "today",
    "people",
    "saw",
    "was",
    "very",
    "new",
    "old",
    "there",
    "after",
    "before",
    "when",
    "said",
    "they",
    "some",
]
ADJECTIVES = {
    "good": ["good", "great", "fine", "lovely", "superb", "friendly", "fresh", "charming"],
    "bad": ["bad", "awful", "poor", "dreadful", "boring", "rude", "stale", "broken"],
}
THINGS = ["film", "food", "room", "service", "hotel", "staff", "book", "play", "view", "music"]
ENDS = ("", "today", "again", "in the end", "they say")
ANIMALS = ["dog", "cat", "horse", "cow", "fox", "hen"]
VERBS = ["chased", "followed", "helped", "pushed", "found", "watched", "heard", "pulled"]
SHAPES = ("circle", "square", "triangle")
COLOURS = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (40, 60, 230), "yellow": (230, 220, 40)}
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
NOUNS = {"dog": "perro", "cat": "mika", "bird": "aviol", "horse": "kabal", "child": "nino", "fish": "peska"}
QUALITIES = {"small": "petu", "big": "grano", "red": "rosal", "old": "velko", "young": "jovi"}
ACTIONS = {"sees": "vidas", "likes": "amis", "follows": "segun", "finds": "trovas", "hears": "audis"}
PEOPLE = [
    "Anna",
    "Ben",
    "Clara",
    "David",
    "Emma",
    "Felix",
    "Grace",
    "Henry",
    "Irene",
    "Jack",
    "Karen",
    "Leo",
    "Maria",
    "Noah",
    "Olga",
    "Paul",
]
PLACES = [
    "Oslo",
    "Rome",
    "Paris",
    "Lima",
    "Cairo",
    "Delhi",
    "Tokyo",
    "Quito",
    "Accra",
    "Dublin",
    "Vienna",
    "Prague",
]
JOBS = ["baker", "teacher", "doctor", "farmer", "pilot", "nurse", "painter", "lawyer", "driver", "gardener"]

SETS = {
    "topics": SmallSet("classify", 300, topic),
    "negation": SmallSet("classify", 400, opinion),
    "order": SmallSet("classify", 300, actor),
    "shapes": SmallSet("images", 180, shape),
    "language": SmallSet("translate", 300, sentence),
    "questions": SmallSet("answer", 400, question),
    "captions": SmallSet(
        "caption", 300, caption, (("image_height", 32), ("image_width", 32), ("channels", 3))
    ),
    "dates": SmallSet("translate", 500, date),
}


def examples(name: str) -> tuple[list[Example], list[Example]]:
    """Return the rows of a set to train on, and others to test on."""
    made, rng = SETS[name], random.Random(name)
    found: dict[Any, Example] = {}
    while len(found) < made.rows + TEST_ROWS:
        read, wanted = made.make(rng)
        found.setdefault(read.tobytes() if isinstance(read, np.ndarray) else read, (read, wanted))
    rows = list(found.values())
    return rows[: made.rows], rows[made.rows :]


def write(made: SmallSet, rows: list[Example], folder: Path) -> Path:
    """Write rows into the files that the task reads, and return the one to name with ``data``."""
    if made.task == "images":
        for number, (picture, label) in enumerate(rows):
            (folder / "pictures" / label).mkdir(parents=True, exist_ok=True)
            Image.fromarray(picture).save(folder / "pictures" / label / f"{number}.png")
        return folder / "pictures"
    lines = []
    for number, (read, wanted) in enumerate(rows):
        if made.task == "answer":
            asked, context = read
            answer = {"text": wanted, "answer_start": context.index(wanted)}
            lines.append(json.dumps({"question": asked, "context": context, "answers": [answer]}))
            continue
        if made.task == "caption":
            Image.fromarray(read).save(folder / f"{number}.png")
            read = f"{number}.png"
        lines.append(f"{read}\t{wanted}")
    data = folder / f"data.{'jsonl' if made.task == 'answer' else 'tsv'}"
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return data


@dataclass(frozen=True)
class Run:
    """The percentage of right predictions, the seconds and the epochs of a run, and its updates."""

    right: float
    seconds: float
    epochs: float
    steps: int


def run(made: SmallSet, data: Path, test: list[Example], folder: Path, **settings: Any) -> Run:
    """Train on the data, and measure the model on the test rows."""
    began = time.perf_counter()
    outcome = tasks.train(
        made.task, {"data": str(data), **dict(made.settings), **settings}, folder, show=False
    )
    spent = time.perf_counter() - began
    if outcome.stopped == "interrupted":
        raise KeyboardInterrupt
    predictions = tasks.load(folder)([read for read, _ in test])
    named = "label" if made.task in ("classify", "images") else "text"
    right = [getattr(one, named) == wanted for one, (_, wanted) in zip(predictions, test, strict=True)]
    return Run(100 * statistics.mean(right), spent, tasks.settings_of_run(folder).epochs, outcome.step)


def measured(name: str, seeds: int, *, long: bool) -> tuple[str, bool]:
    """Return the line of a set in the table, and whether it passes."""
    made = SETS[name]
    rows, test = examples(name)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        data = write(made, rows, folder)
        runs = [run(made, data, test, folder / f"default-{seed}", seed=seed) for seed in range(seeds)]
        mean = statistics.mean(one.right for one in runs)
        each = ", ".join(f"{one.right:.1f}" for one in runs)
        spent = statistics.mean(one.seconds for one in runs)
        cells = [name, made.task, str(made.rows), str(runs[0].steps), f"{mean:.1f} ({each})"]
        if not long:
            return _row([*cells, "", "", f"{spent:.0f}", ""]), True
        other = run(made, data, test, folder / "long", epochs=LONGER * runs[0].epochs, patience=0)
    difference = mean - other.right
    cells += [f"{other.right:.1f}", f"{difference:+.1f}", f"{spent:.0f}", f"{other.seconds:.0f}"]
    return _row(cells), difference >= -POINTS


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Print the table, and return 1 if a set fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=SETS, help="a set to run, by default all")
    parser.add_argument("--seeds", type=int, default=3, help="default runs of each set")
    parser.add_argument(
        "--without-long", action="store_true", help="leave out the runs of ten times the epochs"
    )
    options = parser.parse_args()
    heads = ["set", "task", "rows", "updates", f"default (mean of {options.seeds})", "10×", "difference"]
    print(_row([*heads, "seconds", "seconds of 10×"]))
    print("|---" * (len(heads) + 2) + "|", flush=True)
    failed = []
    for name in options.only or SETS:
        try:
            line, passed = measured(name, options.seeds, long=not options.without_long)
        except KeyboardInterrupt:
            print(f"interrupted in {name}", file=sys.stderr)
            return 130
        print(line, flush=True)
        failed += [] if passed else [name]
    if failed:
        print(f"more than {POINTS:g} points below ten times the epochs: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
