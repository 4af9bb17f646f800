"""The card of a model as Markdown, with its data, training command, results and samples."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from regard.settings import Settings, flag_of_field
from regard.tasks.settings import TaskSettings
from regard.training.settings import DURATIONS

if TYPE_CHECKING:
    from regard.tasks.base import Task

__all__ = ["Card", "CardFacts", "training_command"]


@dataclass(frozen=True)
class CardFacts:
    """Facts that the model itself does not contain."""

    license: str = ""
    # The training data, its owner and its licence.
    data: str = ""
    results: tuple[tuple[str, str], ...] = ()
    preparation: str = ""  # commands to run before the training
    samples: tuple[tuple[str, str], ...] = ()
    notes: str = ""


@dataclass(frozen=True)
class Card:
    """The text of a card. ``heads`` are the two columns of its samples."""

    title: str
    model: nn.Module
    command: str = ""  # the command that trains the model
    use: str = ""  # a sentence on how to use it
    heads: tuple[str, str] = ("input", "output")
    facts: CardFacts = field(default_factory=CardFacts)

    def write(self, path: Path) -> None:
        """Write the card into a file."""
        path.write_text("\n".join(self._lines()) + "\n", encoding="utf-8")

    def _lines(self) -> list[str]:
        facts = self.facts
        lines = [f"# {self.title}", "", self._summary(), ""]
        if facts.data:
            lines += ["## Data", "", facts.data, ""]
        if facts.license:
            lines += ["## Licence", "", facts.license, ""]
        if self.command:
            command = f"{facts.preparation}\n{self.command}".strip()
            lines += ["## Training", "", "```sh", command, "```", ""]
        if facts.results:
            lines += ["## Results", "", "| measured on | result |", "|---|---|"]
            lines += [f"| {_cell(name)} | {_cell(result)} |" for name, result in facts.results] + [""]
        if facts.notes:
            lines += ["## Limits", "", facts.notes, ""]
        if facts.samples:
            lines += ["## Samples", "", "All of them, none left out.", ""]
            lines += [f"| {self.heads[0]} | {self.heads[1]} |", "|---|---|"]
            lines += [f"| {_cell(source)} | {_cell(target)} |" for source, target in facts.samples]
        return lines

    def _summary(self) -> str:
        count = sum(p.numel() for p in self.model.parameters())
        config: Any = getattr(self.model, "config", None)
        values = config.to_json() if config else {}
        kind = values.pop("kind", type(self.model).__name__)
        shown = ", ".join(f"{name}={value}" for name, value in values.items())
        sizes = f" ({shown})" if shown else ""
        return f"A model of the kind `{kind}` with {count:,} parameters{sizes}. Made with Regard. {self.use}".rstrip()


def training_command(task: Task, settings: TaskSettings | None) -> str:
    """Return the command line that trains with these settings, or an empty text if they are not known.

    >>> from regard.tasks import find_task
    >>> task = find_task("translate")
    >>> training_command(task, task.settings(data="x.tsv", valid="y.tsv", epochs=3.0, lowercase=True))
    'regard train translate --data x.tsv --valid y.tsv --lowercase --epochs 3.0'
    """
    if settings is None:
        return ""
    words = ["regard", "train", task.name]
    names = [one.name for one in fields(settings)]
    always = {name: getattr(settings, name) for name in ("data", "valid", *DURATIONS) if name in names}
    usual = _usual(settings, {name: value for name, value in always.items() if value})
    for one in fields(settings):
        value = getattr(settings, one.name)
        if value == getattr(usual, one.name) and one.name not in always:
            continue
        flag = flag_of_field(one)
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag.removeprefix('--')}")
        elif value is not None:
            words += [flag, _file_name(value) if one.name in settings.locations else str(value)]
    return shlex.join(words)


def _usual(settings: TaskSettings, given: dict[str, Any]) -> Settings:
    """Return the settings that a run has if only ``given`` are given."""
    kind = type(settings)
    return kind(**kind.complete(given))


def _file_name(value: str) -> str:
    """Return the name of a file without its folder, which is of no use on another machine."""
    if value.startswith("hf:/"):
        return f"hf:{Path(value).name}"
    return value if value.startswith("hf:") else Path(value).name


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
