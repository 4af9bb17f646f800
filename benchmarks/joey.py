"""Measure JoeyNMT 2.3 on the same data, with the same tokens and model size, in its own environment."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

from harness import Line, at_least

from regard.decoding import DecodingOptions
from regard.tasks.translate import Translator
from regard.text import PairData, read_lines

REPORT = 20  # updates between two lines of JoeyNMT's log


def bench_joey(python: str, folder: Path, data: Path, size: dict[str, int], steps: int) -> list[Line]:
    """Compare training and beam-5 translation of the test set, after the same number of updates."""
    work = folder / "joey"
    work.mkdir(exist_ok=True)
    translator = Translator.load(folder / "best")
    reported = -(-steps // REPORT) * REPORT  # JoeyNMT saves only when it reports
    config = _prepare(work, folder, translator, data, size, reported)
    _run(python, "train", config, "--skip-test")
    log = (work / "model" / "train.log").read_text(encoding="utf-8")
    speeds = [float(found) for found in re.findall(r"Tokens per Sec:\s+(\d+)", log)]
    theirs = sum(speeds[1:]) / len(speeds[1:])  # the first lines warm up
    mine = _our_speed(folder)
    detail = f"({mine:,.0f} tokens/s against {theirs:,.0f})"
    lines = [at_least("training, end to end", "JoeyNMT 2.3", mine / theirs, 1.3, detail)]
    return [*lines, _translation(python, config, work, translator, data)]


def _translation(python: str, config: Path, work: Path, translator: Translator, data: Path) -> Line:
    texts = list(read_lines(str(data / "test_2016_flickr.de.gz")))
    began = time.perf_counter()
    found = translator.translate(texts, DecodingOptions(beams=5))
    mine = time.perf_counter() - began
    _write_side(work / "mine.txt", [one.target_ids for one in found])
    _run(python, "test", config, "-o", str(work / "out"))
    log = (work / "model" / "test.log").read_text(encoding="utf-8")
    theirs = float(re.findall(r"Generation took ([\d.]+)\[sec\]", log)[-1])  # the last is the test set
    words = [_words(path) for path in (work / "mine.txt", work / "out.test")]
    speeds = f"{len(texts) / mine:.1f} sentences/s against {len(texts) / theirs:.1f}"
    detail = f"({speeds}; {words[0]} and {words[1]} tokens)"
    return at_least("beam 5, test_2016", "JoeyNMT 2.3", theirs / mine, 3.0, detail)


def _words(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").split())


def _our_speed(folder: Path) -> float:
    """Return the mean target tokens per second over the lines of metrics.jsonl, as JoeyNMT counts them.

    The file counts the tokens of both sides. The targets' share is that of the whole training data.
    """
    store = PairData.open(folder / "cache")
    source, target = (int(side.lengths().sum()) + len(store) for side in (store.source, store.target))
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    speeds = [line["tokens_per_second"] for line in lines if "tokens_per_second" in line]
    return sum(speeds) / len(speeds) * target / (source + target)


def _prepare(
    work: Path, folder: Path, translator: Translator, data: Path, size: dict[str, int], steps: int
) -> Path:
    """Write the tokens as words, for the same vocabulary, and the configuration of the same model."""
    store = PairData.open(folder / "cache")
    pairs = [store.pair(i) for i in range(len(store))]
    _write_side(work / "train.de", [source for source, _ in pairs])
    _write_side(work / "train.en", [target for _, target in pairs])
    for name, short in (("val", "dev"), ("test_2016_flickr", "test")):
        for language in ("de", "en"):
            texts = list(read_lines(str(data / f"{name}.{language}.gz")))
            _write_side(work / f"{short}.{language}", translator.source.encode_batch(texts))
    words = ["<unk>", "<pad>", "<s>", "</s>", *(f"t{i}" for i in range(3, len(translator.source)))]
    (work / "vocabulary.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    path = work / "config.yaml"
    path.write_text(json.dumps(_config(work, size, steps)), encoding="utf-8")  # JSON is YAML
    return path


def _write_side(path: Path, sequences: Any) -> None:
    lines = (" ".join(f"t{int(i)}" for i in sequence) + "\n" for sequence in sequences)
    path.write_text("".join(lines), encoding="utf-8")


def _config(work: Path, size: dict[str, int], steps: int) -> dict[str, Any]:
    side = {"level": "word", "max_length": 128, "lowercase": False, "voc_file": str(work / "vocabulary.txt")}
    part = {
        "type": "transformer",
        "num_heads": size["heads"],
        "hidden_size": size["width"],
        "ff_size": size["feed_forward"],
        "dropout": 0.1,
        "layer_norm": "post",
        "embeddings": {"embedding_dim": size["width"], "scale": True, "dropout": 0.1},
    }
    return {
        "name": "bench",
        "joeynmt_version": "2.3.0",
        "model_dir": str(work / "model"),
        "use_cuda": False,
        "fp16": False,
        "random_seed": 42,
        "data": {
            "train": str(work / "train"),
            "dev": str(work / "dev"),
            "test": str(work / "test"),
            "dataset_type": "plain",
            "src": {"lang": "de", **side},
            "trg": {"lang": "en", **side},
        },
        "testing": {
            "n_best": 1,
            "beam_size": 5,
            "beam_alpha": 1.0,
            "batch_size": 64,
            "batch_type": "sentence",
            "max_output_length": 60,
            "eval_metrics": ["bleu"],
        },
        "training": {
            "optimizer": "adamw",
            "learning_rate": 0.001,
            "label_smoothing": 0.1,
            "normalization": "tokens",
            "batch_size": 4096,
            "batch_type": "token",
            "clip_grad_norm": 1.0,
            "scheduling": "warmupinversesquareroot",
            "learning_rate_warmup": 200,
            "epochs": 100,
            "updates": steps,
            "logging_freq": REPORT,
            "validation_freq": steps,
            "loss": "crossentropy",
            "overwrite": True,
            "num_workers": 0,
            "early_stopping_metric": "ppl",
            "print_valid_sents": [],
        },
        "model": {
            "initializer": "xavier_uniform",
            "bias_initializer": "zeros",
            "init_gain": 1.0,
            "embed_initializer": "xavier_uniform",
            "embed_init_gain": 1.0,
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": {**part, "num_layers": size["encoder_layers"]},
            "decoder": {**part, "num_layers": size["decoder_layers"]},
        },
    }


def _run(python: str, mode: str, config: Path, *words: str) -> None:
    command = [python, "-m", "joeynmt", mode, str(config), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    if done.returncode:
        raise SystemExit(f"JoeyNMT failed:\n{done.stderr[-3000:]}")
