"""Training a translator from settings."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.errors import ArgumentError, FileError
from regard.files import make_folder, write_atomically
from regard.metrics import bleu
from regard.models import Seq2Seq, Seq2SeqConfig, Transformer, TransformerConfig
from regard.models.pretrained import read_json
from regard.tasks.translate.data import TranslationData, prepare, vocabulary_files
from regard.tasks.translate.locations import LOCATIONS, absolute, check_contents, contents_of, found_again
from regard.tasks.translate.settings import TranslationSettings
from regard.tasks.translate.task import TranslationTask
from regard.training import Outcome, TrainingOptions, train
from regard.training.distributed import Processes
from regard.training.folder import refuse_a_run
from regard.training.lock import lock_run

__all__ = ["build_model", "resume_translator", "settings_of_run", "train_translator"]

SETTINGS = "settings.json"
CONTENTS = "contents"  # in that file: a hash of what each file of the data holds
CHANGEABLE = ("steps", "epochs", "patience", "validate_every", "validate_sentences", "save_every", "keep")


def train_translator(
    settings: TranslationSettings, folder: str | Path, *, resume: bool = False, show: bool = True
) -> Outcome:
    """Train a translator in ``folder``; the best model is in its ``best/``."""
    processes = Processes.join()
    try:
        return _train(settings, Path(folder), processes, resume, show)
    finally:
        processes.leave()


def resume_translator(
    folder: str | Path, changes: dict[str, Any] | None = None, *, show: bool = True
) -> Outcome:
    """Go on with the run in ``folder``; the other processes get its settings from the first, who sees the folder."""
    folder = Path(folder)
    processes = Processes.join()
    try:
        held = processes.on_first(lambda: settings_of_run(folder, changes))
        text = processes.same_text(json.dumps(asdict(held)) if held else "")
        return _train(TranslationSettings.from_json(json.loads(text)), folder, processes, True, show)
    finally:
        processes.leave()


def _train(
    settings: TranslationSettings, folder: Path, processes: Processes, resume: bool, show: bool
) -> Outcome:
    options = TrainingOptions(**settings.part(TrainingOptions))
    _check_model(settings)
    show = show and processes.first
    with contextlib.ExitStack() as held:
        lock = lock_run(folder, make=not resume)
        processes.on_first(lambda: held.enter_context(lock))
        settings = _without_stdin(settings, folder, processes)
        if show and sys.stderr.isatty():  # the bar comes with the first step
            print("reading the data …", file=sys.stderr)
        processes.on_first(lambda: _begin(settings, folder, resume, show))
        _share_vocabularies(settings, folder, processes)
        data = prepare(settings, folder)  # the others find it ready, or on another machine make their own
        torch.manual_seed(settings.seed)
        model = build_model(settings, data)
        if show:
            print(_described(settings, data, model), file=sys.stderr)
        return train(model, TranslationTask(settings, data), options, folder, resume=resume, show=show)


def _described(settings: TranslationSettings, data: TranslationData, model: nn.Module) -> str:
    """What is trained on what, before the first step."""
    skipped = data.train.skipped
    lines = [f"data: {len(data.train) + skipped.total:,} pairs read, {len(data.train):,} of them to train on"]
    if skipped.total:
        lines.append(f"left out of the data: {skipped}")
    lines.append(f"validation: {len(data.valid):,} pairs held out")
    sizes = [f"{len(data.source):,} tokens"]
    if data.source is not data.target:
        sizes = [f"{len(data.source):,} tokens of {settings.source_language}"]
        sizes += [f"{len(data.target):,} of {settings.target_language}"]
    lines.append(f"vocabulary: {settings.vocabulary}, {', '.join(sizes)}")
    count = sum(p.numel() for p in model.parameters())
    lines.append(f"model: {settings.model}, {count:,} parameters")
    return "\n".join(lines)


def _check_model(settings: TranslationSettings) -> None:
    """See that the settings make a model, before the long work of reading the data."""
    model_config(settings, source_size=10, target_size=10)
    bleu(["a"], [["a"]])  # that what validates is installed


def _without_stdin(settings: TranslationSettings, folder: Path, processes: Processes) -> TranslationSettings:
    """Standard input as a file of the run: it is read more than once, and again on resuming."""
    if settings.data != "-":
        return settings
    path = folder / f"stdin.{settings.format or 'tsv'}"

    def keep() -> None:
        refuse_a_run(folder)
        make_folder(folder)
        write_atomically(path, _copy_stdin)

    processes.on_first(keep)
    return replace(settings, data=os.path.abspath(path))


def _copy_stdin(path: Path) -> None:
    with open(path, "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)


def _begin(settings: TranslationSettings, folder: Path, resume: bool, show: bool) -> None:
    """Make the folder, the vocabularies and the cache, and write down the settings."""
    if resume:
        contents = _kept_contents(folder)
        check_contents(settings, contents)
    else:
        refuse_a_run(folder)  # before its vocabularies and settings are replaced
        contents = contents_of(settings)
    make_folder(folder)
    prepare(settings, folder, learn=not resume, show=show)
    values = {**asdict(absolute(settings)), CONTENTS: contents}
    text = json.dumps(values, indent=2) + "\n"
    write_atomically(folder / SETTINGS, lambda part: part.write_text(text, encoding="utf-8"))


def _kept_contents(folder: Path) -> dict[str, str]:
    """Read the hashes of the data that a run was started with, which earlier versions did not write."""
    path = folder / SETTINGS
    contents = read_json(path).get(CONTENTS, {}) if path.is_file() else {}
    if not isinstance(contents, dict):
        raise FileError(f"{path}: {CONTENTS}: expected names and hashes, got {contents!r}")
    return contents


def _share_vocabularies(settings: TranslationSettings, folder: Path, processes: Processes) -> None:
    """The first process's vocabularies for all: on another machine there are none, or old ones."""
    make_folder(folder)
    for path in vocabulary_files(settings, folder):
        text = processes.same_text(path.read_text(encoding="utf-8") if processes.first else "")
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            write_atomically(path, lambda part, text=text: part.write_text(text, encoding="utf-8"))


