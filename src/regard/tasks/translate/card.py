"""The card of a translator: what it is, what it was trained on, how good it is, and what it says."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from regard.tasks.translate.settings import TranslationSettings, with_defaults
from regard.tasks.translate.translator import Translator

__all__ = ["CardFacts", "everyday_sentences", "training_command", "write_card"]

FILES = ("data", "target_data", "valid", "target_valid", "exclude")
_NAMES = {"en": "English", "fr": "French", "zh": "Chinese (simplified)", "de": "German"}


@dataclass(frozen=True)
class CardFacts:
    """What the model itself cannot know."""

    license: str = ""
    data: str = ""  # what it was trained on, whose it is and under which licence
    results: tuple[tuple[str, str], ...] = ()
    preparation: str = ""  # commands to run before the training
    samples: tuple[tuple[str, str], ...] = ()
    notes: str = ""


def write_card(
    translator: Translator, path: Path, settings: TranslationSettings | None, facts: CardFacts
) -> None:
    """Write the card as Markdown."""
    path.write_text("\n".join(_lines(translator, settings, facts)) + "\n", encoding="utf-8")


def _lines(translator: Translator, settings: TranslationSettings | None, facts: CardFacts) -> list[str]:
    start, end = (_name(language) for language in (translator.source_language, translator.target_language))
    lines = [f"# {start} to {end}", "", _what(translator), ""]
    if facts.data:
        lines += ["## Data", "", facts.data, ""]
    if facts.license:
        lines += ["## Licence", "", facts.license, ""]
    if settings is not None:
        command = f"{facts.preparation}\n{training_command(settings)}".strip()
        lines += ["## Training", "", "```sh", command, "```", ""]
    if facts.results:
        lines += ["## Results", "", "| measured on | result |", "|---|---|"]
        lines += [f"| {_cell(what)} | {_cell(result)} |" for what, result in facts.results] + [""]
    if facts.notes:
        lines += ["## Limits", "", facts.notes, ""]
    if facts.samples:
        lines += [
            "## What it says",
            "",
            "As they came, none left out.",
            "",
            f"| {start} | {end} |",
            "|---|---|",
        ]
        lines += [f"| {_cell(source)} | {_cell(target)} |" for source, target in facts.samples]
    return lines


def _what(translator: Translator) -> str:
    model: Any = translator.model
    count = sum(p.numel() for p in model.parameters())
    config = model.config.to_json()
    kind = config.pop("kind")
    shown = ", ".join(f"{name}={value}" for name, value in config.items())
    return f"A {kind} of {count:,} parameters ({shown}). Made with Regard; use it with `regard translate`."


def training_command(settings: TranslationSettings) -> str:
    """The command line that trains with these settings.

    >>> training_command(TranslationSettings(data="x.tsv", valid="y.tsv", epochs=3.0, lowercase=True))
    'regard train translate --data x.tsv --valid y.tsv --lowercase --epochs 3.0'
    """
    words = ["regard", "train", "translate"]
    named = {name: getattr(settings, name) for name in ("data", "valid", "steps", "epochs")}
    usual = TranslationSettings(**with_defaults({name: value for name, value in named.items() if value}))
    for one in fields(settings):
        value = getattr(settings, one.name)
        if value == getattr(usual, one.name) and one.name not in named:
            continue
        flag = one.name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            words += [f"--{flag}", _file_name(value) if one.name in FILES else str(value)]
    return shlex.join(words)


def _file_name(value: str) -> str:
    """Where the data was on one machine is of no use on another; the name of a data set is."""
    if value.startswith("hf:/"):
        return f"hf:{Path(value).name}"
    return value if value.startswith("hf:") else Path(value).name


def everyday_sentences() -> list[str]:
    """Fifty English sentences, written before any model had seen them."""
    return (Path(__file__).parent / "everyday.txt").read_text(encoding="utf-8").splitlines()


def samples_of(translator: Translator, sentences: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Sentences and their translations."""
    return tuple((one.source, one.text) for one in translator.translate(list(sentences)))


def _name(language: str) -> str:
    return _NAMES.get(language, language or "?")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
