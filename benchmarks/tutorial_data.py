"""Measure how much data a translator needs, with attention and without.

python benchmarks/tutorial_data.py                                all sizes
python benchmarks/tutorial_data.py --sizes 300,1000 --limit 200   some of them, on fewer test sentences

A recurrent encoder-decoder learns English to French from some sentences of the embedded corpus. One has
additive attention, the other one fixed vector for the whole sentence. Both have the same width, the same
number of updates and the same batches. The vocabulary is that of the training sentences. Of each run the best
weights are kept, by BLEU on 100 validation sentences. BLEU is that of other sentences, the test part of the
corpus, with greedy search.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch

from regard.corpus import generate
from regard.decoding import DecodingOptions
from regard.tasks.translate import TranslationSettings, Translator, evaluate, train_translator

SIZES = (300, 1000, 3000, 10_000)
SCORES = {"none": "one fixed vector", "additive": "additive attention"}


def settings(size: int, score: str, steps: int, seed: int) -> TranslationSettings:
    """Return the settings of a small recurrent translator on ``size`` sentences."""
    return TranslationSettings(
        source_language="en",
        target_language="fr",
        embedded=size,
        vocabulary_size=1500,
        architecture="seq2seq",
        score=score,
        width=96,
        encoder_layers=1,
        decoder_layers=1,
        dropout=0.2,
        label_smoothing=0.0,
        batch_tokens=600,
        steps=steps,
        learning_rate=4e-3,
        warmup=100,
        average=0.99,
        validate_every=steps // 2,
        validate_sentences=100,
        seed=seed,
    )


def quality(
    size: int, score: str, steps: int, seed: int, pairs: list[tuple[str, str]]
) -> tuple[float, float]:
    """Train a translator, and return its BLEU on the pairs and the seconds of processor time of its training."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        train_translator(settings(size, score, steps, seed), Path(folder), show=False)
        spent = time.process_time() - began
        translator = Translator.load(folder)
        result = evaluate(translator, pairs, DecodingOptions(beams=1), normalize=False)
    return result.bleu.score, spent


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of training sentences")
    parser.add_argument("--steps", type=int, default=800, help="updates of each run")
    parser.add_argument("--limit", type=int, default=500, help="test sentences")
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    test = [(one.english.text, one.french.text) for one in generate(given.limit, split="test")]
    print(f"BLEU on {len(test)} test sentences after {given.steps} updates, mean of {given.seeds} seed(s)")
    print("  training sentences   " + "   ".join(f"{name:>18}" for name in SCORES.values()), flush=True)
    for size in map(int, given.sizes.split(",")):
        cells = []
        for score in SCORES:
            runs = [quality(size, score, given.steps, seed, test) for seed in range(given.seeds)]
            bleus = [bleu for bleu, _ in runs]
            spread = f" ±{(max(bleus) - min(bleus)) / 2:.1f}" if given.seeds > 1 else ""
            cells.append(f"{sum(bleus) / len(bleus):.1f}{spread} [{runs[0][1]:.0f} s]".rjust(18))
        print(f"  {size:18,}   " + "   ".join(cells), flush=True)


if __name__ == "__main__":
    main()
