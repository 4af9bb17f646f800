"""Measure training and translation against nn.Transformer, Marian and JoeyNMT.

python benchmarks/bench_translate.py                     all parts, some minutes because a model is trained first
python benchmarks/bench_translate.py training            one part: training, marian, joey
python benchmarks/bench_translate.py joey --joey PYTHON  JoeyNMT, in its own environment:
    python -m venv joey && joey/bin/pip install torch==2.13.0 joeynmt==2.3.0     (then --joey joey/bin/python)

The data is Multi30k German to English, from REGARD_DATA or ../shared/data; without it nothing is measured.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from harness import Line, Work, at_least, seconds, show
from torch import Tensor, nn

from regard.decoding import DecodingOptions
from regard.models import Transformer, TransformerConfig
from regard.positions import sinusoidal
from regard.tasks.encoder_decoder import sentence_loss
from regard.tasks.translate import TranslationSettings, Translator, train_translator
from regard.text import Batch, BucketedBatches, PairData, load_vocabulary, pad_sequences, read_lines

DATA = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[2] / "shared" / "data")) / "multi30k"
SIZE: dict[str, Any] = {
    "width": 256,
    "heads": 4,
    "encoder_layers": 3,
    "decoder_layers": 3,
    "feed_forward": 1024,
}
DROPOUT, SMOOTHING, RATE = 0.1, 0.1, 1e-3
BEAMS = 5


def settings(steps: int) -> TranslationSettings:
    """Return the settings of a post-norm Transformer, which Marian and JoeyNMT have."""
    return TranslationSettings(
        source_language="de",
        target_language="en",
        data=str(DATA / "train.de.gz"),
        target_data=str(DATA / "train.en.gz"),
        valid=str(DATA / "val.de.gz"),
        target_valid=str(DATA / "val.en.gz"),
        lowercase=True,
        norm="post",
        activation="relu",
        steps=steps,
        warmup=200,
        learning_rate=RATE,
        validate_sentences=50,
        batch_tokens=4096,
        average=0.0,
        dropout=DROPOUT,
        attention_dropout=DROPOUT,  # as JoeyNMT has it
        **SIZE,
    )


# ---- training on identical batches


class PlainTransformer(nn.Module):
    """An encoder-decoder that uses ``nn.Transformer``, as a user would write it."""

    def __init__(self, vocabulary: int):
        super().__init__()
        width = SIZE["width"]
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        self.transformer = nn.Transformer(
            width,
            SIZE["heads"],
            SIZE["encoder_layers"],
            SIZE["decoder_layers"],
            SIZE["feed_forward"],
            DROPOUT,
            batch_first=True,
        )
        self.dropout = nn.Dropout(DROPOUT)
        self.output = nn.Linear(width, vocabulary)
        self.output.weight = self.embedding.weight
        self.pe = sinusoidal(512, width)

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * SIZE["width"] ** 0.5 + self.pe[: ids.shape[1]])

    def loss(self, batch: Batch) -> Tensor:
        hidden = batch.source == 0  # True is padding here
        causal = nn.Transformer.generate_square_subsequent_mask(batch.target_input.shape[1])
        states = self.transformer(
            self.embed(batch.source),
            self.embed(batch.target_input),
            tgt_mask=causal,
            tgt_is_causal=True,
            src_key_padding_mask=hidden,
            memory_key_padding_mask=hidden,
        )
        scores = self.output(states).flatten(0, 1)
        return nn.functional.cross_entropy(
            scores, batch.target_output.flatten(), ignore_index=0, label_smoothing=SMOOTHING, reduction="sum"
        )


def updates(model: nn.Module, loss: Callable[[Batch], Tensor], batches: list[Batch]) -> Work:
    """Return a function that makes one update with each batch."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)

    def program() -> None:
        for batch in batches:
            optimizer.zero_grad()
            (loss(batch) / batch.tokens).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    return program


