"""The interface of a task, of its predictor and of their results.

A task is data, a model, a loss and a measure. :mod:`regard.tasks.run` trains, resumes and evaluates any of them, and
the command line makes its commands and flags from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from regard.tasks.settings import EvaluationSettings

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from regard.capture import Recording
    from regard.tasks.card import Card, CardFacts
    from regard.training import TrainingTask

__all__ = ["Prediction", "Predictor", "Report", "ScoreReport", "Task", "WordWeights"]


class WordWeights(Protocol):
    """Attention weights between words, which ``--attention`` draws in the terminal."""

    @property
    def row_words(self) -> list[str]:
        """The words that attend, or the names of the rows."""
        ...

    @property
    def column_words(self) -> list[str]:
        """The words that are attended to."""
        ...

    @property
    def weights(self) -> np.ndarray:
        """The weights, (rows, columns)."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return the words and the weights as a JSON object."""
        ...


class Prediction(Protocol):
    """The answer of a predictor to one input."""

    def lines(self, *, scores: bool = False) -> list[str]:
        """Return the answer as lines of text, where ``scores`` adds scores or further candidates with their scores."""
        ...

    def to_json(self, attention: Any = None) -> dict[str, Any]:
        """Return the input and the answer as a JSON object, with :class:`WordWeights` if given."""
        ...


class Predictor(Protocol):
    """A trained model with its vocabularies."""

    @property
    def attends(self) -> bool:
        """Whether the model has attention to show."""
        return True

    def __call__(self, inputs: Iterable[Any], **options: Any) -> list[Any]:
        """Return one :class:`Prediction` for each input, in order."""
        ...

    def attention(self, prediction: Any) -> Recording:
        """Return all attention of the model for one prediction, as :func:`regard.capture` records it."""
        ...

    def word_weights(self, prediction: Any) -> list[Any]:
        """Return the :class:`WordWeights` of a prediction, one for each part of a long text."""
        ...

    def save(self, folder: Any, *, dtype: str = "float32", results: dict[str, Any] | None = None) -> None:
        """Write the model, its vocabularies and its settings into a folder."""
        ...


class Report(Protocol):
    """The result of an evaluation, which ``str()`` formats as text."""

    @property
    def notes(self) -> list[str]:
        """Remarks for the user, such as the number of rows that were left out."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as a JSON object."""
        ...


@dataclass(frozen=True)
class ScoreReport:
    """A report of named numbers.

    >>> print(ScoreReport({"accuracy": 98.5}))
    accuracy 98.50
    """

    values: dict[str, float]
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as a JSON object."""
        return self.values

    def __str__(self) -> str:
        return "\n".join(f"{name} {value:.2f}" for name, value in self.values.items())


class Task(Protocol):
    """The parts of a task that differ from those of other tasks.

    A class that inherits from ``Task`` has to define ``name``, ``settings``, ``predictor``, ``prepare``, ``build``,
    ``objective`` and ``evaluate``. ``docs/en/tasks.md`` shows a whole one.
    """

    name: ClassVar[str]
    settings: ClassVar[Any]  # a subclass of TaskSettings
    # The class of the predictor, usually a BundledPredictor.
    predictor: ClassVar[Any]
    evaluation: ClassVar[Any] = EvaluationSettings  # a subclass of Settings

    def check(self, settings: Any) -> None:
        """Raise an error if the settings cannot work, before anything that takes long."""

    def prepare(self, settings: Any, folder: Path, *, learn: bool, show: bool = False) -> Any:
        """Read the data, and learn the vocabularies into ``folder`` or read them from it.

        ``show`` reports progress on standard error.
        """
        ...

    def shared_files(self, settings: Any, folder: Path) -> list[Path]:
        """Return the files of the run folder that all processes need, such as vocabularies."""
        return []

    def describe(self, settings: Any, data: Any) -> list[str]:
        """Return lines about the data for the user, printed before the first step.

        By default they say how many rows were read and left out, if ``data.train`` is a
        :class:`~regard.text.PairData`.
        """
        from regard.tasks.pairs import counted_rows

        return counted_rows(getattr(data, "train", None), "rows")

    def show_example(self, settings: Any, data: Any, predictor: Any) -> None:
        """Print a prediction for an example of the validation data on standard error, after the training."""

    def next_command(self, settings: Any, model: str) -> str:
        """Return a command that uses the trained model in the folder ``model``, or "" for none."""
        return ""

    def build(self, settings: Any, data: Any) -> nn.Module:
        """Return a new model with random weights."""
        ...

    def objective(self, settings: Any, data: Any) -> TrainingTask:
        """Return the batches, the loss and the validation."""
        ...

    def load(self, folder: Path, device: str | None = None) -> Any:
        """Return the :class:`Predictor` in a folder."""
        return self.predictor.load(folder, device=device)

    def evaluate(self, predictors: Mapping[str, Any], options: Any) -> Report:
        """Measure predictors by name on the same data, and compare the others with the first."""
        ...

    def find(self, model: str | None, options: Mapping[str, Any]) -> Path:
        """Return the folder of the model with this name, or of the default model."""
        from regard.tasks.registry import find_model

        return find_model(self.name, model)

    def card(self, predictor: Any, settings: Any, facts: CardFacts) -> Card:
        """Return the card that is saved with a model."""
        from regard.tasks.card import Card, training_command

        command = training_command(self, settings)
        return Card(f"A model for {self.name}", predictor.model, command=command, facts=facts)

    def finish(self, predictor: Any) -> list[tuple[str, str]]:
        """Make a model ready to be given away, and return lines of results for its card."""
        return []

    def samples(self, predictor: Any, texts: list[str] | None) -> tuple[tuple[str, str], ...]:
        """Return inputs and outputs for the card, of ``texts`` or of texts of the task's own."""
        return ()