def settings_of_run(folder: str | Path, changes: dict[str, Any] | None = None) -> TranslationSettings:
    """The settings that a run was started with; of ``changes`` only those that leave model and data as they are."""
    path = Path(folder) / SETTINGS
    if not path.is_file():
        raise FileError(f"{folder}: there is no run to resume here ({SETTINGS} is missing)")
    kept = read_json(path)
    kept.pop(CONTENTS, None)
    kept |= {name: found_again(kept.get(name), Path(folder)) for name in LOCATIONS}
    changes = dict(changes or {})
    if "steps" in changes or "epochs" in changes:  # both say how long: one takes the place of the other
        kept = {**kept, "steps": None, "epochs": None}
    for name, value in changes.items():
        if name not in (*CHANGEABLE, *LOCATIONS) and kept.get(name) != value:
            raise ArgumentError(
                name,
                f"the run was started with {kept.get(name)!r}, not {value!r}",
                f"a resumed run may change {', '.join(CHANGEABLE)}",
            )
    return TranslationSettings.from_json({**kept, **changes})


def build_model(settings: TranslationSettings, data: TranslationData) -> nn.Module:
    """A new model with random weights."""
    config = model_config(settings, source_size=len(data.source), target_size=len(data.target))
    return Transformer(config) if isinstance(config, TransformerConfig) else Seq2Seq(config)


def model_config(
    settings: TranslationSettings, *, source_size: int, target_size: int
) -> TransformerConfig | Seq2SeqConfig:
    """What the settings say about the model, for vocabularies of these sizes."""
    common: dict[str, Any] = {"source_size": source_size, "target_size": target_size}
    common["shared_embeddings"] = settings.shared_vocabulary
    if settings.model == "transformer":
        return TransformerConfig(**settings.part(TransformerConfig), **common)
    values = settings.part(Seq2SeqConfig)
    values["attention"] = None if settings.attention == "none" else settings.attention
    return Seq2SeqConfig(**values, **common)