def bench_training(folder: Path) -> list[Line]:
    data = PairData.open(folder / "cache")
    size = len(load_vocabulary(folder / "tokenizer.json"))
    batches = list(islice(BucketedBatches(data, tokens=4096).epoch(0), 6))
    tokens = sum(batch.tokens for batch in batches)
    lines = []
    for dropped in (DROPOUT, 0.0):
        config: dict[str, Any] = {"norm": "post", "activation": "relu", "shared_embeddings": True, **SIZE}
        config |= {"dropout": dropped, "attention_dropout": dropped}
        ours = Transformer(TransformerConfig(source_size=size, target_size=size, **config))
        plain = PlainTransformer(size)
        for module in plain.modules():
            if isinstance(module, nn.Dropout | nn.MultiheadAttention):
                setattr(module, "p" if isinstance(module, nn.Dropout) else "dropout", dropped)
        mine = updates(ours, lambda batch, m=ours: sentence_loss(m, batch, SMOOTHING), batches)
        theirs = updates(plain, plain.loss, batches)
        a, b = seconds(mine, theirs, turns=3)
        detail = f"({tokens / a:,.0f} tokens/s against {tokens / b:,.0f})"
        lines.append(
            at_least(f"training, dropout {dropped:g}", "nn.Transformer, same batches", b / a, 1.0, detail)
        )
    return lines


# ---- translating


def bench_marian(folder: Path) -> list[Line]:
    from marian import as_marian, generate

    translator = Translator.load(folder / "best")
    marian = as_marian(translator.model)
    texts = list(read_lines(str(DATA / "test_2016_flickr.de.gz")))
    encoded = translator.source.encode_batch(texts)
    order = sorted(range(len(texts)), key=lambda i: -len(encoded[i]))

    def theirs(early: bool) -> list[str]:
        found: dict[int, str] = {}
        for start in range(0, len(order), 64):
            places = order[start : start + 64]
            ids, lengths = pad_sequences([encoded[i] for i in places], end=2)
            mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
            limit = ids.shape[1] * 3 // 2 + 10
            out = generate(marian, ids, mask, beams=BEAMS, limit=limit, early=early)
            texts_of = (translator.target.decode(row[1:].tolist()) for row in out)
            found.update(zip(places, texts_of, strict=True))
        return [found[i] for i in range(len(texts))]

    def ours() -> list[str]:
        return [one.text for one in translator.translate(texts, DecodingOptions(beams=BEAMS))]

    # early_stopping=True ends a sentence when as many hypotheses ended as there are beams, as Regard does.
    programs = {"ours": ours, "": lambda: theirs(False), ", early_stopping": lambda: theirs(True)}
    best, outputs = _raced(programs)
    lines = []
    for name in list(programs)[1:]:
        same = sum(a == b for a, b in zip(outputs["ours"], outputs[name], strict=True))
        speeds = f"{len(texts) / best['ours']:.1f} sentences/s against {len(texts) / best[name]:.1f}"
        ratio = best[name] / best["ours"]
        peer = f"Marian.generate{name}, same weights"
        lines.append(at_least("beam 5, test_2016", peer, ratio, 2.0, f"({speeds}; {same} alike)"))
    return lines


def _raced(programs: dict[str, Callable[[], list[str]]]) -> tuple[dict[str, float], dict[str, list[str]]]:
    """Return the shorter of two times of each program, measured in turns, and its output."""
    best = dict.fromkeys(programs, float("inf"))
    outputs: dict[str, list[str]] = {}
    for _ in range(2):
        for name, program in programs.items():
            began = time.perf_counter()
            outputs[name] = program()
            best[name] = min(best[name], time.perf_counter() - began)
    return best, outputs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", help="training, marian, joey; all by default")
    parser.add_argument(
        "--run", type=Path, help="a folder to train in, or that was trained in, by this program"
    )
    parser.add_argument("--steps", type=int, default=400, help="of that training")
    parser.add_argument("--joey", help="the python of an environment with JoeyNMT")
    given = parser.parse_args()
    if not DATA.is_dir():
        print(f"left out: there is no Multi30k in {DATA} (REGARD_DATA names another folder)")
        return
    parts = given.parts or ["training", "marian", "joey"]
    folder = given.run or Path(tempfile.mkdtemp()) / "run"
    if not (folder / "best" / "config.json").is_file():
        train_translator(settings(given.steps), folder, show=sys.stderr.isatty())
    if "training" in parts:
        show("Training", bench_training(folder))
    if "marian" in parts:
        show("Translating, beside Hugging Face", bench_marian(folder))
    if "joey" in parts:
        if not given.joey:
            print("\nJoeyNMT is left out: name its python with --joey (see --help)")
            return
        from joey import bench_joey

        show("JoeyNMT", bench_joey(given.joey, folder, DATA, SIZE, given.steps))


if __name__ == "__main__":
    main()
