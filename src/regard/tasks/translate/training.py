"""Training a translator from settings."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.errors import ArgumentError, FileError
from regard.files import make_folder, write_atomically
from regard.models import Seq2Seq, Seq2SeqConfig, Transformer, TransformerConfig
from regard.models.pretrained import read_json
from regard.tasks.translate.data import TranslationData, prepare
from regard.tasks.translate.settings import TranslationSettings
from regard.tasks.translate.task import TranslationTask
from regard.training import Outcome, TrainingOptions, train
from regard.training.distributed import Processes
from regard.training.folder import refuse_a_run

__all__ = ["DEFAULTS", "build_model", "settings_of_run", "train_translator", "with_defaults"]

SETTINGS = "settings.json"
CHANGEABLE = ("steps", "epochs", "patience", "validate_every", "validate_sentences", "save_every", "keep")

# What is trained when no data is named: a model that learns the embedded corpus in some minutes.
DEFAULTS: dict[str, Any] = {
    "embedded": 100_000,
    "vocabulary_size": 2000,
    "width": 128,
    "heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "feed_forward": 256,
    "dropout": 0.0,
    "label_smoothing": 0.0,
    "steps": 400,
    "learning_rate": 4e-3,
    "warmup": 100,
    "average": 0.99,
}


def train_translator(
    settings: TranslationSettings, folder: str | Path, *, resume: bool = False, show: bool = True
) -> Outcome:
    """Train a translator in ``folder``; the best model is in its ``best/``."""
    folder = Path(folder)
    options = TrainingOptions(**settings.part(TrainingOptions))
    processes = Processes.join()
    try:
        processes.on_first(lambda: _begin(settings, folder, resume))
        data = prepare(settings, folder)  # the others find it ready, or on another machine make their own
        torch.manual_seed(settings.seed)
        model = build_model(settings, data)
        return train(model, TranslationTask(settings, data), options, folder, resume=resume, show=show)
    finally:
        processes.leave()


def _begin(settings: TranslationSettings, folder: Path, resume: bool) -> None:
    """Make the folder, the vocabularies and the cache, and write down the settings."""
    if not resume:
        refuse_a_run(folder)  # before its vocabularies and settings are replaced
    make_folder(folder)
    prepare(settings, folder)
    text = json.dumps(asdict(settings), indent=2) + "\n"
    write_atomically(folder / SETTINGS, lambda part: part.write_text(text, encoding="utf-8"))


def with_defaults(given: dict[str, Any]) -> dict[str, Any]:
    """Settings completed: a small model where no data is named, ten epochs where nothing says how long.

    >>> with_defaults({"data": "x.tsv", "width": 64})
    {'epochs': 10.0, 'data': 'x.tsv', 'width': 64}
    """
    defaults = {"epochs": 10.0} if given.get("data") else dict(DEFAULTS)
    if given.get("steps") or given.get("epochs"):
        defaults.pop("epochs", None)
        defaults.pop("steps", None)
    return {**defaults, **given}


def settings_of_run(folder: str | Path, changes: dict[str, Any] | None = None) -> TranslationSettings:
    """The settings that a run was started with; of ``changes`` only those that leave model and data as they are."""
    path = Path(folder) / SETTINGS
    if not path.is_file():
        raise FileError(f"{folder}: there is no run to resume here ({SETTINGS} is missing)")
    kept = read_json(path)
    for name, value in (changes or {}).items():
        if name not in CHANGEABLE and kept.get(name) != value:
            raise ArgumentError(
                name,
                f"the run was started with {kept.get(name)!r}, not {value!r}",
                f"a resumed run may change {', '.join(CHANGEABLE)}",
            )
    return TranslationSettings.from_json({**kept, **(changes or {})})


def build_model(settings: TranslationSettings, data: TranslationData) -> nn.Module:
    """A new model with random weights."""
    common: dict[str, Any] = {"source_size": len(data.source), "target_size": len(data.target)}
    common["shared_embeddings"] = settings.shared_vocabulary
    if settings.model == "transformer":
        return Transformer(TransformerConfig(**settings.part(TransformerConfig), **common))
    values = settings.part(Seq2SeqConfig)
    values["attention"] = None if settings.attention == "none" else settings.attention
    return Seq2Seq(Seq2SeqConfig(**values, **common))
